"""A Pydantic AI conversation that outlives its process: saved, resumed in another, forked."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.function import AgentInfo, FunctionModel
from restarted import play

from stores_adapters.pydantic_ai import BackendConversationStore
from stores_core import open_backend


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart(f"I was told {len(messages) // 2 + 1} things")])


agent = Agent(FunctionModel(scripted))


async def say(store: BackendConversationStore, conversation: Conversation, text: str) -> str:
    result = await agent.run(text, conversation=conversation)
    await store.save(result)
    return result.output


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        conversation = Conversation(conversation_id="c-7")
        print("answered:", await say(store, conversation, "I like tea"))


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendConversationStore(backend)
        conversation = await store.load("c-7")
        assert conversation
        print("resumed:", await say(store, conversation, "and cake"))
        fork = await store.fork("c-7", at=2, new_conversation_id="c-8")
        print("forked:", await say(store, fork, "but no sugar"))
        kept = await store.load_entries("c-7")
        print("messages of c-7:", len(kept or ()))


if __name__ == "__main__":
    play(first, second)
