"""The two interfaces by which a2a-sdk keeps tasks."""

from collections.abc import Callable
from datetime import datetime

from a2a.server.cluster.task_store import (
    ConcurrentTaskModificationError,
    StoredTask,
    VersionedTaskStore,
)
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks.task_store import TaskStore
from a2a.types.a2a_pb2 import TASK_STATE_CANCELED, ListTasksRequest, ListTasksResponse, Task
from a2a.utils.proto_utils import to_stream_response

from stores_adapters.a2a.entries import TERMINAL, Kept
from stores_adapters.a2a.tasks import Tasks
from stores_core import Backend


class BackendTaskStore(TaskStore):
    """Keeps tasks in the runs of a backend, one run for each owner and task.

    A save appends what is new and never writes the whole history again. Savers that overlap lose
    nothing of one another: history and artifacts only grow, and a task stays in the final state
    (completed, canceled, failed, rejected) that it reached first. Between other states, and in
    metadata, the later save holds. To take something away, delete the task.
    """

    def __init__(
        self, backend: Backend, owner_resolver: OwnerResolver = resolve_user_scope
    ) -> None:
        self._tasks = Tasks(backend)
        self._owner_of = owner_resolver

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await self._tasks.write(self._owner_of(context), task)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        return (await self._tasks.read(self._owner_of(context), task_id)).task

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """A page of whole tasks, the latest status first, then those without a timestamp.

        Raises a2a's InvalidParamsError for an unfit page size or token.
        """
        return await self._tasks.page(self._owner_of(context), params)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        await self._tasks.remove(self._owner_of(context), task_id)

    async def fork(self, task_id: str, new_task_id: str, context: ServerCallContext) -> bool:
        """Start a task of the caller's as a copy of another, at a cost that no length changes.

        False, and nothing done, where there is no such task or the new id is taken.
        """
        return await self._tasks.fork(self._owner_of(context), task_id, new_task_id)

    async def evict(self, finished_before: datetime) -> int:
        """Delete all owners' tasks that reached a final state before then; how many they were."""
        return await self._tasks.evict(finished_before)


class BackendVersionedTaskStore(VersionedTaskStore):
    """As `BackendTaskStore`, for servers of several processes: a save names the version it read.

    Of savers that read one version a single one is served; the others get
    ConcurrentTaskModificationError. A cancellation needs no version, but a task that is not in a
    final state. The event of a save is kept beside it, for those who follow the task by a
    `BackendTaskEventStream`. Both stores read each other's tasks.
    """

    def __init__(
        self, backend: Backend, owner_resolver: OwnerResolver = resolve_user_scope
    ) -> None:
        self._tasks = Tasks(backend)
        self._owner_of = owner_resolver

    async def save(
        self,
        task: Task,
        *,
        event: Event | None,
        prev: Task | None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        def current(kept: Kept) -> bool:
            if task.status.state == TASK_STATE_CANCELED:
                return kept.task is not None and kept.task.status.state not in TERMINAL
            return _version_of(kept) == prev_version

        update = None if event is None else to_stream_response(event)
        owner, check = self._owner_of(context), _refusing(current, task)
        return TaskVersion(await self._tasks.write(owner, task, check, update))

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        kept = await self._tasks.read(self._owner_of(context), task_id)
        return StoredTask(kept.task, _version_of(kept)) if kept.task else None

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        return await self._tasks.page(self._owner_of(context), params)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        await self._tasks.remove(self._owner_of(context), task_id)

    async def fork(self, task_id: str, new_task_id: str, context: ServerCallContext) -> bool:
        """Start a task of the caller's as a copy of another, at a cost that no length changes.

        False, and nothing done, where there is no such task or the new id is taken.
        """
        return await self._tasks.fork(self._owner_of(context), task_id, new_task_id)

    async def evict(self, finished_before: datetime) -> int:
        """Delete all owners' tasks that reached a final state before then; how many they were."""
        return await self._tasks.evict(finished_before)


def _version_of(kept: Kept) -> TaskVersion:
    return TaskVersion(kept.version) if kept.task else TaskVersion.MISSING


def _refusing(current: Callable[[Kept], bool], task: Task) -> Callable[[Kept], None]:
    def check(kept: Kept) -> None:
        if not current(kept):
            raise ConcurrentTaskModificationError(task.id)

    return check
