"""The A2A store of versions, and the SDK's TaskManager on both stores."""

import asyncio

import pytest

pytest.importorskip("a2a", reason="needs the extra a2a")

from a2a.server.cluster.task_store import ConcurrentTaskModificationError
from a2a.server.cluster.version import TaskVersion
from a2a.server.tasks import TaskManager
from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_WORKING,
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from stores_adapters.a2a import BackendTaskStore, BackendVersionedTaskStore
from stores_core import open_backend
from tests.a2a_tasks import ANNA, a_task, says
from tests.meanwhile import Meanwhile, repeating


async def test_the_task_manager_of_the_sdk_works_on_it(url: str) -> None:
    async with open_backend(url) as backend:
        for store in (BackendTaskStore(backend), BackendVersionedTaskStore(backend)):
            id = type(store).__name__
            manager = TaskManager(store, ANNA, id, "c", says("go"))
            status = TaskStatus(state=TASK_STATE_WORKING, message=says("on it", ROLE_AGENT))
            await manager.save_task_event(
                TaskStatusUpdateEvent(task_id=id, context_id="c", status=status)
            )
            for append, text in ((False, "a"), (True, "b"), (True, "c")):
                artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
                await manager.save_task_event(
                    TaskArtifactUpdateEvent(
                        task_id=id, context_id="c", artifact=artifact, append=append
                    )
                )
            done = TaskStatus(state=TASK_STATE_COMPLETED)
            await manager.save_task_event(
                TaskStatusUpdateEvent(task_id=id, context_id="c", status=done)
            )
            fresh = TaskManager(store, ANNA, id, "c", None)
            kept = await fresh.get_task()
            assert kept == await manager.get_task()
            assert kept is not None
            assert [part.text for part in kept.artifacts[0].parts] == ["a", "b", "c"]
            assert list(kept.history) == [says("go"), says("on it", ROLE_AGENT)]
            assert kept.status.state == TASK_STATE_COMPLETED


async def saved(store: BackendVersionedTaskStore, task: Task, on: TaskVersion) -> TaskVersion:
    return await store.save(task, event=None, prev=None, prev_version=on, context=ANNA)


async def test_of_savers_that_read_one_version_a_single_one_is_served(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendVersionedTaskStore(backend)
        first = await saved(store, a_task(), TaskVersion.MISSING)
        # Those without a message first: they leave the count of messages as the others expect it.
        tasks = [a_task(metadata={"n": number}) for number in range(5)]
        tasks += [a_task(history=[says(f"{number}")]) for number in range(5)]
        answers = await asyncio.gather(
            *[saved(store, task, first) for task in tasks], return_exceptions=True
        )
        [won] = [at for at, answer in enumerate(answers) if isinstance(answer, TaskVersion)]
        refused = [one for one in answers if isinstance(one, ConcurrentTaskModificationError)]
        assert len(refused) == 9
        stored = await store.get("t", ANNA)
        assert stored is not None
        assert stored.task == tasks[won]
        assert stored.version == answers[won]
        assert stored.version.is_after(first)


async def test_a_first_save_is_served_once(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendVersionedTaskStore(backend)
        answers = await asyncio.gather(
            *[saved(store, a_task(metadata={"n": n}), TaskVersion.MISSING) for n in range(8)],
            return_exceptions=True,
        )
        assert sum(isinstance(answer, TaskVersion) for answer in answers) == 1


async def test_of_two_equal_saves_of_one_version_a_single_one_is_served(url: str) -> None:
    before_the_append = Meanwhile("append_messages")
    async with open_backend(url, interceptors=[before_the_append]) as backend:
        store = BackendVersionedTaskStore(backend)
        first = await saved(store, a_task(), TaskVersion.MISSING)
        later = a_task(metadata={"n": 1})
        before_the_append.act = lambda: saved(store, later, first)
        with pytest.raises(ConcurrentTaskModificationError):
            await saved(store, later, first)


async def test_a_save_that_is_repeated_below_the_store_is_served(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        store = BackendVersionedTaskStore(backend)
        version = await saved(store, a_task(), TaskVersion.MISSING)
        stored = await store.get("t", ANNA)
        assert stored is not None
        assert stored.version == version


async def test_a_cancellation_needs_no_version_but_a_task_under_way(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendVersionedTaskStore(backend)
        canceled = a_task(state=TASK_STATE_CANCELED)
        with pytest.raises(ConcurrentTaskModificationError):
            await saved(store, canceled, TaskVersion.MISSING)
        first = await saved(store, a_task(), TaskVersion.MISSING)
        await saved(store, a_task(history=[says("later")]), first)
        await saved(store, canceled, first)
        stored = await store.get("t", ANNA)
        assert stored is not None
        assert stored.task.status.state == TASK_STATE_CANCELED
        assert list(stored.task.history) == [says("later")]
        with pytest.raises(ConcurrentTaskModificationError):
            await saved(store, canceled, stored.version)
