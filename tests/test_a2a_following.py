"""Following a task from another server, and the two servers that a task may meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("a2a", reason="needs the extra a2a")

from a2a.server.cluster import TaskVersion, VersionedEvent
from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_WORKING,
    ListTasksRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from stores_adapters.a2a import (
    BackendTaskEventStream,
    BackendTaskStore,
    BackendVersionedTaskStore,
)
from stores_core import InvalidRequestError, open_backend
from tests.a2a_tasks import ANNA, a_task, call_of, says


def update(state: int, text: str) -> TaskStatusUpdateEvent:
    status = TaskStatus(state=state, message=says(text, ROLE_AGENT))  # type: ignore[arg-type] - an enum is an int
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)


async def saved(
    store: BackendVersionedTaskStore, task: Task, on: TaskVersion, event: object = None
) -> TaskVersion:
    return await store.save(task, event=event, prev=None, prev_version=on, context=ANNA)  # type: ignore[arg-type] - an Event


async def first(count: int, events: AsyncIterator[VersionedEvent]) -> list[VersionedEvent]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_a_follower_is_given_each_update_once_with_its_version(url: str) -> None:
    async with open_backend(url) as backend:
        store, stream = BackendVersionedTaskStore(backend), BackendTaskEventStream(backend, 0.01)
        created = await saved(store, a_task(), TaskVersion.MISSING, a_task())
        one, two = update(TASK_STATE_WORKING, "one"), update(TASK_STATE_WORKING, "two")
        third = TaskArtifactUpdateEvent(task_id="t", context_id="c")
        v1 = await saved(store, a_task(history=[says("one")]), created, one)
        async with aclosing(stream.subscribe("t", after=TaskVersion.MISSING)) as events:
            assert await first(2, events) == [
                VersionedEvent(a_task(), created),
                VersionedEvent(one, v1),
            ]
            v2 = await saved(store, a_task(history=[says("one")]), v1, two)
            v3 = await saved(store, a_task(history=[says("one")]), v2, third)
            assert await first(2, events) == [VersionedEvent(two, v2), VersionedEvent(third, v3)]
        async with aclosing(stream.subscribe("t", after=v1)) as events:
            assert await first(2, events) == [VersionedEvent(two, v2), VersionedEvent(third, v3)]


async def test_a_save_that_is_refused_tells_nobody(url: str) -> None:
    async with open_backend(url) as backend:
        store, stream = BackendVersionedTaskStore(backend), BackendTaskEventStream(backend, 0.01)
        created = await saved(store, a_task(), TaskVersion.MISSING)
        texts = [f"{number}" for number in range(4)]
        answers = await asyncio.gather(
            *[
                saved(store, a_task(metadata={"n": text}), created, update(2, text))
                for text in texts
            ],
            return_exceptions=True,
        )
        [won] = [at for at, answer in enumerate(answers) if isinstance(answer, TaskVersion)]
        version = next(answer for answer in answers if isinstance(answer, TaskVersion))
        canceled = a_task(state=TASK_STATE_CANCELED)
        end = await saved(store, canceled, version, update(TASK_STATE_CANCELED, "end"))
        async with aclosing(stream.subscribe("t", after=created)) as events:
            assert await first(2, events) == [
                VersionedEvent(update(2, texts[won]), version),
                VersionedEvent(update(TASK_STATE_CANCELED, "end"), end),
            ]


async def test_a_follower_who_comes_before_the_task_waits_for_it() -> None:
    async with open_backend("memory:") as backend:
        store, stream = BackendVersionedTaskStore(backend), BackendTaskEventStream(backend, 0.01)
        async with aclosing(stream.subscribe("t", after=TaskVersion.MISSING)) as events:
            waiting = asyncio.create_task(first(1, events))
            await asyncio.sleep(0.05)
            version = await saved(store, a_task(), TaskVersion.MISSING, a_task())
            assert await waiting == [VersionedEvent(a_task(), version)]


async def test_a_deleted_task_ends_its_streams(url: str) -> None:
    async with open_backend(url) as backend:
        store, stream = BackendVersionedTaskStore(backend), BackendTaskEventStream(backend, 0.01)
        await saved(store, a_task(), TaskVersion.MISSING, a_task())
        async with aclosing(stream.subscribe("t", after=TaskVersion.MISSING)) as events:
            await first(1, events)
            await store.delete("t", ANNA)
            async with asyncio.timeout(30):
                assert [event async for event in events] == []


async def test_no_owner_follows_the_task_of_another(url: str) -> None:
    async with open_backend(url) as backend:
        store, stream = BackendTaskStore(backend), BackendTaskEventStream(backend, 0.01)
        await store.save(a_task(), ANNA)
        await store.save(a_task(), call_of("ben"))
        with pytest.raises(InvalidRequestError, match="task_id"):
            await anext(stream.subscribe("t", after=TaskVersion.MISSING))


async def test_a_fork_of_a_task_goes_its_own_way(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendTaskStore(backend)
        await store.save(a_task(history=[says("go")]), ANNA)
        assert await store.fork("t", "t2", ANNA)
        assert not await store.fork("t", "t2", ANNA)
        assert not await store.fork("t", "t3", call_of("ben"))
        await store.save(a_task("t2", history=[says("go"), says("left")]), ANNA)
        await store.save(a_task("t", history=[says("go"), says("right")]), ANNA)
        for id, text in (("t2", "left"), ("t", "right")):
            assert await store.get(id, ANNA) == a_task(id, history=[says("go"), says(text)])
        listed = await store.list(ListTasksRequest(), ANNA)
        assert sorted(task.id for task in listed.tasks) == ["t", "t2"]


async def test_finished_tasks_are_evicted_by_age_and_no_others(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendTaskStore(backend)
        for id, call in (("a", ANNA), ("b", call_of("ben"))):
            await store.save(a_task(id, state=TASK_STATE_COMPLETED), call)
        await store.save(a_task("under way"), ANNA)
        await backend.runs.create_run(run_id="of another use")
        assert await store.evict(datetime.now(UTC) - timedelta(hours=1)) == 0
        middle = datetime.now(UTC)
        await store.save(a_task("later", state=TASK_STATE_CANCELED), ANNA)
        assert await store.evict(middle) == 2
        assert {run.id for run in (await backend.runs.list_runs()).runs} == {
            "of another use",
            "a2a 4 anna under way",
            "a2a 4 anna later",
        }
