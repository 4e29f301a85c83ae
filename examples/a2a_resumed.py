"""An Agent2Agent task that outlives its server: interrupted, resumed in another process, forked."""

from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCard,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)
from restarted import play

from stores_adapters.a2a import BackendTaskStore
from stores_core import open_backend

CALL = ServerCallContext()


class Waiter(AgentExecutor):
    """Asks one question, then books."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        asked = task is not None
        if task is None:
            assert context.task_id
            assert context.message
            history = [context.message]
            task = Task(id=context.task_id, context_id=context.context_id or "", history=history)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = "booked" if asked else "for how many?"
        answer = updater.new_agent_message([Part(text=text)])
        await (updater.complete(answer) if asked else updater.requires_input(answer))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


async def say(store: BackendTaskStore, text: str, to: Task | None = None) -> Task:
    handler: Any = DefaultRequestHandler(Waiter(), store, AgentCard())
    message = Message(message_id=text, role=Role.ROLE_USER, parts=[Part(text=text)])
    if to is not None:
        message.task_id, message.context_id = to.id, to.context_id
    task = await handler.on_message_send(SendMessageRequest(message=message), CALL)
    assert isinstance(task, Task)
    return task


def told(task: Task) -> str:
    messages = [*task.history]
    if task.status.message not in messages:
        messages.append(task.status.message)
    return f"{TaskState.Name(task.status.state)} {[m.parts[0].text for m in messages]}"


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        print("answered:", told(await say(BackendTaskStore(backend), "book a table")))


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendTaskStore(backend)
        [task] = (await store.list(ListTasksRequest(), CALL)).tasks
        assert await store.fork(task.id, "fork", CALL)
        print("resumed:", told(await say(store, "for two", task)))
        task.id = "fork"
        print("forked:", told(await say(store, "for nine", task)))


if __name__ == "__main__":
    play(first, second)
