"""Two processes write through each adapter to one storage at once: nothing of either is lost.

``python -m tests.adapter_writers URL...``. In each process the runtime's own concurrency is at work
as well. The exit code is 0 only where every adapter found all that both wrote in every storage.
"""

import asyncio
import gc
import operator
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, TypedDict, cast

from agent_framework import Message as FrameworkMessage
from agent_framework import WorkflowCheckpoint
from claude_agent_sdk import SessionKey, SessionStoreEntry
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification

from stores_adapters.agent_framework import BackendCheckpointStorage, BackendHistoryProvider
from stores_adapters.claude_agent import BackendSessionStore
from stores_adapters.langgraph import BackendCheckpointSaver, BackendStore
from stores_adapters.mcp import BackendEventStore
from stores_adapters.openai_agents import BackendSession
from stores_adapters.tools import TurnRecorder
from stores_core import Backend, Message, ToolCall
from tests import adapter_retriers as retriers
from tests.langgraph_threads import at, ids
from tests.sharing_processes import BOTH, TURNS, Shared, shared_by_two


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def fanning_out(backend: Backend) -> Any:
    """A graph whose three nodes run side by side."""
    graph: Any = StateGraph(State)
    for name in ("a", "b", "c"):

        async def say(state: State, name: str = name) -> dict[str, list[str]]:
            return {"said": [name]}

        graph.add_node(name, say)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile(BackendCheckpointSaver(backend))


async def invoke(backend: Backend, who: int) -> None:
    graph = fanning_out(backend)
    for turn in range(TURNS):
        said = {"said": [f"{who}.{turn}"]}
        await asyncio.gather(
            graph.ainvoke(said, at("shared")), graph.ainvoke(said, at(f"own-{who}"))
        )


async def look_at_threads(backend: Backend) -> None:
    graph, saver = fanning_out(backend), BackendCheckpointSaver(backend)
    for who in BOTH:
        state = await graph.aget_state(at(f"own-{who}"))
        wanted = [[f"{who}.{turn}", "a", "b", "c"] for turn in range(TURNS)]
        assert state.values["said"] == [text for turn in wanted for text in turn]
    own = len(await ids(saver, at("own-0")))
    shared = await ids(saver, at("shared"))
    assert len(shared) == len(set(shared)) == 2 * own


async def put_items(backend: Backend, who: int) -> None:
    store = BackendStore(backend, fields=["a", "b"])
    for turn in range(TURNS):
        key, value = f"{who}.{turn}", {"a": f"first {who}.{turn}", "b": "second"}
        await asyncio.gather(
            store.aput(("own",), key, value),
            store.aput(("shared",), f"{turn}", value),
            store.aput(("gone",), key, value),
        )
        await store.adelete(("gone",), key)


async def look_at_items(backend: Backend) -> None:
    store = BackendStore(backend, fields=["a", "b"])
    wanted = sorted(f"{who}.{turn}" for who in BOTH for turn in range(TURNS))
    assert sorted(item.key for item in await store.asearch(("own",), limit=100)) == wanted
    assert len(await store.asearch(("own",), query="second", limit=100)) == len(wanted)
    assert [item.key for item in await store.asearch(("own",), query="first 1.2")] == ["1.2"]
    for item in await store.asearch(("shared",), query="second"):
        assert item.value["a"].endswith(f".{item.key}")
    assert await store.asearch(("gone",)) == []


async def add_and_pop(backend: Backend, who: int) -> None:
    session = BackendSession("session", backend)
    await backend.runs.create_run(run_id=f"popped-{who}")
    for turn in range(TURNS):
        pairs: list[Any] = [
            [{"role": "user", "content": f"{who}.{turn}.{n}.{half}"} for half in "ab"]
            for n in range(2)
        ]
        await asyncio.gather(*(session.add_items(pair) for pair in pairs))
        popped = cast("dict[str, str]", await session.pop_item())
        message = Message(role="user", text=popped["content"])
        await backend.runs.append_messages(run_id=f"popped-{who}", messages=[message])


async def look_at_session(backend: Backend) -> None:
    items = [
        cast("Any", i)["content"] for i in await BackendSession("session", backend).get_items()
    ]
    for who in BOTH:
        page = await backend.runs.read_messages(run_id=f"popped-{who}")
        items += [message.text for message in page.entries]
    numbers = [(who, turn, n) for who in BOTH for turn in range(TURNS) for n in range(2)]
    assert sorted(items) == sorted(f"{w}.{t}.{n}.{half}" for w, t, n in numbers for half in "ab")


SESSION: SessionKey = {"project_key": "p", "session_id": "s"}


async def mirror(backend: Backend, who: int) -> None:
    store = BackendSessionStore(backend)

    def entries(*uuids: str) -> list[SessionStoreEntry]:
        return [{"type": "user", "uuid": uuid} for uuid in uuids]

    for turn in range(TURNS):
        await asyncio.gather(
            store.append(SESSION, entries(f"{who}.{turn}.a", f"both.{turn}", f"{who}.{turn}.b")),
            store.append({**SESSION, "subpath": f"subagents/{who}"}, entries(f"{turn}")),
        )


async def look_at_transcripts(backend: Backend) -> None:
    store = BackendSessionStore(backend)
    uuids = [entry.get("uuid") for entry in await store.load(SESSION) or []]
    own = [f"{who}.{turn}.{half}" for who in BOTH for turn in range(TURNS) for half in "ab"]
    assert sorted(map(str, uuids)) == sorted([*own, *(f"both.{turn}" for turn in range(TURNS))])
    for who in BOTH:
        loaded = await store.load({**SESSION, "subpath": f"subagents/{who}"})
        assert [entry.get("uuid") for entry in loaded or []] == [f"{turn}" for turn in range(TURNS)]


async def record(backend: Backend, who: int) -> None:
    await backend.runs.create_run(run_id="recorded")

    async def turn(number: int) -> None:
        recorder, id = TurnRecorder(backend, "recorded"), f"{who}.{number}"
        recorder.message(Message(role="assistant", tool_calls=[ToolCall(id=id, name="look")]))
        recorder.message(Message(role="tool", tool_call_id=id, text="seen"))
        assert (await recorder.commit()).applied

    await asyncio.gather(*map(turn, range(TURNS)))


async def look_at_turns(backend: Backend) -> None:
    entries = (await backend.runs.read_messages(run_id="recorded")).entries
    called = [call.id for message in entries for call in message.tool_calls or ()]
    assert sorted(map(str, called)) == sorted(f"{w}.{n}" for w in BOTH for n in range(TURNS))
    assert [message.tool_call_id for message in entries[1::2]] == called


async def store_events(backend: Backend, who: int) -> None:
    store = BackendEventStore(backend, "s")

    async def tell(number: int) -> None:
        params = {"from": who, "number": number}
        message = JSONRPCNotification(jsonrpc="2.0", method="n", params=params)
        await store.store_event(str(number % 2), message)

    await asyncio.gather(*map(tell, range(2 * TURNS)))


async def look_at_streams(backend: Backend) -> None:
    store = BackendEventStore(backend, "s")
    for parity in (0, 1):
        run = await backend.runs.load_run(run_id=store.run_id(str(parity)))
        assert run.run
        sent: list[EventMessage] = []

        async def take(event: EventMessage, sent: list[EventMessage] = sent) -> None:
            sent.append(event)

        first = store.event_id(str(parity), 0)
        assert await store.replay_events_after(first, take) == str(parity)
        assert len({event.event_id for event in sent}) == 2 * TURNS - 1
        told = [run.run.events[0].text, *(event.message.model_dump_json() for event in sent)]
        wanted = {(w, n) for w in BOTH for n in range(2 * TURNS) if n % 2 == parity}
        params = [JSONRPCNotification.model_validate_json(text or "").params for text in told]
        assert {(of["from"], of["number"]) for of in params if of} == wanted


async def keep_history(backend: Backend, who: int) -> None:
    history, checkpoints = BackendHistoryProvider(backend), BackendCheckpointStorage(backend)

    async def write(turn: int) -> None:
        text = f"{who}.{turn}"
        pair = [FrameworkMessage("user", [text]), FrameworkMessage("assistant", [text])]
        await history.save_messages("s", pair)
        await checkpoints.save(WorkflowCheckpoint("w", "hash", checkpoint_id=text))

    await asyncio.gather(*map(write, range(TURNS)))


async def look_at_history(backend: Backend) -> None:
    kept = [said.text for said in await BackendHistoryProvider(backend).get_messages("s")]
    assert kept[::2] == kept[1::2]  # no pair was divided
    assert sorted(kept[::2]) == retriers.KEYS
    ids = await BackendCheckpointStorage(backend).list_checkpoint_ids(workflow_name="w")
    assert sorted(ids) == retriers.KEYS


ADAPTERS = {
    "langgraph checkpointer": Shared(invoke, look_at_threads),
    "langgraph store": Shared(put_items, look_at_items),
    "openai-agents session": Shared(add_and_pop, look_at_session),
    "claude-agent session store": Shared(mirror, look_at_transcripts),
    "turn recorder": Shared(record, look_at_turns),
    "mcp event store": Shared(store_events, look_at_streams),
    "agent-framework history": Shared(keep_history, look_at_history),
    "pydantic-ai conversations": Shared(
        retriers.save_a_conversation, retriers.look_at_the_conversation
    ),
    "google-adk sessions": Shared(retriers.count_in_a_session, retriers.look_at_the_count),
    "google-adk artifacts and memory": Shared(
        retriers.save_artifacts_and_memories, retriers.look_at_artifacts_and_memories
    ),
    "a2a task store": Shared(retriers.save_one_task, retriers.look_at_the_task),
}


def main(urls: Sequence[str]) -> int:
    # What is imported and frozen here, no child imports, and no child's collector copies.
    for point in entry_points(group="agent_stores.backends"):
        point.load()
    gc.collect()
    gc.freeze()
    for url in urls:
        for name, shared in ADAPTERS.items():
            shared_by_two(name, shared, url)
        print(url.partition(":")[0], len(ADAPTERS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
