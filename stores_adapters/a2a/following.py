"""The updates of a task, for servers in whose process its agent does not run."""

import asyncio
from collections.abc import AsyncGenerator

from a2a.server.cluster.event_stream import TaskEventStream, VersionedEvent
from a2a.server.cluster.version import TaskVersion
from a2a.server.events.event_queue import Event
from a2a.types.a2a_pb2 import StreamResponse

from stores_adapters.a2a.entries import HEAD, update_of
from stores_adapters.a2a.tasks import EVERY, ID
from stores_adapters.listing import runs_with
from stores_core import Backend, InvalidRequestError


class BackendTaskEventStream(TaskEventStream):
    """Follows the tasks of a `BackendVersionedTaskStore`, whose saves keep the updates.

    ``poll_interval`` is the pause in seconds between two looks for something new.
    """

    def __init__(self, backend: Backend, poll_interval: float = 0.5) -> None:
        self._backend = backend
        self._poll_interval = poll_interval

    async def publish(self, task_id: str, event: VersionedEvent) -> None:
        """Nothing: the save that made this version has kept the event, in the same step."""

    async def subscribe(
        self, task_id: str, *, after: TaskVersion
    ) -> AsyncGenerator[VersionedEvent, None]:
        """The events that were saved after a version, in order, each once; then those to come.

        Ends when the task is deleted. Raises InvalidRequestError where tasks of several owners
        bear the id: the interface names no owner, and nobody may see another's task.
        """
        run_id = ""
        while not run_id:
            run_id = await self._run_of(task_id)
            if not run_id:
                await asyncio.sleep(self._poll_interval)
        start, waiting = 0, list[StreamResponse]()
        while True:
            try:
                page = await self._backend.runs.read_events(run_id=run_id, start=start, limit=1000)
            except InvalidRequestError:
                return  # shorter than it was: deleted, and another task bears the id now
            if not page.found:
                return
            for position, event in enumerate(page.entries, start):
                update = update_of(event)
                if update is not None:
                    waiting.append(update)
                elif event.kind == HEAD:  # which ends each save, so that the version is known
                    version = TaskVersion(position + 1)
                    if version.is_after(after):
                        for one in waiting:
                            yield VersionedEvent(event=_event_of(one), version=version)
                    waiting = []
            start = page.next
            if start == page.count:
                await asyncio.sleep(self._poll_interval)

    async def destroy(self, task_id: str) -> None:
        """Nothing: the updates go with the task."""

    async def _run_of(self, task_id: str) -> str:
        ids = [info.id async for info in runs_with(self._backend, {**EVERY, ID: task_id})]
        if len(ids) > 1:
            raise InvalidRequestError(
                field="task_id",
                found="an id that tasks of several owners bear",
                allowed="an id of one task, as a server generates them",
            )
        return ids[0] if ids else ""


def _event_of(update: StreamResponse) -> Event:
    return getattr(update, update.WhichOneof("payload") or "")
