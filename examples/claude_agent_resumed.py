"""Claude Agent SDK: a session is resumed by another process out of the store, and forked there."""

from pathlib import Path

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    fork_session_via_store,
    list_sessions_from_store,
    query,
)
from restarted import play

from stores_adapters.claude_agent import BackendSessionStore
from stores_core import open_backend

PROGRAM = Path(__file__).with_name("claude_agent_scripted.py")  # in place of the real one


async def asked(store: BackendSessionStore, prompt: str, resume: str | None = None) -> str:
    """What the agent answers, its session's id kept out of it."""
    options = ClaudeAgentOptions(session_store=store, resume=resume, cli_path=PROGRAM)
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            return message.result or ""
    return ""


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        print("answered:", await asked(BackendSessionStore(backend), "To Oslo?"))


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendSessionStore(backend)
        (session,) = await list_sessions_from_store(store)
        print("resumed:", await asked(store, "By train?", session.session_id))
        fork = await fork_session_via_store(store, session.session_id)
        print("forked:", await asked(store, "By ship?", fork.session_id))
        print("sessions:", len(await list_sessions_from_store(store)))


if __name__ == "__main__":
    play(first, second)
