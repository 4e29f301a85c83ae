"""The LangGraph checkpointer: by LangGraph's own conformance suite, and by what it does not ask."""

import asyncio
import operator
from collections.abc import AsyncGenerator
from typing import Annotated, Any, TypedDict, cast

import pytest

pytest.importorskip("langgraph.checkpoint.conformance", reason="needs the extra langgraph")

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate  # pyright: ignore[reportMissingTypeStubs]
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES  # pyright: ignore[reportMissingTypeStubs]
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command, interrupt

from stores_adapters.langgraph import BackendCheckpointSaver, BackendStore
from stores_adapters.langgraph.places import run_of
from stores_core import InvalidRequestError, open_backend
from stores_core.blocking import blocking
from stores_core.interceptors import Call, Proceed
from stores_core.shape import Response
from tests.langgraph_threads import at, got, ids, opened, put


async def test_it_conforms_to_langgraph_in_every_capability(url: str) -> None:
    @checkpointer_test(name=f"backend on {url.partition(':')[0]}")
    async def registered() -> AsyncGenerator[BackendCheckpointSaver]:
        async with opened(url) as (_, saver):
            yield saver

    report = await validate(registered)
    assert report.conformance_level() == "FULL"
    results = report.results
    assert {name for name, result in results.items() if result.detected} == {
        capability.value for capability in ALL_CAPABILITIES
    }
    assert [failure for result in results.values() for failure in result.failures] == []
    assert sum(result.tests_passed for result in results.values()) >= 81


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def asking(saver: BackendCheckpointSaver) -> Any:
    """A graph that plans, asks a human, and acts on the answer."""

    async def plan(state: State) -> dict[str, list[str]]:
        return {"said": ["plan"]}

    async def ask(state: State) -> dict[str, list[str]]:
        return {"said": [interrupt("go on?")]}

    async def act(state: State) -> dict[str, list[str]]:
        return {"said": ["acted on " + state["said"][-1]]}

    graph: Any = StateGraph(State)
    for node in (plan, ask, act):
        graph.add_node(node)
    for edge in ((START, "plan"), ("plan", "ask"), ("ask", "act"), ("act", END)):
        graph.add_edge(*edge)
    return graph.compile(checkpointer=saver)


async def test_a_graph_waits_for_a_human_and_goes_on_in_another_saver(url: str) -> None:
    async with open_backend(url) as backend:
        first = asking(BackendCheckpointSaver(backend))
        answer = await first.ainvoke({"said": ["hi"]}, at("t"))
        assert [waiting.value for waiting in answer["__interrupt__"]] == ["go on?"]
        # Another saver knows nothing but what is stored.
        second = asking(BackendCheckpointSaver(backend))
        answer = await second.ainvoke(Command(resume="yes"), at("t"))
        assert answer["said"] == ["hi", "plan", "yes", "acted on yes"]


async def test_time_travel_and_a_copy_leave_the_first_history_alone(url: str) -> None:
    async with opened(url) as (_, saver):
        graph = asking(saver)
        await graph.ainvoke({"said": ["hi"]}, at("t"))
        asked = await graph.aget_state(at("t"))
        await saver.acopy_thread("t", "copy")
        await graph.ainvoke(Command(resume="yes"), at("t"))
        first = [state async for state in graph.aget_state_history(at("t"))]
        assert first[0].values["said"] == ["hi", "plan", "yes", "acted on yes"]

        copied = await graph.ainvoke(Command(resume="no"), at("copy"))
        assert copied["said"] == ["hi", "plan", "no", "acted on no"]

        edited = await graph.aupdate_state(asked.config, {"said": ["edited"]}, as_node="ask")
        branch = await graph.ainvoke(None, edited)
        assert branch["said"] == ["hi", "plan", "edited", "acted on edited"]

        assert (await graph.aget_state(at("t"))).values == branch
        assert (await graph.aget_state(at("copy"))).values == copied
        whole = [state async for state in graph.aget_state_history(at("t"))]
        assert whole[-len(first) :] == first
        assert [state.metadata["source"] for state in whole[: -len(first)]] == ["loop", "update"]


async def test_a_step_writes_only_the_channels_that_changed(url: str) -> None:
    async with opened(url) as (backend, saver):
        large = "x" * 100_000
        config = await put(saver, at("t"), {"large": large, "small": 0})
        for step in range(2, 5):
            config = await put(
                saver,
                config,
                {"large": large, "small": step},
                versions={"large": 1, "small": step},
                changed={"small": step},
            )
        page = await backend.runs.read_messages(run_id=run_of("t", ""))
        sizes = [len(message.model_dump_json()) for message in page.entries]
        assert sizes[0] > 100_000
        assert max(sizes[1:]) < 2_000
        assert (await got(saver, at("t"))).checkpoint["channel_values"] == {
            "large": large,
            "small": 4,
        }


async def test_a_copy_of_a_thread_shares_what_it_copies(url: str) -> None:
    async with opened(url) as (backend, saver):
        for _ in range(20):
            await put(saver, at("t"), {"channel": "x" * 10_000})
        before = (await backend.admin.measure()).bytes
        await saver.acopy_thread("t", "copy")
        after = (await backend.admin.measure()).bytes
        assert await ids(saver, at("copy")) == await ids(saver, at("t"))
        assert before is not None
        assert after is not None
        assert after - before < 50_000 < before


async def test_copying_again_converges_and_a_taken_target_is_refused(url: str) -> None:
    async with opened(url) as (backend, saver):
        for namespace in ("", "child:1"):
            await put(saver, at("t", namespace=namespace))
        # A copy that was cut off after the first of two forks: the root is not there yet.
        await backend.runs.fork_run(
            run_id=run_of("t", "child:1"),
            new_run_id=run_of("copy", "child:1"),
            labels={"langgraph.kind": "checkpoints", "langgraph.thread": "copy"},
        )
        assert await saver.aget_tuple(at("copy")) is None
        for _ in range(2):
            await saver.acopy_thread("t", "copy")
            assert len(await ids(saver, {"configurable": {"thread_id": "copy"}})) == 2
        await put(saver, at("other"))
        for source, target in (("t", "other"), ("other", "copy"), ("t", "t")):
            kept = await ids(saver, at(target))
            with pytest.raises(InvalidRequestError, match="target_thread_id"):
                await saver.acopy_thread(source, target)
            assert await ids(saver, at(target)) == kept


async def test_writes_that_arrive_before_their_checkpoint_are_found(url: str) -> None:
    async with opened(url) as (_, saver):
        await saver.aput_writes(at("t", "1"), [("channel", "early")], "task")
        await put(saver, at("t"), id="1")
        assert (await got(saver, at("t"))).pending_writes == [("task", "channel", "early")]


async def test_writes_come_in_the_order_of_their_paths_and_repeat_nothing(url: str) -> None:
    async with opened(url) as (_, saver):
        config = await put(saver, at("t"), id="1")
        await saver.aput_writes(config, [("a", 1), ("b", 2)], "task-0", "path-1")
        await saver.aput_writes(config, [("a", 3)], "task-1", "path-0")
        await saver.aput_writes(config, [("a", 9), (INTERRUPT, "old")], "task-0", "path-1")
        await saver.aput_writes(config, [(INTERRUPT, "new")], "task-0", "path-1")
        assert (await got(saver, config)).pending_writes == [
            ("task-1", "a", 3),
            ("task-0", INTERRUPT, "new"),
            ("task-0", "a", 1),
            ("task-0", "b", 2),
        ]


async def test_late_writes_of_an_old_checkpoint_are_found_behind_many_others(url: str) -> None:
    async with opened(url) as (_, saver):
        first = await put(saver, at("t"), id="001")
        config = first
        for number in range(2, 60):
            config = await put(saver, config, id=f"{number:03}")
            await saver.aput_writes(config, [("channel", number)], "task")
        await saver.aput_writes(first, [("channel", "late")], "task")
        assert (await got(saver, first)).pending_writes == [("task", "channel", "late")]
        assert (await got(saver, at("t", "030"))).pending_writes == [("task", "channel", 30)]
        listed = [item async for item in saver.alist(at("t"))]
        assert [item.pending_writes for item in listed[-2:]] == [
            [("task", "channel", 2)],
            [("task", "channel", "late")],
        ]


async def test_the_newest_checkpoint_is_the_one_put_last_whatever_its_id(url: str) -> None:
    async with opened(url) as (_, saver):
        config = at("t")
        for id in ("5", "7", "6", "1"):  # the clock was set back
            config = await put(saver, config, {"channel": id}, id=id)
        assert (await got(saver, at("t"))).checkpoint["id"] == "1"
        assert await ids(saver, at("t")) == ["1", "6", "7", "5"]
        for id in ("5", "6", "7"):
            assert (await got(saver, at("t", id))).checkpoint["channel_values"] == {"channel": id}
        assert await saver.aget_tuple(at("t", "4")) is None


async def test_a_checkpoint_that_is_put_again_replaces_itself(url: str) -> None:
    async with opened(url) as (_, saver):
        for value, id in (("old", "1"), ("other", "2"), ("new", "1")):
            await put(saver, at("t"), {"channel": value}, id=id)
        assert (await got(saver, at("t", "1"))).checkpoint["channel_values"] == {"channel": "new"}
        assert await ids(saver, at("t")) == ["1", "2"]


async def test_concurrent_puts_into_one_thread_all_arrive(url: str) -> None:
    async with opened(url) as (_, saver):
        wanted = [f"{number:02}" for number in range(12)]
        await asyncio.gather(*(put(saver, at("t"), {"channel": id}, id=id) for id in wanted))
        assert sorted(await ids(saver, at("t"))) == wanted
        for id in wanted:
            assert (await got(saver, at("t", id))).checkpoint["channel_values"] == {"channel": id}


async def test_before_limit_and_filter_page_through_a_long_history(url: str) -> None:
    async with opened(url) as (_, saver):
        config = at("t")
        for step in range(300):
            config = await put(saver, config, id=f"{step:03}", metadata={"step": step % 2})
        before: RunnableConfig = {"configurable": {"checkpoint_id": "250"}}  # no thread named
        page = [item async for item in saver.alist(at("t"), before=before, limit=2)]
        assert [item.checkpoint["id"] for item in page] == ["249", "248"]
        odd = [item async for item in saver.alist(at("t"), filter={"step": 1}, limit=200)]
        assert [item.checkpoint["id"] for item in odd] == [f"{n:03}" for n in range(299, 0, -2)]
        assert await ids(saver, at("t")) == [f"{step:03}" for step in range(299, -1, -1)]
        assert [item async for item in saver.alist(at("t"), limit=0)] == []
        for limit in (-1, cast("int", True), cast("int", 2.0)):
            with pytest.raises(InvalidRequestError, match="limit"):
                await anext(saver.alist(at("t"), limit=limit))


async def test_threads_and_namespaces_never_share_a_run(url: str) -> None:
    places = [
        ("t", ""),
        ("t", "x"),
        ("t:x", ""),
        ("t", "x|y"),
        ("T", ""),
        ("\u00e9", ""),
        ("e\u0301", ""),
    ]
    async with opened(url) as (_, saver):
        for number, (thread, namespace) in enumerate(places):
            await put(saver, at(thread, namespace=namespace), {"channel": number})
        for number, (thread, namespace) in enumerate(places):
            item = await got(saver, at(thread, namespace=namespace))
            assert item.checkpoint["channel_values"] == {"channel": number}
        assert len(await ids(saver, None)) == len(places)
        await saver.adelete_thread("t")
        assert len(await ids(saver, None)) == len(places) - 3


def test_a_program_without_a_loop_runs_graphs_by_the_synchronous_methods(url: str) -> None:
    def count(state: State) -> dict[str, list[str]]:
        return {"said": [f"{len(state['said'])}"]}

    graph: Any = StateGraph(State)
    graph.add_node(count)
    graph.add_edge(START, "count")
    graph.add_edge("count", END)
    with blocking(open_backend(url)) as backend:
        saver = backend.adapted(BackendCheckpointSaver)
        agent = graph.compile(saver, store=backend.adapted(BackendStore))
        for text in ("a", "b"):
            agent.invoke({"said": [text]}, at("t"))
        saver.copy_thread("t", "copy")
        assert agent.get_state(at("copy")).values == {"said": ["a", "1", "b", "3"]}
        saver.prune(["t"])
        assert len(list(saver.list(at("t")))) == 1
        agent.store.put(("a",), "key", {"text": "tea"})
        assert [item.key for item in agent.store.search((), query="tea")] == ["key"]


async def test_synchronous_calls_work_from_threads_and_are_refused_on_the_loop(url: str) -> None:
    async with opened(url) as (_, saver):
        await put(saver, at("t"), {"channel": 1}, id="1")

        def from_a_thread() -> tuple[CheckpointTuple | None, list[CheckpointTuple]]:
            return saver.get_tuple(at("t")), list(saver.list(at("t")))

        item, listed = await asyncio.to_thread(from_a_thread)
        assert item is not None
        assert [item] == listed
        with pytest.raises(InvalidRequestError, match="loop"):
            saver.get_tuple(at("t"))
    with pytest.raises(InvalidRequestError, match="thread_id"):
        await saver.aget_tuple({"configurable": {}})


async def test_writes_whose_answer_comes_after_their_checkpoint_was_placed_are_found() -> None:
    applied, answered = asyncio.Event(), asyncio.Event()

    async def answer_late(call: Call, proceed: Proceed) -> Response:
        response = await proceed(call.request)
        if call.operation == "append_events":
            applied.set()
            await answered.wait()
        return response

    async with open_backend("memory:", interceptors=[answer_late]) as backend:
        saver = BackendCheckpointSaver(backend)
        config = await put(saver, at("t"), {"a": 1})
        id = empty_checkpoint()["id"]
        writing = asyncio.create_task(saver.aput_writes(at("t", id), [("a", 2)], "task"))
        await applied.wait()
        placing = asyncio.create_task(put(saver, config, {"a": 1}, id=id))
        await asyncio.sleep(0.02)  # so that the checkpoint has read how long the log is
        answered.set()
        await writing
        await placing
        listed = [item async for item in saver.alist(at("t"))]
        assert listed[0].checkpoint["id"] == id
        assert listed[0].pending_writes == [("task", "a", 2)]
