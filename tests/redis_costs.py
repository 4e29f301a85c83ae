"""What scripts cost the server: the time that it computed, which other work of a busy machine does
not make longer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stores_redis.scripts import Arg, Script
from stores_redis.storage import Call, Storage

BLOCKS = 20_000
"""Microseconds that no script may take."""


@asynccontextmanager
async def costs_of_scripts(
    client: Any, patch: pytest.MonkeyPatch
) -> AsyncGenerator[list[tuple[int, str]]]:
    """Microseconds and name of each script that this process runs meanwhile, one at a time, on the
    server of ``client``, which nobody else uses."""
    found: list[tuple[int, str]] = []
    run, run_many = Storage.run, Storage.run_many

    async def computed() -> int:
        info = await client.info("cpu")
        of_server = info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
        return round(1_000_000 * of_server)

    async def costed(
        self: Storage, script: Script, keys: Sequence[bytes], args: Sequence[Arg], *, writes: bool
    ) -> list[Any]:
        before = await computed()
        reply = await run(self, script, keys, args, writes=writes)
        found.append((await computed() - before, script.name))
        return reply

    async def all_costed(self: Storage, calls: Sequence[Call]) -> list[list[Any]]:
        before = await computed()
        replies = await run_many(self, calls)
        found.append((await computed() - before, " and ".join(call[0].name for call in calls)))
        return replies

    with patch.context() as patched:
        patched.setattr(Storage, "run", costed)
        patched.setattr(Storage, "run_many", all_costed)
        yield found
