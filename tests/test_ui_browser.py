"""The pages of `ui` in a real browser: they are drawn, can be clicked through, and nothing runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from stores_cli.ui.command import bound_to, server_of
from stores_cli.ui.guard import Guard
from stores_cli.ui.server import pages
from stores_core import MemoryItem, Message, ToolCall, ToolResult, open_backend
from tests.chromium import FOUND, NAMES, browser_tab
from tests.command_line import sqlite
from tests.ui_asking import Seen

__all__ = ["sqlite"]  # a fixture

pytestmark = pytest.mark.skipif(not FOUND, reason=f"none of {', '.join(NAMES)} is installed")

SCRIPT = "<script>document.title = 'owned'; document.body.append('it ran')</script>"
ODD = f"{SCRIPT}\n'\"><img src=x onerror=document.body.append('so')>"


@asynccontextmanager
async def served(url: str, app: ASGIApp | None = None) -> AsyncGenerator[str]:
    """The address at which the pages of ``url`` are served, or ``app`` in their place."""
    with bound_to(0) as bound:
        host = "{}:{}".format(*bound.getsockname())
        async with open_backend(url) as backend:
            shown = Guard(app, {host}) if app else pages(backend, url, "", {host})
            server = server_of(uvicorn, shown)
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            try:
                yield f"http://{host}"
            finally:
                server.should_exit = True
                await serving


async def fill(url: str) -> None:
    call = ToolCall(id="c1", name="read_file", args={"path": ODD})
    said = [
        Message(role="user", text=ODD),
        Message(role="assistant", text="I will look.", tool_calls=[call]),
        Message(role="tool", tool_call_id="c1", text=f"</pre></details>{ODD}"),
    ]
    async with open_backend(url) as backend:
        await backend.runs.create_run(run_id=ODD, labels={ODD: ODD})
        await backend.runs.append_messages(run_id=ODD, messages=said)
        await backend.runs.fork_run(run_id=ODD, new_run_id="fork", at_message=2)
        await backend.memory.put_memory(item=MemoryItem(key=ODD, value="tea"), namespace=ODD)
        result = ToolResult(content=[{"type": "text", "text": ODD}])
        await backend.tool_results.put_tool_result(ref=ODD, result=result)


@pytest.mark.long
async def test_a_person_clicks_through_hostile_pages(sqlite: str, tmp_path: Path) -> None:
    await fill(sqlite)
    async with served(sqlite) as address, browser_tab(tmp_path / "profile") as tab:
        listed = Seen(await tab.go(f"{address}/"))
        assert "fork" in listed.text
        run = Seen(await tab.follow("document.querySelectorAll('td a')[1].click()"))
        assert "I will look." in run.text
        assert SCRIPT in run.text
        assert await tab.evaluate("document.querySelectorAll('details[open]').length") == 0
        seen = "document.querySelector('details pre').checkVisibility()"
        assert await tab.evaluate(seen) is False
        await tab.evaluate("document.querySelector('summary').click()")
        assert await tab.evaluate(seen) is True
        border = "getComputedStyle(document.querySelector('article.user')).borderLeftWidth"
        assert await tab.evaluate(border) == "3px"  # so the style is in use
        family = Seen(await tab.follow("document.querySelector('.tabs a:last-child').click()"))
        assert family.tags.count("line") == 2
        clicked = "document.querySelectorAll('svg a')[1].dispatchEvent(new MouseEvent('click'))"
        assert "Run fork" in Seen(await tab.follow(clicked)).text
        await tab.go(f"{address}/namespaces")
        await tab.follow("document.querySelector('td a').click()")
        typed = "document.forms[0].query.value = 'TEA'; document.forms[0].submit()"
        assert "1.000" in Seen(await tab.follow(typed)).text
        await tab.go(f"{address}/results")
        await tab.follow("document.querySelector('td a').click()")
        typed = "document.forms[0].find.value = 'onerror'; document.forms[0].submit()"
        assert Seen(await tab.follow(typed)).tags.count("tr") == 2
        assert tab.console == []


async def test_the_policy_stops_a_script_that_got_into_a_page(sqlite: str, tmp_path: Path) -> None:
    """What holds if escaping ever failed: the browser itself runs nothing and fetches nothing."""
    bare = tmp_path / "page.html"
    bare.write_text(f"<!doctype html><title>fine</title><body>{ODD}</body>")
    async with (
        served(sqlite, HTMLResponse(bare.read_text())) as address,
        browser_tab(tmp_path / "profile") as tab,
    ):
        text = await tab.go(address)
        assert "<title>fine</title>" in text
        assert "it ran" not in await tab.evaluate("document.body.innerText")
        refused = [line for line in tab.console if "Content Security Policy" in line]
        assert len(refused) >= 2
        # Without the policy it runs, so what was seen above was no accident.
        text = await tab.go(bare.as_uri())
        assert "<title>owned</title>" in text
        assert "it ran" in await tab.evaluate("document.body.innerText")


async def test_a_stranger_page_gets_nothing(sqlite: str, tmp_path: Path) -> None:
    """Not by a name of its own (DNS rebinding), and not by asking from its own place."""
    await fill(sqlite)
    async with served(sqlite) as address, browser_tab(tmp_path / "profile") as tab:
        port = address.rpartition(":")[2]
        text = await tab.go(f"http://rebound.localhost:{port}/")
        assert "Host: found another" in text
        assert "fork" not in text
        bare = tmp_path / "page.html"
        bare.write_text("<!doctype html><title>elsewhere</title>")
        await tab.go(bare.as_uri())
        asked = f"fetch('{address}/').then(() => 'got', () => 'refused')"
        done = await tab.call(
            "Runtime.evaluate", expression=asked, awaitPromise=True, returnByValue=True
        )
        assert done["result"]["value"] == "refused"
