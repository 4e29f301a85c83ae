"""Stored content cannot leave its place on a page, and every id, however odd, can be looked at."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest

from stores_cli.output import printable
from stores_cli.ui.markup import address, element, field_of, id_of, joined
from stores_core import Event, MemoryItem, Message, ToolCall, ToolResult, open_backend
from tests.command_line import HOSTILE, sqlite, url
from tests.ui_asking import HOST, Browsing, Seen, browsing

__all__ = ["sqlite", "url"]  # fixtures

ODD = (
    "<script>document.title='owned'</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</pre></details></title><svg onload=alert(1)>",
    "javascript:alert(1)",
    "//elsewhere.example/",
    "&lt;b&gt; &amp; &#x3c;",
    "]]><!--",
    "a\r\nb\n\tc",
    " a  b ",
    "\nbegins with a line end",
    "../..",
    "50%25 %0a%00",
    "a?b#c&id=d;e+f",
    "\x01\x7f\x9b\u202e\u2066\ufeff",
    "naïve 🐢 e\u0301",
    HOSTILE,
)


@asynccontextmanager
async def filled(url: str) -> AsyncGenerator[Browsing]:
    """The pages of a storage in which everything bears odd names."""
    async with open_backend(url) as backend:
        for odd in ODD:
            call = ToolCall(id=odd, name=odd, args={odd: odd})
            said = Message.model_validate(
                {"role": odd, "text": odd, "tool_calls": [call], "tool_call_id": odd, odd: odd}
            )
            happened = Event(kind=odd, text=odd, error=odd, reason=odd, tool_call=call)
            await backend.runs.create_run(run_id=odd, labels={odd: odd})
            await backend.runs.append_messages(run_id=odd, messages=[said], events=[happened])
            await backend.runs.fork_run(run_id=odd, new_run_id=f"{odd} again")
            note = MemoryItem(key=odd, value=odd, metadata={odd: odd})
            await backend.memory.put_memory(item=note, namespace=odd)
            result = ToolResult(content=[{"type": "text", "text": odd}])
            await backend.tool_results.put_tool_result(ref=odd, result=result, labels={odd: odd})
    async with browsing(url) as ask:
        yield ask


async def test_following_all_links_meets_every_id_and_nothing_that_runs(url: str) -> None:
    """`Seen` refuses any element, attribute or address that is none of ours."""
    async with filled(url) as ask:
        left, met = ["/"], {"/"}
        titles: set[str] = set()
        while left:
            answer = await ask.client.get(left.pop())
            assert answer.status_code == 200, answer.text
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\ufeff]", answer.text)
            seen = Seen(answer.text)
            titles.add(seen.text.partition(" - agent-stores")[0].strip())
            new = set(seen.links) - met
            met |= new
            left += new
        for odd in ODD:
            shown = printable(odd, lines=True)
            for title in (
                f"Run {shown}", f"Run {shown} again", f"Family of {shown}", f"Notes of {shown}",
                f"Note {shown}", f"Tool result {shown}", f"Message 0 of {shown}",
                f"Event 0 of {shown}",
            ):  # fmt: skip
                assert title.strip() in titles


async def test_what_was_asked_for_is_escaped_too(sqlite: str) -> None:
    async with browsing(sqlite) as ask:
        for odd in ODD:
            for name in ("label", "parent", "cursor", "id", "query", "find", "prefix", "start"):
                for place in ("/", "/run", "/family", "/notes", "/namespaces", "/result"):
                    answer = await ask.client.get(f"{place}?{urlencode({name: odd})}")
                    assert answer.status_code in (200, 400, 404)
                    Seen(answer.text)
        answer = await ask.client.get("/<script>alert(1)</script>")
        assert answer.status_code == 404
        Seen(answer.text)


async def test_a_form_keeps_the_id_that_its_page_is_about(sqlite: str) -> None:
    async with filled(sqlite) as ask:
        for odd in ODD:
            page = await ask.get(address("/result", id=odd))
            assert page.hidden["id"].isprintable()  # browsers turn line ends in a field into CR LF
            words = {"id": page.hidden["id"], "find": odd.split()[0]}
            found = await ask.get(f"/result?{urlencode(words)}")
            assert found.tags.count("tr") >= 2
            notes = await ask.get(address("/notes", id=odd))
            words = {"id": notes.hidden["id"], "query": odd}
            assert "1.000" in (await ask.get(f"/notes?{urlencode(words)}")).text


@pytest.mark.parametrize("id", ODD)
def test_an_id_goes_through_a_field_and_back(id: str) -> None:
    assert id_of(field_of(id)) == id
    assert field_of(id).isprintable()


def test_text_is_text_wherever_it_stands() -> None:
    made = element("p", "<b>", joined("&", element("i", "'")), title='"><', hidden=True, x=None)
    assert made.html == (
        '<p title="&quot;&gt;&lt;" hidden>&lt;b&gt;&amp;<i>&#x27;</i></p>'
    )  # fmt: skip
    assert element("pre", "\na").html == "<pre>\n\na</pre>"
    assert element("input", value="a&b").html == '<input value="a&amp;b">'


async def test_no_password_is_on_any_page(sqlite: str) -> None:
    shown = "postgresql://ada:S3c/ret@h/d?sslpassword=S3cret"
    async with browsing(sqlite, shown=shown) as ask:
        for place in ("/", "/run?id=x", "/?cursor=x", "/nonsense"):
            text = (await ask.client.get(place, headers={"host": HOST})).text
            assert "S3c" not in text
            assert "postgresql://ada:***@h/d" in text
