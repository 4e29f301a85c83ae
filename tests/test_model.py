"""The oracle of the random programs, and the search: right about a good store, not about a bad one.

What a wrong store is caught by is in docs/kill-matrix.md; here are some of each kind.
"""

import ast
import asyncio
import inspect
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conformance_tests import model
from conformance_tests.broken.defect import defects
from conformance_tests.lab import Bench, Lab
from conformance_tests.model import Refused, World
from conformance_tests.opener import Opener, from_url
from conformance_tests.suite.play import steps
from conformance_tests.suite.play.memory import NoteSteps
from conformance_tests.suite.play.programs import PARTS, Program
from conformance_tests.suite.play.runs import RunSteps
from conformance_tests.suite.play.search import explore
from conformance_tests.suite.play.stage import Stage
from conformance_tests.suite.play.tool_results import ResultSteps
from stores_core import Backend, Event, MemoryItem, Message, ToolResult
from stores_core.memory import (
    DeleteMemoryRequest,
    ListMemoriesRequest,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.runs import (
    AppendEventsRequest,
    AppendMessagesRequest,
    CreateRunRequest,
    DeleteRunRequest,
    ForkRunRequest,
    ListRunsRequest,
    LoadRunRequest,
    ReadMessagesRequest,
    UpdateRunRequest,
)
from stores_core.tool_results import PutToolResultRequest, SearchToolResultRequest

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)


# What it knows


def test_the_oracle_knows_the_models_and_no_store() -> None:
    home = Path(model.__file__).parent
    known = {f"stores_core.{name}" for name in ("entries", "runs", "memory", "tool_results")}
    for path in home.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.Import) or not node.names[0].name.startswith("stores")
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stores"):
                names = {alias.name for alias in node.names}
                assert node.module in known or (node.module, names) == (
                    "stores_core.codec",
                    {"canonical"},
                )


def said(*texts: str) -> list[Message]:
    return [Message(role="user", text=text) for text in texts]


def test_a_batch_is_written_once_for_its_key() -> None:
    runs = World().runs
    runs.create_run(CreateRunRequest(run_id="r"), NOW)
    batch = AppendMessagesRequest(run_id="r", messages=said("a", "b"), idempotency_key="k")
    first, again = runs.append_messages(batch, NOW), runs.append_messages(batch, LATER)
    assert (first.applied, again.applied) == (True, False)
    assert (again.found, again.conflict, again.message_count) == (True, False, 2)
    late = batch.model_copy(update={"expected_count": 9})
    assert not runs.append_messages(late, LATER).conflict
    with pytest.raises(Refused):
        runs.append_messages(batch.model_copy(update={"messages": said("a")}), LATER)
    with pytest.raises(Refused):
        runs.append_events(
            AppendEventsRequest(run_id="r", events=[Event(kind="e")], idempotency_key="k"), LATER
        )
    assert [line.updated_at for line in runs.lines.values()] == [NOW]


def test_lengths_that_are_not_as_expected_are_conflicts() -> None:
    runs = World().runs
    runs.create_run(CreateRunRequest(run_id="r"), NOW)
    for messages, events, applied in [(1, None, False), (0, 1, False), (0, 0, True)]:
        answer = runs.append_messages(
            AppendMessagesRequest(
                run_id="r", messages=said("a"), expected_count=messages, expected_events=events
            ),
            NOW,
        )
        assert (answer.applied, answer.conflict) == (applied, not applied)
    assert runs.delete_run(DeleteRunRequest(run_id="r", expected_messages=2)).conflict
    assert runs.delete_run(DeleteRunRequest(run_id="r", expected_messages=1)).deleted


def test_only_keys_beyond_the_latest_128_may_be_forgotten() -> None:
    runs = World().runs
    runs.create_run(CreateRunRequest(run_id="r"), NOW)
    for n in range(model.KEYS_KEPT + 1):
        batch = AppendMessagesRequest(run_id="r", messages=said("a"), idempotency_key=f"{n}")
        runs.append_messages(batch, NOW)
    assert runs.is_forgettable("r", "0")
    assert not runs.is_forgettable("r", "1")


@pytest.mark.parametrize(
    ("at", "messages", "events"), [(0, 3, 1), (-1, 3, 1), (3, 3, 1), (9, 3, 1), (2, 2, 0)]
)
def test_a_fork_is_a_prefix_that_goes_its_own_way(at: int, messages: int, events: int) -> None:
    runs = World().runs
    runs.create_run(CreateRunRequest(run_id="r", labels={"a": "x"}), NOW)
    runs.append_messages(
        AppendMessagesRequest(run_id="r", messages=said("a", "b", "c"), events=[Event(kind="e")]),
        NOW,
    )
    answer = runs.fork_run(ForkRunRequest(run_id="r", new_run_id="f", at_message=at), LATER)
    assert (answer.created, answer.parent_id, answer.fork_point) == (True, "r", messages)
    runs.append_messages(AppendMessagesRequest(run_id="r", messages=said("later")), LATER)
    runs.update_run(UpdateRunRequest(run_id="f", labels={"a": None, "b": "y"}), LATER)
    fork = runs.load_run(LoadRunRequest(run_id="f")).run
    assert fork is not None
    assert [message.text for message in fork.messages] == ["a", "b", "c"][:messages]
    assert (fork.event_count, fork.labels) == (events, {"b": "y"})
    assert runs.lines["r"].labels == {"a": "x"}
    again = runs.fork_run(ForkRunRequest(run_id="nobody", new_run_id="f"), LATER)
    assert (again.found, again.created, again.parent_id) == (False, False, "r")


def test_listings_are_newest_first_then_by_id() -> None:
    runs = World().runs
    for run_id, at in [("b", NOW), ("z", LATER), ("a", NOW)]:
        runs.create_run(CreateRunRequest(run_id=run_id), at)
    assert [info.id for info in runs.list_runs(ListRunsRequest())] == ["z", "a", "b"]
    idle = runs.list_runs(ListRunsRequest(updated_before=LATER))
    assert [info.id for info in idle] == ["a", "b"]


def test_a_read_beyond_the_end_is_refused() -> None:
    runs = World().runs
    runs.create_run(CreateRunRequest(run_id="r"), NOW)
    assert runs.read_messages(ReadMessagesRequest(run_id="r", start=0)).found
    assert not runs.read_messages(ReadMessagesRequest(run_id="nobody", start=7)).found
    with pytest.raises(Refused):
        runs.read_messages(ReadMessagesRequest(run_id="r", start=1))


def test_a_note_keeps_its_place_and_a_version_never_comes_again() -> None:
    memory = World().memory

    def put(key: str, at: datetime, version: int = 1) -> PutMemoryResponse:
        request = PutMemoryRequest(item=MemoryItem(key=key, value="v"))
        return memory.put_memory(request, at, PutMemoryResponse(version=version))

    assert [put("b", NOW).version, put("a", NOW).version, put("b", LATER).version] == [1, 1, 2]
    listed = memory.list_memories(ListMemoriesRequest())
    assert [scored.item.key for scored in listed] == ["b", "a"]
    assert listed[0].item.created_at == NOW
    memory.delete_memory(DeleteMemoryRequest(key="b"))
    assert put("b", LATER, version=1).version == 3, "1 was told, and is not above 2"
    memory.delete_memory(DeleteMemoryRequest(key="b"))
    assert put("b", LATER, version=7).version == 7, "how far above is the store's own affair"


@pytest.mark.parametrize(
    ("held", "wanted", "equal"),
    [
        (2, 2.0, True), (2, 3, False), (True, 1, False), (1, True, False), (True, True, True),
        (None, None, True), (None, False, False), ("2", 2, False), ("a", "a", True),
        ([1], 1, False), (2**53 + 1, float(2**53), False), (0, -0.0, True),
    ],
)  # fmt: skip
def test_where_compares_numbers_by_value_and_all_else_by_type(
    held: object, wanted: Any, equal: bool
) -> None:
    memory = World().memory
    item = MemoryItem(key="k", value="v", metadata={"n": held})
    memory.put_memory(PutMemoryRequest(item=item), NOW, None)
    found = memory.list_memories(ListMemoriesRequest(where={"n": wanted}))
    assert bool(found) is equal
    assert not memory.list_memories(ListMemoriesRequest(where={"m": wanted}))


def test_a_score_is_the_cosine_over_float32() -> None:
    vectors = {"k a": (3.0, 4.0), "k b": (0.0, 0.0), "q": (1.0, 0.0)}
    memory = World(lambda text: vectors[text]).memory
    for value, score in [("a", 0.6), ("b", 0.0)]:
        item = MemoryItem(key="k", value=value)
        memory.put_memory(PutMemoryRequest(item=item), NOW, None)
        assert abs(memory.score(memory.matching("", {})[0], "q") - score) < 1e-12


@pytest.mark.parametrize(
    ("text", "pattern", "ignore_case", "found"),
    [
        ("one\ntwo one one\n", "one", False, [(0, 3, 0), (8, 11, 4)]),
        ("Straße\nSTRASSE", "strasse", True, [(0, 6, 0), (7, 14, 7)]),
        ("ß", "s", True, []),
        ("a\nb", "a\nb", False, [(0, 3, 0)]),
        ("aaa", "aa", False, [(0, 2, 0)]),
    ],
)
def test_a_search_finds_one_match_for_each_line(
    text: str, pattern: str, ignore_case: bool, found: list[tuple[int, int, int]]
) -> None:
    results = World().tool_results
    result = ToolResult(content=[{"type": "text", "text": text}])
    results.put_tool_result(PutToolResultRequest(ref="r", result=result), NOW)
    request = SearchToolResultRequest(ref="r", pattern=pattern, ignore_case=ignore_case)
    assert results.search_tool_result(request) == found


# What the search does


def lab_on(opener: Opener, *, seed: int = 0) -> Generator[Lab]:
    bench = Bench(opener, quick=True, seed=seed)
    lab = Lab(bench, [])
    yield lab
    lab.end()
    bench.close()


@pytest.fixture
def lab() -> Generator[Lab]:
    yield from lab_on(from_url("memory:model"))


async def pasted(program: str, lab: Lab) -> None:
    """Run what a failure printed, as the body of a test."""
    names: dict[str, Any] = {"lab": lab}
    names |= {part.__name__: part for part in OF_PARTS.values()}
    exec(f"async def test(lab):\n{textwrap.indent(program, '    ')}", names)  # noqa: S102
    await names["test"](lab)


OF_PARTS: dict[str, type] = {
    "runs": RunSteps,
    "memory": NoteSteps,
    "tool_results": ResultSteps,
    "stage": Stage,
}

CAUGHT: dict[str, tuple[str, ...]] = {
    "ForkForgetsADeletedParent": ("runs",),
    "RunIdsHaveNoCase": ("runs",),
    "ScoreIsRounded": ("memory", "embedding"),
    "RefsAreTrimmed": ("tool_results",),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "ScoreIsRounded" else pytest.param(name, marks=pytest.mark.long)
        for name in CAUGHT
    ],
)
def test_a_wrong_store_is_caught_by_a_short_program_that_can_be_pasted(name: str) -> None:
    stores = [store for store in CAUGHT[name] if store in PARTS]
    embedding = "embedding" in CAUGHT[name]
    for lab in lab_on(defects()[name].opener(f"memory:{name}")):
        with pytest.raises(AssertionError) as failure:
            lab.run(explore(lab, *stores, examples=300, embedding=embedding))
        where, how = failure.value.__notes__
        assert where.startswith("It happened at: await ")
        program = how.rpartition("\n\n")[2]
        assert len(program.splitlines()) < 15, f"it could be shorter:\n{program}"
        with pytest.raises(AssertionError) as again:
            lab.run(pasted(program, lab))
        assert str(again.value) == str(failure.value)


@pytest.mark.parametrize("stores", [("runs",), ("memory",), ("tool_results",), tuple(PARTS)])
def test_a_good_store_fails_no_program(lab: Lab, stores: tuple[str, ...]) -> None:
    lab.run(explore(lab, *stores, examples=5))


def test_a_storage_of_one_tenant_that_holds_other_data_fails_no_program(lab: Lab) -> None:
    named = from_url("memory:of-one-tenant")
    of_one_tenant = Opener("one tenant", named.call, frozenset({"clock", "embedder"}))
    for lab in lab_on(of_one_tenant):
        lab.run(furnish(lab.backend))
        lab.run(explore(lab, *PARTS, examples=10))


async def furnish(client: Backend) -> None:
    for n in range(5):
        await client.runs.create_run(run_id=f"stranger {n}", labels={"a": "x"})
        await client.memory.put_memory(item=MemoryItem(key=f"{n}", value="word"))
        await client.tool_results.put_tool_result(ref=f"{n}", result=ToolResult())


def test_clients_that_share_nothing_fail_no_program() -> None:
    for lab in lab_on(from_url("memory:")):
        lab.run(explore(lab, *PARTS, examples=5))


def programs_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    played: list[str] = []

    async def note(program: Program, lab: Lab) -> None:
        played.append(str(program))

    monkeypatch.setattr(Program, "play", note)
    for lab in lab_on(from_url("memory:model"), seed=seed):
        lab.run(explore(lab, *PARTS, examples=20))
    return played


@pytest.mark.long
def test_a_seed_gives_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (programs_of(seed, monkeypatch) for seed in (1, 1, 2))
    assert len(first) == 20
    assert first == again
    assert first != other


def test_every_step_can_be_drawn_and_every_argument_fits() -> None:
    for part, kinds in steps.KINDS.items():
        methods = {
            name
            for name, _ in inspect.getmembers(OF_PARTS[part], inspect.iscoroutinefunction)
            if not name.startswith("_") and name not in ("ask", "open", "close", "end")
        }
        drawn = {kind.name for kind in kinds}
        assert methods - drawn <= {"compare"}, "a step that no program has"
        for kind in kinds:
            known = inspect.signature(getattr(OF_PARTS[part], kind.name)).parameters
            assert kind.fields.keys() <= known.keys()
            needed = {
                name for name, parameter in known.items() if parameter.default is parameter.empty
            }
            assert needed - {"self"} <= kind.fields.keys()


def draws() -> bool:
    """Whether Hypothesis is at work in another thread."""
    return any(
        "hypothesis" in frame.f_code.co_filename
        for thread, top in sys._current_frames().items()  # pyright: ignore[reportPrivateUsage] - documented
        if thread != threading.get_ident()
        for frame, _ in traceback.walk_stack(top)
    )


def test_a_search_whose_time_is_over_leaves_nothing_running(lab: Lab) -> None:
    async def cut() -> None:
        async with asyncio.timeout(0.5):
            await explore(lab, "runs", examples=100_000)

    with pytest.raises(TimeoutError):
        lab.run(cut())
    end = time.monotonic() + 30
    while draws() and time.monotonic() < end:
        time.sleep(0.01)
    assert not draws(), "the thread is free again"
