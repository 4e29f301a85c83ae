"""LangGraph's checkpointer on runs: a run for each namespace of a thread.

A checkpoint is a message, the writes beside it are events. A message holds the channel values
that changed and points at the older messages that hold the rest, so history is never rewritten
and a step costs what changed. A copy of a thread is a fork of its runs.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stores_adapters.langgraph.keeping import drop, keep_newest
from stores_adapters.langgraph.log import TAIL_EVENTS, CheckpointLog, LogGoneError
from stores_adapters.langgraph.places import (
    CHECKPOINTS,
    KIND,
    THREAD,
    config_of,
    labels_of,
    place_of,
    run_beside,
    run_of,
)
from stores_adapters.langgraph.reading import metadata_of, tuple_of
from stores_adapters.langgraph.records import (
    CheckpointRecord,
    Write,
    WritesRecord,
    dump,
    event_of,
)
from stores_adapters.langgraph.steps import record_of
from stores_adapters.langgraph.synchronous import WaitingCheckpointSaver
from stores_adapters.listing import runs_with
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError
from stores_core.runs import RunInfo

EARLY_KEPT = 10_000
"""How many checkpoints this saver remembers the first writes of, in case they came first."""


class BackendCheckpointSaver(WaitingCheckpointSaver):
    """Keeps LangGraph's checkpoints in the runs of a backend.

    The newest checkpoint of a thread is the one that was put last; ids and clocks decide nothing
    but the order among several namespaces. ``serde`` writes the values; the default revives only
    the types that LangGraph counts as safe, whatever the environment says, and gives back the
    data of any other: name those of a graph with
    ``JsonPlusSerializer(allowed_msgpack_modules=[...])``. Pickle is off.

    Make it in the event loop of the backend. The synchronous methods work from other threads
    while that loop runs and are refused on it.
    """

    def __init__(self, backend: Backend, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._backend = backend
        self._early: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._sending: dict[tuple[str, str], set[asyncio.Future[None]]] = {}

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread and namespace."""
        place = place_of(config)
        log = CheckpointLog(self._backend, run_of(place.thread, place.namespace))
        # A log that is deleted meanwhile has no checkpoint any more.
        with suppress(LogGoneError):
            await log.open(events=TAIL_EVENTS)
            found = await log.find(place.checkpoint) if place.checkpoint else log.last
            return await tuple_of(self.serde, place.thread, log, found) if found else None
        return None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first. Without a namespace all of the thread, without a config all.

        ``filter`` compares metadata, ``before`` names a checkpoint. A limit of 0 gives none.
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidRequestError(field="limit", found=repr(limit)[:40], allowed="0 or more")
        logs = [
            self._listed(thread, run_id, config, filter or {}, before)
            async for thread, run_id in self._listed_runs(config)
        ]
        if len(logs) == 1:
            async for item in _first(logs[0], limit):
                yield item
            return
        # Several namespaces share no log and so no positions: their ids order them.
        items = [item for log in logs async for item in _first(log, limit)]
        items.sort(key=lambda item: item.checkpoint["id"], reverse=True)
        for item in items[:limit]:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Append a checkpoint; the one that ``config`` names is its parent.

        It is placed where its reading ended: when another put came between, it is done again.
        """
        place = place_of(config)
        log = CheckpointLog(self._backend, run_of(place.thread, place.namespace))
        # What get_checkpoint_metadata cuts out of texts (NUL) stays in what was given.
        told = {**get_checkpoint_metadata(config, metadata), **metadata}

        async def record() -> list[CheckpointRecord]:
            made = await record_of(self.serde, log, place, checkpoint, told, new_versions)
            # Writes may be in the log, and counted in what was read, before their answer is here.
            if sending := self._sending.get((log.run_id, made.id)):
                await asyncio.wait(sending)
            first = self._early.get((log.run_id, made.id), made.writes_from)
            return [made.model_copy(update={"writes_from": min(first, made.writes_from)})]

        while not await log.append(record):
            await self._backend.runs.create_run(run_id=log.run_id, labels=labels_of(place.thread))
        self._early.pop((log.run_id, checkpoint["id"]), None)
        return config_of(place.thread, place.namespace, checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Append what a task wrote beside the checkpoint that ``config`` names.

        Writing again changes nothing, but for the special channels, where the newest counts. The
        checkpoint itself may still be on its way.
        """
        place = place_of(config)
        run_id = run_of(place.thread, place.namespace)
        if not writes:
            return
        record = WritesRecord(
            checkpoint=place.checkpoint,
            task=task_id,
            path=task_path,
            writes=tuple(
                Write(
                    index=WRITES_IDX_MAP.get(channel, index),
                    channel=channel,
                    value=dump(self.serde, value),
                )
                for index, (channel, value) in enumerate(writes)
            ),
        )
        of = run_id, place.checkpoint
        sent = asyncio.get_running_loop().create_future()
        self._sending.setdefault(of, set()).add(sent)
        try:
            self._early.setdefault(of, await self._append_writes(run_id, place.thread, record))
        finally:
            sent.set_result(None)
            self._sending[of].discard(sent)
            if not self._sending[of]:
                del self._sending[of]
        if len(self._early) > EARLY_KEPT:
            self._early.popitem(last=False)

    async def _append_writes(self, run_id: str, thread: str, record: WritesRecord) -> int:
        """The position of the event that was appended."""
        key = secrets.token_hex(16)
        while True:
            answer = await self._backend.runs.append_events(
                run_id=run_id, events=[event_of(record)], idempotency_key=key
            )
            if answer.found:
                return answer.event_count - 1
            await self._backend.runs.create_run(run_id=run_id, labels=labels_of(thread))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the runs of all namespaces of a thread."""
        for info in await self._runs_of(thread_id):
            await self._backend.runs.delete_run(run_id=info.id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Fork every namespace of a thread into another, which must be new.

        The root comes last, so a copy that was cut off is not seen as a thread; copying again
        completes it. Raises InvalidRequestError where the target holds anything else.
        """
        source = await self._runs_of(source_thread_id)
        wanted = {run_beside(target_thread_id, info.id): info for info in source}
        for info in await self._runs_of(target_thread_id):
            original = wanted.get(info.id)
            if original is None or info.parent_id != original.id:
                raise _taken()
        root = run_of(target_thread_id, "")
        for new_id, info in sorted(wanted.items(), key=lambda pair: pair[0] == root):
            fork = await self._backend.runs.fork_run(
                run_id=info.id, new_run_id=new_id, labels=labels_of(target_thread_id)
            )
            if fork.found and (fork.parent_id, fork.fork_point >= info.message_count) != (
                info.id,
                True,
            ):
                raise _taken()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints that these executions made, in every thread."""
        gone = {*run_ids} - {""}
        for info in await self._runs_of(None) if gone else ():
            await drop(self._backend, info.id, gone)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or with "delete" nothing.

        Where a delta channel stores no value, the ancestors that it is rebuilt from are kept too.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidRequestError(
                field="strategy", found=repr(strategy)[:40], allowed="keep_latest, delete"
            )

        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            for info in await self._runs_of(thread_id):
                await keep_newest(self._backend, self.serde, info.id)

    async def _listed_runs(self, config: RunnableConfig | None) -> AsyncGenerator[tuple[str, str]]:
        place = place_of(config) if config else None
        if place and "checkpoint_ns" in (config or {}).get("configurable", {}):
            yield place.thread, run_of(place.thread, place.namespace)
            return
        for info in await self._runs_of(place.thread if place else None):
            yield info.labels[THREAD], info.id

    async def _listed(
        self,
        thread: str,
        run_id: str,
        config: RunnableConfig | None,
        filter: dict[str, Any],
        before: RunnableConfig | None,
    ) -> AsyncGenerator[CheckpointTuple]:
        wanted = place_of(config).checkpoint if config else ""
        # LangGraph may name a checkpoint of an enclosing namespace here, and no thread.
        bound = str(get_checkpoint_id(before) or "") if before else ""
        log = CheckpointLog(self._backend, run_id)
        with suppress(LogGoneError):
            await log.open()
            cut = await log.find(bound) if bound else None
            async for found in log.newest_first(cut.at if cut else None):
                if (wanted and found.record.id != wanted) or found.record.id == bound:
                    continue
                if bound and cut is None and found.record.id >= bound:
                    continue
                metadata = metadata_of(self.serde, log, found)
                if all(metadata.get(key) == value for key, value in filter.items()):
                    yield await tuple_of(self.serde, thread, log, found)

    async def _runs_of(self, thread_id: str | None) -> list[RunInfo]:
        labels = {KIND: CHECKPOINTS} if thread_id is None else {THREAD: str(thread_id)}
        found = runs_with(self._backend, labels)
        # A fork made by hand inherits the labels, and is no namespace of the thread.
        return [info async for info in found if info.id == run_beside(info.labels[THREAD], info.id)]


async def _first(
    items: AsyncGenerator[CheckpointTuple], limit: int | None
) -> AsyncGenerator[CheckpointTuple]:
    given = 0
    async with aclosing(items):
        while limit is None or given < limit:
            item = await anext(items, None)
            if item is None:
                return
            yield item
            given += 1


def _taken() -> InvalidRequestError:
    return InvalidRequestError(
        field="target_thread_id",
        found="a thread that is not a copy of the source as it is now",
        allowed="a new id, or the target deleted first",
    )
