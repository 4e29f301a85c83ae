"""Threads, checkpoints and items that the tests of the LangGraph adapter share."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.store.base import SearchItem

from stores_adapters.langgraph import BackendCheckpointSaver
from stores_core import Backend, open_backend

METADATA: CheckpointMetadata = {"source": "loop", "step": 0, "parents": {}}


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Backend, BackendCheckpointSaver]]:
    async with open_backend(url) as backend:
        yield backend, BackendCheckpointSaver(backend)


def at(thread: str, checkpoint: str = "", namespace: str = "") -> RunnableConfig:
    named = {"checkpoint_id": checkpoint} if checkpoint else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **named}}


async def put(
    saver: BackendCheckpointSaver,
    config: RunnableConfig,
    values: dict[str, Any] | None = None,
    *,
    id: str = "",
    changed: dict[str, Any] | None = None,
    versions: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> RunnableConfig:
    """Puts a checkpoint whose channels all bear version 1 and changed, unless told otherwise."""
    values = values or {}
    versions = dict.fromkeys(values, 1) if versions is None else versions
    checkpoint: Checkpoint = {
        **empty_checkpoint(),
        "channel_values": values,
        "channel_versions": versions,
    }
    checkpoint["id"] = id or checkpoint["id"]
    told = cast("CheckpointMetadata", {**METADATA, **(metadata or {})})
    return await saver.aput(config, checkpoint, told, versions if changed is None else changed)


async def ids(saver: BackendCheckpointSaver, config: RunnableConfig | None) -> list[str]:
    return [item.checkpoint["id"] async for item in saver.alist(config)]


async def got(saver: BackendCheckpointSaver, config: RunnableConfig) -> CheckpointTuple:
    item = await saver.aget_tuple(config)
    assert item is not None
    return item


def keys(items: Sequence[SearchItem]) -> list[str]:
    return [item.key for item in items]
