"""Notes of one namespace in a folder, as tests of files put and list them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from stores_core import Backend, MemoryItem
from stores_files.backend import open_files

WIDE = 8


def used(
    folder: Path, work: Callable[..., Awaitable[Any]], clients: int = 1, **options: Any
) -> Any:
    """Open the folder, some times at once, do something with it, close it; what came of it."""

    async def run() -> Any:
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(open_files(f"file:{folder}", **options))
                for _ in range(clients)
            ]
            return await work(*opened)

    return asyncio.run(run())


def notes_of(folder: Path, namespace: str = "n") -> Path:
    return folder / "tenants" / "%" / "notes" / namespace


async def put(backend: Backend, key: str, value: str = "v", **fields: Any) -> int:
    item = MemoryItem(key=key, value=value, **fields)
    return (await backend.memory.put_memory(item=item, namespace="n")).version


async def listed(backend: Backend, query: str = "", limit: int = 0) -> list[str]:
    answer = await backend.memory.list_memories(namespace="n", query=query, limit=limit)
    return [scored.item.key for scored in answer.items]
