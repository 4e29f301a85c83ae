"""An Agent Framework session that outlives its process: kept, resumed in another, forked."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message
from restarted import play

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


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        print("answered:", await say(BackendHistoryProvider(backend), "s-7", "I like tea"))


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        history = BackendHistoryProvider(backend)
        print("resumed:", await say(history, "s-7", "and cake"))
        assert await history.fork("s-7", "s-8", at_message=2)
        print("forked:", await say(history, "s-8", "but no sugar"))


if __name__ == "__main__":
    play(first, second)
