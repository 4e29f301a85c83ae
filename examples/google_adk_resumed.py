"""A Google ADK session that outlives its process: run, resumed in another, forked."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent, InvocationContext
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.genai import types
from restarted import play

from stores_adapters.google_adk import BackendSessionService
from stores_core import open_backend


class Counter(BaseAgent):
    """Counts the turns of the session, and of all sessions of its user."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        state = ctx.session.state
        turns, ever = state.get("turns", 0) + 1, state.get("user:turns", 0) + 1
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(parts=[types.Part(text=f"turn {turns}, {ever} ever")]),
            actions=EventActions(state_delta={"turns": turns, "user:turns": ever}),
        )


async def say(sessions: BackendSessionService, session_id: str, text: str) -> str:
    runner = Runner(app_name="app", agent=Counter(name="counter"), session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answers: list[str] = []
    async for event in runner.run_async(user_id="anna", session_id=session_id, new_message=message):
        if event.content and event.content.parts:
            answers += [part.text for part in event.content.parts if part.text]
    return ", ".join(answers)


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        sessions = BackendSessionService(backend)
        await sessions.create_session(app_name="app", user_id="anna", session_id="s-7")
        print("answered:", await say(sessions, "s-7", "hello"))


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        sessions = BackendSessionService(backend)
        print("resumed:", await say(sessions, "s-7", "again"))
        fork = await sessions.fork_session(
            app_name="app", user_id="anna", session_id="s-7", new_session_id="s-8", at_event=2
        )
        print("forked:", await say(sessions, fork.id, "once more"))


if __name__ == "__main__":
    play(first, second)
