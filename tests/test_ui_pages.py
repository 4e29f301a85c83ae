"""What the pages of `ui` show, on every backend."""

import asyncio
import re
import sqlite3
from typing import Any, cast

import pytest

from stores_cli.ui import server
from stores_cli.ui.page import Page, Query
from stores_core import (
    Backend,
    Event,
    MemoryItem,
    Message,
    ToolCall,
    ToolResult,
    WordEmbedder,
    open_backend,
)
from tests.command_line import fill, sqlite, url
from tests.ui_asking import Browsing, Seen, browsing

__all__ = ["sqlite", "url"]  # fixtures


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


async def test_runs_come_newest_first_and_filtered(url: str) -> None:
    async with open_backend(url) as backend:
        for number in range(53):
            labels = {"half": "even"} if number % 2 == 0 else {}
            await backend.runs.create_run(run_id=f"r{number:02}", labels=labels)
        await backend.runs.fork_run(run_id="r03", new_run_id="f")
    async with browsing(url) as ask:
        first = await ask.get("/")
        assert re.findall(r"\n(r\d\d|f)\d{4}-", first.text) == [
            "f",
            *(f"r{number:02}" for number in range(52, 3, -1)),
        ]
        second = await ask.get(next(one for one in first.links if "cursor=" in one))
        assert re.findall(r"\n(r\d\d)\d{4}-", second.text) == ["r03", "r02", "r01", "r00"]
        assert "/" in second.links
        even = await ask.get("/?label=half%3Deven&label=")
        assert len(re.findall(r"\nr\d[02468]\d{4}-", even.text)) == 27
        assert not re.findall(r"\nr\d[13579]", even.text)
        forks = await ask.get("/?parent=r03")
        assert re.findall(r"\n(r\d\d|f)\d{4}-", forks.text) == ["f"]
        assert "r03 at 0" in forks.text


async def test_a_run_is_a_transcript_with_its_calls_folded(url: str) -> None:
    call = ToolCall(id="c1", name="search", args={"words": ["tea", 1.0]})
    said = [
        Message(role="user", text="find\n\ttea"),
        Message.model_validate({"role": "assistant", "tool_calls": [call], "mood": "calm"}),
        Message(role="tool", tool_call_id="c1", text="found it"),
    ]
    happened = [Event(kind="tool-begin", step=2, tool_call=call), Event(kind="error", error="no")]
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="t", labels={"user": "ada"})
        await backend.runs.append_messages(run_id="t", messages=said, events=happened)
    async with browsing(url) as ask:
        seen = await ask.get("/run?id=t")
        assert "3 messages" in seen.text
        assert "user=ada" in seen.text
        assert "find\n\ttea" in seen.text
        assert re.search(r"1  assistant .*\n?call search c1", seen.text)
        assert '"words": [\n    "tea",\n    1.0' in seen.text
        assert '"mood": "calm"' in seen.text
        assert re.search(r"tool  of c1", seen.text)
        assert seen.tags.count("details") == 3  # the call, the further field, the tool's answer
        events = await ask.get(seen.link("/run", log="events"))
        assert "tool-begin  step 2" in events.text
        assert "call search c1" in events.text
        assert re.search(r"error\s+no", events.text)
        one = await ask.get(seen.link("/entry", at="2"))
        assert "Message 2 of t" in one.text
        assert "found it" in one.text


async def test_a_large_run_goes_page_by_page(url: str) -> None:
    long = "".join(f"{number:07} " for number in range(40_000))
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id="big")
        for start in range(0, 2_000, 1_000):
            said = [Message(role="user", text=f"word {start + n}") for n in range(1_000)]
            await backend.runs.append_messages(run_id="big", messages=said)
        await backend.runs.append_messages(
            run_id="big", messages=[Message(role="tool", text=long)] * 3
        )
    async with browsing(url) as ask:
        seen = await ask.get("/run?id=big")
        assert "0 to 99 of 2,003" in seen.text
        assert seen.tags.count("article") == 100
        assert "word 99" in seen.text
        assert "word 100" not in seen.text
        last = await ask.get(seen.link("/run", start="2000"))
        assert "2,000 to 2,002 of 2,003" in last.text
        assert len(last.text) < 20_000
        following = await ask.get(seen.link("/run", start="100"))
        assert "word 199" in following.text
        assert (await ask.get("/run?id=big&start=999999")).tags.count("article") == 0
        assert await whole(ask, last.link("/entry", at="2001", part="1")) == long


async def whole(ask: Browsing, place: str) -> str:
    """A text that is shown in slices, from the first to the last."""
    read = ""
    while place:
        page = await ask.get(place)
        read += page.blocks[-1]
        onward = [one for one in page.links if one.endswith(f"offset={len(read)}")]
        place = onward[0] if onward else ""
    return read


async def test_a_family_is_a_picture_with_its_forks_in_place(filled: str) -> None:
    async with open_backend(filled) as backend:
        await backend.runs.fork_run(run_id="fork-1", new_run_id="deep", at_message=3)
    async with browsing(filled) as ask:
        answer = await ask.client.get("/family?id=deep")
        seen = Seen(answer.text)
        names = [one for one in seen.links if one.startswith("/run?id=") and "messages" not in one]
        assert names[-5:] == [
            f"/run?id={id}" for id in ("root", "fork-0", "fork-1", "deep", "fork-2")
        ]
        # 6 messages are 600 wide, so the second lies at 200 and the third at 300.
        forked = re.findall(r'<path d="M(\d+) (\d+)V(\d+)"', answer.text)
        assert [(int(x) - 300, (int(b) - int(a)) // 30) for x, a, b in forked] == [
            (200, 1),
            (200, 2),
            (300, 1),
            (200, 4),
        ]
        assert "3 from 2" in seen.text
    async with open_backend(filled) as backend:
        await backend.runs.delete_run(run_id="root")
    async with browsing(filled) as ask:
        left = await ask.get("/family?id=deep")
        assert "fork-1 was forked from root" in left.text
        await ask.get(left.link("/run", id="root"), 404)


async def test_a_family_too_large_for_a_picture_says_so(sqlite: str) -> None:
    async with open_backend(sqlite) as backend:
        await backend.runs.create_run(run_id="root")
        for number in range(220):
            await backend.runs.fork_run(run_id="root", new_run_id=f"f{number}")
        await backend.runs.fork_run(run_id="f219", new_run_id="last")
    async with browsing(sqlite) as ask:
        seen = await ask.get("/family?id=f219")
        assert "The first 200" in seen.text
        assert seen.tags.count("line") == 200
        below = await ask.get(seen.link("/family", below="yes"))
        assert below.tags.count("line") == 2
        assert "last" in below.text


async def test_results_are_read_and_searched_page_by_page(url: str) -> None:
    text = "".join(f"{number:08}\n" for number in range(5_000))
    async with open_backend(url) as backend:
        results = backend.tool_results
        content = [{"type": "text", "text": text}]
        await results.put_tool_result(
            ref="a/b", result=ToolResult(content=content), labels={"t": "x"}
        )
        await results.put_tool_result(ref="empty", result=ToolResult())
    async with browsing(url) as ask:
        listed = await ask.get("/results")
        assert "45,000" not in listed.text  # plain numbers, as everywhere
        assert re.search(r"a/b.*45000.*t=x", listed.text)
        assert "empty" not in (await ask.get("/results?label=t%3Dx")).text
        assert await whole(ask, listed.link("/result", id="a/b")) == text
        found = await ask.get("/result?id=a%2Fb&find=0499")
        assert found.tags.count("tr") == 1 + 11
        there = await ask.get(found.link("/result", offset=str(9 * 4_999)))
        assert "00004999" in there.text
        many = await ask.get("/result?id=a%2Fb&find=00")
        await ask.get(next(one for one in many.links if "start=" in one))
        assert "It has no text" in (await ask.get("/result?id=empty")).text


async def test_notes_are_listed_by_namespace_and_recalled_with_scores(filled: str) -> None:
    async with open_backend(filled, embedder=WordEmbedder(16)) as backend:
        notes = [
            MemoryItem(key=f"k{n:02}", value="green tea", metadata={"n": n}) for n in range(60)
        ]
        await backend.memory.put_memories(items=notes, namespace="many")
    async with browsing(filled) as ask:
        spaces = await ask.get("/namespaces")
        assert [one for one in spaces.links if one.startswith("/notes")] == [
            "/notes?id=", "/notes?id=many", "/notes?id=user%2Fada",
        ]  # fmt: skip
        assert "many" not in (await ask.get("/namespaces?prefix=user")).text
        unnamed = await ask.get("/notes?id=")
        assert "milk" in unnamed.text
        first = await ask.get("/notes?id=many")
        assert "k49" in first.text
        assert "k50" not in first.text
        assert '"n": 49' in first.text
        following = await ask.get(next(one for one in first.links if "cursor=" in one))
        assert re.findall(r"k\d\d", following.text) == [f"k{n}" for n in range(50, 60)]
        found = await ask.get("/notes?id=user%2Fada&query=TEA+2")
        assert re.search(r"\n1\.000n2", found.text)
        assert "n1" not in found.text
        one = await ask.get("/note?id=many&key=k07")
        assert one.blocks == ['{\n  "n": 7\n}', "green tea"]
        await ask.get("/note?id=many&key=k7", 404)
        assert "No notes here" in (await ask.get("/notes?id=many&query=zzz")).text
    long = "".join(f"{number:07} " for number in range(8_000))
    async with open_backend(filled) as backend:
        await backend.memory.put_memory(item=MemoryItem(key="a/b", value=long), namespace="long")
    async with browsing(filled) as ask:
        listed = await ask.get("/notes?id=long")
        assert len(listed.text) < 3_000
        assert await whole(ask, listed.link("/note", key="a/b")) == long
    async with browsing(filled, embedder=WordEmbedder(16)) as ask:
        near = await ask.get("/notes?id=user%2Fada&query=tea+2")
        scores = [float(one) for one in re.findall(r"\n(-?[01]\.\d{3})n", near.text)]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1]


def test_looking_changes_nothing(sqlite: str) -> None:
    fill(sqlite)

    def stored() -> str:
        connection = sqlite3.connect(sqlite.partition(":")[2])
        dump = "\n".join(connection.iterdump())
        connection.close()
        return dump

    async def look() -> None:
        async with browsing(sqlite) as ask:
            for place in ("/", "/run?id=root", "/family?id=root", "/notes?query=tea", "/results"):
                await ask.get(place)

    before = stored()
    asyncio.run(look())
    assert stored() == before


@pytest.mark.parametrize(
    ("place", "status", "says"),
    [
        ("/nonsense", 404, "There is no such page"),
        ("/run?id=nobody", 404, "There is no run nobody"),
        ("/run", 400, "run_id"),
        ("/run?id=root&start=x", 400, "start: found no such number"),
        ("/run?id=root&start=99999999999999999999", 400, "start"),
        ("/run?id=root&log=nonsense", 400, "messages or events"),
        ("/entry?id=root&at=6", 404, "There is no message 6"),
        ("/entry?id=root&at=5&part=9", 404, "There is no part 9"),
        ("/family?id=nobody", 404, "There is no run nobody"),
        ("/result?id=nobody", 404, "There is no tool result nobody"),
        ("/result?id=nobody&find=x", 404, "There is no tool result nobody"),
        ("/?cursor=forged", 400, "cursor"),
        ("/?label=nonsense", 400, "KEY=VALUE"),
        (f"/run?id={'x' * 600}", 400, "512"),
    ],
)
async def test_what_cannot_be_shown_is_a_page_that_says_why(
    sqlite: str, place: str, status: int, says: str
) -> None:
    async with open_backend(sqlite) as backend:
        await backend.runs.create_run(run_id="root")
        said = [Message(role="user", text="word")] * 6
        await backend.runs.append_messages(run_id="root", messages=said)
    async with browsing(sqlite) as ask:
        assert says in (await ask.get(place, status)).text


async def test_damage_is_a_page_without_a_trace(sqlite: str) -> None:
    async with open_backend(sqlite) as backend:
        await backend.runs.create_run(run_id="root")
        await backend.runs.append_messages(run_id="root", messages=[Message(role="user")])
    connection = sqlite3.connect(sqlite.partition(":")[2])
    connection.execute("UPDATE entries SET body = x'00'")
    connection.commit()
    connection.close()
    async with browsing(sqlite) as ask:
        damaged = await ask.get("/run?id=root", 500)
        assert "cannot be read" in damaged.text
        assert "Traceback" not in damaged.text
        await ask.get("/")


async def test_an_error_of_our_own_tells_where_and_nothing_that_is_stored(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(backend: Backend, query: Query) -> Page:
        raise RuntimeError("a stored word")

    monkeypatch.setitem(cast("dict[str, Any]", server.HANDLERS), "/", broken)
    async with browsing(sqlite) as ask:
        seen = await ask.get("/", 500)
        await ask.get("/results")
    told = seen.text + "".join(capsys.readouterr())
    assert "/ failed with RuntimeError" in seen.text
    assert re.search(r"at test_ui_pages\.py:\d+", told)
    assert "a stored word" not in told
    assert "Traceback" not in told
