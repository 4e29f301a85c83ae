"""Reading, writing and listing the tasks of one owner in the runs of a backend."""

import secrets
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, StreamResponse, Task
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_page_size,
)

from stores_adapters.a2a.entries import HEAD, TERMINAL, Kept, entries_for, head_of, kept_in
from stores_adapters.listing import runs_with
from stores_core import Backend
from stores_core.runs import RunInfo

ID = "a2a-task"
OWNER = "a2a-owner"
CONTEXT = "a2a-context"
EVERY = {"a2a": "task"}
"""The label of every task, whoever owns it."""

Order = tuple[bool, int, str]


class Tasks:
    """The tasks of all owners, each in a run of its own.

    Only names that this class makes are used for its runs, so that a backend may hold others.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._runs = backend.runs

    async def read(self, owner: str, task_id: str) -> Kept:
        answer = await self._runs.load_run(run_id=_run_id(owner, task_id))
        kept = Kept() if answer.run is None else kept_in(answer.run)
        if kept.task:
            kept.task.id = task_id  # which a fork was not written with
        return kept

    async def write(
        self,
        owner: str,
        task: Task,
        check: Callable[[Kept], None] = lambda kept: None,
        update: StreamResponse | None = None,
    ) -> int:
        """Append what is new in ``task`` and return its version.

        ``update`` is what followers of the task are told of this save. ``check`` sees what is
        stored, at the moment of writing, and may raise. Where anything was written since it
        looked, it looks again.
        """
        while True:
            kept = await self.read(owner, task.id)
            check(kept)
            messages, events = entries_for(task, kept, update)
            if not events:
                return kept.version
            if kept.version == 0:
                await self._runs.create_run(
                    run_id=_run_id(owner, task.id),
                    labels={**EVERY, ID: task.id, **_labels(owner, task.context_id)},
                )
            elif kept.task and kept.task.context_id != task.context_id:
                await self._runs.update_run(
                    run_id=_run_id(owner, task.id), labels={CONTEXT: task.context_id or None}
                )
            answer = await self._runs.append_messages(
                run_id=_run_id(owner, task.id),
                messages=messages,
                events=events,
                expected_count=kept.message_count,
                expected_events=kept.version,
                # A retry below, that did not see the first answer, is no other writer.
                idempotency_key=secrets.token_hex(16),
            )
            if answer.found and not answer.conflict:
                return answer.event_count

    async def remove(self, owner: str, task_id: str) -> None:
        await self._runs.delete_run(run_id=_run_id(owner, task_id))

    async def page(self, owner: str, params: ListTasksRequest) -> ListTasksResponse:
        """Looks at the newest head of each task of the owner, and at all of those on the page."""
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        validate_page_size(size)
        after = _position(params.page_token)
        heads = [head async for head in self._heads(owner, params.context_id)]
        found = sorted((_order(head) for head in heads if _matches(head, params)), reverse=True)
        following = found if after is None else [order for order in found if order < after]
        page = following[:size]
        tasks = [(await self.read(owner, id)).task for _, _, id in page]
        more = len(following) > size
        return ListTasksResponse(
            tasks=[task for task in tasks if task],
            total_size=len(found),
            page_size=size,
            next_page_token=_token(page[-1]) if more else "",
        )

    async def fork(self, owner: str, task_id: str, new_task_id: str) -> bool:
        source = await self._runs.get_run(run_id=_run_id(owner, task_id))
        if source.info is None:
            return False
        answer = await self._runs.fork_run(
            run_id=source.info.id,
            new_run_id=_run_id(owner, new_task_id),
            labels={**source.info.labels, ID: new_task_id},
        )
        return answer.created

    async def evict(self, finished_before: datetime) -> int:
        """Delete the tasks of all owners that ended before then; the number deleted."""
        deleted = 0
        async for info in runs_with(self._backend, EVERY, updated_before=finished_before):
            head = await self._head(info)
            if head is None or head.status.state not in TERMINAL:
                continue
            answer = await self._runs.delete_run(
                run_id=info.id,
                expected_messages=info.message_count,
                expected_events=info.event_count,
            )
            deleted += answer.deleted
        return deleted

    async def _heads(self, owner: str, context_id: str) -> AsyncIterator[Task]:
        async for info in runs_with(self._backend, _labels(owner, context_id)):
            head = await self._head(info)
            if head is not None:
                yield head

    async def _head(self, info: RunInfo) -> Task | None:
        answer = await self._runs.load_run(run_id=info.id, last_messages=0, last_events=1)
        events = answer.run.events if answer.run else ()
        if not events or events[0].kind != HEAD:
            return None
        head = head_of(events[0])
        head.id = info.labels[ID]
        return head


def _run_id(owner: str, task_id: str) -> str:
    # The length keeps owner "a" with task "b c" apart from owner "a b" with task "c".
    return f"a2a {len(owner)} {owner} {task_id}"


def _labels(owner: str, context_id: str) -> dict[str, str]:
    # An owner may be the empty text, which no label is.
    labels = {OWNER: f"owner {owner}"}
    return {**labels, CONTEXT: context_id} if context_id else labels


def _matches(head: Task, params: ListTasksRequest) -> bool:
    if params.status and head.status.state != params.status:
        return False
    if not params.HasField("status_timestamp_after"):
        return True
    earliest = params.status_timestamp_after.ToNanoseconds()
    return _order(head)[0] and _order(head)[1] >= earliest


def _order(head: Task) -> Order:
    """Listings go by this, descending: whether there is a timestamp, it in nanoseconds, the id."""
    dated = head.status.HasField("timestamp")
    return dated, head.status.timestamp.ToNanoseconds() if dated else 0, head.id


def _token(order: Order) -> str:
    dated, nanoseconds, task_id = order
    cursor = ListTasksCursor(timestamp_ns=nanoseconds if dated else None, task_id=task_id)
    return encode_list_tasks_cursor(cursor)


def _position(token: str) -> Order | None:
    if not token:
        return None
    cursor = decode_list_tasks_cursor(token)
    if cursor is None:
        raise InvalidParamsError("Invalid page token: one that no listing made")
    return cursor.sort_key()
