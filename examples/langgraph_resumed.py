"""LangGraph: a graph asks a human, its process ends, another goes on; a copy answers otherwise."""

from typing import Annotated, Any, TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.graph.message import add_messages  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command, interrupt
from restarted import play

from stores_adapters.langgraph import BackendCheckpointSaver
from stores_core import Backend, open_backend

TRIP = {"configurable": {"thread_id": "trip"}}
COPY = {"configurable": {"thread_id": "copy"}}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


async def propose(state: State) -> dict[str, Any]:
    model = FakeListChatModel(responses=["By train, via Malmö?"])
    return {"messages": [await model.ainvoke(state["messages"])]}


async def ask(state: State) -> dict[str, Any]:
    return {"messages": [("user", interrupt(state["messages"][-1].text))]}


def graph(backend: Backend) -> Any:
    steps: Any = StateGraph(State)
    steps.add_node(propose).add_node(ask)
    steps.add_edge(START, "propose").add_edge("propose", "ask").add_edge("ask", END)
    return steps.compile(BackendCheckpointSaver(backend))


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        agent = graph(backend)
        state = await agent.ainvoke({"messages": [("user", "To Oslo, please.")]}, TRIP)
        print("asked:", state["__interrupt__"][0].value)


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        agent = graph(backend)
        await agent.checkpointer.acopy_thread("trip", "copy")
        for thread, answer in ((TRIP, "Yes."), (COPY, "No, via Kiel.")):
            state = await agent.ainvoke(Command(resume=answer), thread)
            print("resumed:", [message.text for message in state["messages"]])


if __name__ == "__main__":
    play(first, second)
