"""A real browser for tests: Chromium without a window, spoken to in its DevTools protocol.

The protocol goes through two pipes, as JSON texts that end in NUL:
https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), "")
SECONDS = 30.0


class Tab:
    """One page in a browser. ``console`` is what the browser had to complain about."""

    def __init__(self, reader: asyncio.StreamReader, commands: Any) -> None:
        self.console: list[str] = []
        self._reader, self._commands = reader, commands
        self._number = 0
        self._session = ""
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()

    async def begin(self) -> None:
        """Open the page, and listen to what it says."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        async with asyncio.timeout(SECONDS):
            return await answer

    async def go(self, address: str) -> str:
        """Open an address; the document once all that belongs to it is there."""
        self._loaded.clear()
        await self.call("Page.navigate", url=address)
        return await self.document()

    async def follow(self, script: str) -> str:
        """Do what leads to another page, as a click does; its document."""
        self._loaded.clear()
        await self.evaluate(script)
        return await self.document()

    async def document(self) -> str:
        async with asyncio.timeout(SECONDS):
            await self._loaded.wait()
        return await self.evaluate("document.documentElement.outerHTML")

    async def evaluate(self, script: str) -> Any:
        """The value of a script that the test runs; no policy of the page holds for it."""
        done = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def listen(self) -> None:
        """Take in what the browser says, until it ends."""
        while True:
            try:
                message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            except asyncio.IncompleteReadError:
                return
            if "id" in message:
                answer = self._answers.pop(message["id"])
                if "error" in message:
                    answer.set_exception(AssertionError(message["error"]["message"]))
                else:
                    answer.set_result(message["result"])
                continue
            about = message.get("params", {})
            if message["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif message["method"] == "Log.entryAdded":
                self.console.append(about["entry"]["text"])
            elif message["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.console.append(json.dumps(about))


@asynccontextmanager
async def browser_tab(profile: Path) -> AsyncGenerator[Tab]:
    """A page in a browser of its own, with a new profile."""
    its_commands, commands = os.pipe()
    answers, its_answers = os.pipe()
    arguments = [
        FOUND, "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
        "--disable-background-networking", "--remote-debugging-pipe",
        f"--user-data-dir={profile}", "--window-size=1100,800",
    ]  # fmt: skip
    if os.geteuid() == 0:  # its sandbox does not work for root
        arguments.append("--no-sandbox")
    redirected = f'exec "$0" "$@" 3<&{its_commands} 4>&{its_answers}'  # where it looks for them
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", redirected, *arguments,
        pass_fds=(its_commands, its_answers),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_commands)
    os.close(its_answers)
    reader = asyncio.StreamReader(limit=2**26)
    pipe = os.fdopen(answers, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    tab = Tab(reader, commands)
    listening = asyncio.create_task(tab.listen())
    try:
        await tab.begin()
        yield tab
    finally:
        os.close(commands)  # which ends it
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()
        await listening
        transport.close()
