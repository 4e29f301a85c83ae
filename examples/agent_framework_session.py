"""An Agent Framework session that outlives its process: kept, resumed in another, forked."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from stores_adapters.agent_framework import BackendHistoryProvider
from stores_core import open_backend


class Scripted(BaseChatClient):
    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Awaitable[ChatResponse]:
        async def answer() -> ChatResponse:
            told = [message.text for message in messages if message.role == "user"]
            return ChatResponse(messages=[Message("assistant", [f"I was told: {', '.join(told)}"])])

        return answer()


async def say(history: BackendHistoryProvider, session_id: str, text: str) -> str:
    agent = Agent(Scripted(), context_providers=[history])
    return (await agent.run(text, session=agent.create_session(session_id=session_id))).text


async def before(url: str) -> None:
    async with open_backend(url) as backend:
        print("before:", await say(BackendHistoryProvider(backend), "s-7", "I like tea"))


async def after(url: str) -> None:
    async with open_backend(url) as backend:
        history = BackendHistoryProvider(backend)
        print("after:", await say(history, "s-7", "and cake"))
        assert await history.fork("s-7", "s-8", at_message=2)
        print("fork:", await say(history, "s-8", "but no sugar"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run({"before": before, "after": after}[sys.argv[1]](sys.argv[2]))
    else:
        with TemporaryDirectory() as folder:
            for part in ("before", "after"):  # each in a process of its own
                command = [sys.executable, __file__, part, f"sqlite:{folder}/stores.db"]
                subprocess.run(command, check=True)
