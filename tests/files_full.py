"""``python -m tests.files_full FOLDER``: a file may not grow, from each byte of a batch on.

Prints how many limits were tried. The exit code is 0 only if each append was refused as one of
which nothing was applied, the journal was the same byte for byte, and the next append went well.
"""

import asyncio
import resource
import sys
from pathlib import Path

from stores_core import Event, Message, open_backend
from stores_core.errors import StoreUnavailableError

ENTRIES = [Message(role="user", text="x" * 40), Message(role="assistant", text="é")]


def may_grow_to(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def journal(folder: str) -> bytes:
    return Path(folder, "tenants/%/runs/r/journal.jsonl").read_bytes()


async def work(folder: str) -> int:
    async with open_backend(f"file:{folder}") as backend:
        await backend.runs.create_run(run_id="r")

        async def append() -> int:
            added = await backend.runs.append_messages(
                run_id="r", messages=ENTRIES, events=[Event(kind="e")], idempotency_key="key"
            )
            return added.message_count

        await backend.runs.append_messages(run_id="r", messages=ENTRIES)
        before = journal(folder)
        tried = 0
        while True:
            may_grow_to(len(before) + tried)
            try:
                count = await append()
            except StoreUnavailableError:
                may_grow_to(resource.RLIM_INFINITY)
                if journal(folder) != before:
                    raise ValueError(f"another journal after {tried} bytes") from None
                tried += 1
                continue
            break
        may_grow_to(resource.RLIM_INFINITY)
        added = len(journal(folder)) - len(before)
        if (tried, count) != (added, 2 * len(ENTRIES)):
            raise ValueError(f"{tried} limits for {added} bytes, {count} messages")
        loaded = (await backend.runs.load_run(run_id="r")).run
        if loaded is None or loaded.messages[-1].text != "é" or await append() != count:
            raise ValueError("what was appended then is not there once")
        return tried


if __name__ == "__main__":
    print(asyncio.run(work(sys.argv[1])))
