"""The front: what reaches a store, what does not, and how answers and failures come back."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast, get_type_hints

import pytest

import stores_core
from stores_core import (
    AppendMessagesRequest,
    Backend,
    Call,
    InvalidRequestError,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    Proceed,
    ReadMessagesRequest,
    RecordTooLargeError,
    Response,
    StoreClosedError,
    StoreUnavailableError,
    ToolCall,
    ToolResult,
    codec,
    nothing_sent,
    open_backend,
)
from stores_core.front import AdminFront, MemoryFront, MovingFront, RunsFront, ToolResultsFront
from stores_core.front.operation import Declared

FRONTS = {
    RunsFront: stores_core.RunStore,
    MemoryFront: stores_core.MemoryStore,
    ToolResultsFront: stores_core.ToolResultStore,
    AdminFront: stores_core.Admin,
    MovingFront: stores_core.Moving,
}
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class RecordingStore:
    """Stands in for every store: keeps the requests that reach it, answers what it was told to."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]] | None = None) -> None:
        self.requests: list[Any] = []
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        async def handler(request: Any) -> Any:
            self.requests.append(request)
            if self._answer is not None:
                return await self._answer(request)
            return stores_core.GetRunResponse(found=False)

        return handler


class LabelledItem(MemoryItem):
    """A note with a field that a store would not keep."""

    label: str = "x"


def recording(answer: Callable[[Any], Awaitable[Any]] | None = None) -> tuple[Backend, Any]:
    store: Any = RecordingStore(answer)
    backend = Backend(name="recording", runs=store, memory=store, tool_results=store)
    backend.opened.clock = lambda: NOW
    return backend, store


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: front.kind)
def test_each_protocol_operation_has_one_front_operation_of_the_same_types(front: type) -> None:
    declared: dict[str, tuple[type, type]] = {
        name: (item.request, item.response)
        for name, item in cast("dict[str, Declared[..., Any, Any]]", vars(front)).items()
        if type(item) is Declared
    }
    promised = {
        name: (hints["request"], hints["return"])
        for name, method in vars(FRONTS[front]).items()
        if inspect.iscoroutinefunction(method)
        for hints in [get_type_hints(method)]
    }
    assert declared == promised
    for name, (request, response) in declared.items():
        stem = "".join(word.capitalize() for word in name.split("_"))
        assert (request.__name__, response.__name__) == (f"{stem}Request", f"{stem}Response")


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("runs", "get_run", {}, "run_id"),
    ("runs", "get_run", {"run_id": ""}, "run_id"),
    ("runs", "get_run", {"run_id": 7}, "run_id"),
    ("runs", "get_run", {"run_id": None}, "run_id"),
    ("runs", "get_run", {"run_id": b"x"}, "run_id"),
    ("runs", "get_run", {"run_id": "a\0b"}, "run_id"),
    ("runs", "get_run", {"run_id": "\ud800"}, "run_id"),
    ("runs", "get_run", {"run_id": "é" * 257}, "run_id"),
    ("runs", "get_run", {"run_id": "a", "run": "b"}, "run"),
    ("runs", "get_run", {"run_id": "a", "timeout": 0}, "timeout"),
    ("runs", "get_run", {"run_id": "a", "timeout": float("nan")}, "timeout"),
    ("runs", "create_run", {"labels": {"a": ""}}, "labels.a"),
    ("runs", "create_run", {"labels": {str(n): "x" for n in range(65)}}, "labels"),
    ("runs", "read_messages", {"run_id": "a", "limit": -1}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "limit": True}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "limit": 2.0}, "limit"),
    ("runs", "read_messages", {"run_id": "a", "start": "1; DROP TABLE x"}, "start"),
    ("runs", "list_runs", {"cursor": "nope"}, "cursor"),
    ("runs", "list_runs", {"cursor": "A" * 100_000}, "cursor"),
    ("runs", "list_runs", {"updated_before": datetime(2026, 1, 1)}, "updated_before"),  # noqa: DTZ001
    ("runs", "append_messages", {"run_id": "a"}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": "text"}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": {"a"}}, "messages"),
    ("runs", "append_messages", {"run_id": "a", "messages": [{"text": "x"}]}, "messages[0].role"),
    (
        "runs",
        "append_messages",
        {"run_id": "a", "messages": [], "expected_count": -1},
        "expected_count",
    ),
    ("memory", "put_memory", {"item": {"key": "", "value": "v"}}, "item.key"),
    ("memory", "put_memory", {"item": {"key": "k", "value": "\udc00"}}, "item.value"),
    ("memory", "put_memory", {"item": {"key": "k", "value": 5}}, "item.value"),
    ("memory", "list_memories", {"where": {"a": {"$ne": 1}}}, "where"),
    ("memory", "list_memories", {"where": {"a": float("nan")}}, "where"),
    ("memory", "list_memories", {"query": "q", "cursor": "x"}, "cursor"),
    ("memory", "list_memories", {"query": "q" * 65_537}, "query"),
    ("memory", "clear_namespace", {}, "namespace"),
    ("memory", "clear_namespace", {"namespace": None}, "namespace"),
    ("tool_results", "search_tool_result", {"ref": "r", "pattern": ""}, "pattern"),
    ("tool_results", "put_tool_result", {"ref": "r", "result": "text"}, "result"),
]


@pytest.mark.parametrize(
    ("store", "name", "fields", "field"), REFUSED, ids=[f"{row[1]}-{row[3]}" for row in REFUSED]
)
async def test_an_invalid_request_is_refused_by_name_and_never_reaches_a_store(
    store: str, name: str, fields: dict[str, Any], field: str
) -> None:
    backend, recorded = recording()
    with pytest.raises(InvalidRequestError) as refused:
        await getattr(getattr(backend, store), name)(**fields)
    assert refused.value.field == field
    assert recorded.requests == []


def nested(levels: int) -> list[Any]:
    return [nested(levels - 1)] if levels > 1 else []


UNFIT: dict[str, tuple[Any, str]] = {
    "nan": ({"a": [float("nan")]}, ".a[0]"),
    "infinity": (float("-inf"), ""),
    "int-keys": ({1: "int", "1": "str"}, ""),
    "none-keys": ({"a": {None: 1}}, ".a"),
    "bytes": ([b"x"], "[0]"),
    "set": ({"s": {1}}, ".s"),
    "tuple": ((1, 2), ""),
    "aware-time": ({"t": NOW}, ".t"),
    "model": ({"m": Message(role="u")}, ".m"),
    "huge-int": ({"n": 10**4300}, ".n"),
    "surrogate": ({"s": ["ok \udb8d end"]}, ".s[0]"),
    "surrogate-key": ({"\ud800": 1}, "['a key']"),
    "too-deep": (nested(101), "[0]" * 100),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_what_json_cannot_give_back_is_refused_wherever_it_stands(name: str) -> None:
    value, where = UNFIT[name]
    places: list[tuple[str, str, dict[str, Any], str]] = [
        (
            "runs",
            "append_messages",
            {"messages": [Message.model_validate({"role": "u", "x": value})]},
            "messages[0].x",
        ),
        (
            "runs",
            "append_messages",
            {"messages": [{"role": "u", "tool_calls": [{"id": "1", "args": value}]}]},
            "messages[0].tool_calls[0].args",
        ),
        (
            "runs",
            "append_events",
            {"events": [{"kind": "k", "result": {"messages": [{"role": "u", "y": value}]}}]},
            "events[0].result.messages[0].y",
        ),
        (
            "runs",
            "append_events",
            {"events": [{"kind": "k", "tool_result": ToolResult(structured_content=value)}]},
            "events[0].tool_result.structured_content",
        ),
    ]
    backend, recorded = recording()
    for store, operation_name, fields, field in places:
        with pytest.raises(InvalidRequestError) as refused:
            await getattr(getattr(backend, store), operation_name)(run_id="a", **fields)
        assert refused.value.field == field + where
    for fields, field in (
        ({"result": {"content": [value]}}, "result.content[0]"),
        ({"result": {"meta": value}}, "result.meta"),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            await backend.tool_results.put_tool_result(**fields)  # type: ignore[arg-type]
        assert refused.value.field == field + where
    item = MemoryItem(key="k", value="v", metadata={"m": value})
    with pytest.raises(InvalidRequestError) as refused:
        await backend.memory.put_memories(items=[item])
    assert refused.value.field == "items[0].metadata.m" + where
    assert recorded.requests == []


async def test_a_request_that_was_changed_unchecked_is_checked_again() -> None:
    backend, recorded = recording()
    good = ReadMessagesRequest(run_id="a")
    for bad in (
        good.model_copy(update={"limit": -1}),
        ReadMessagesRequest.model_construct(run_id=5),
        AppendMessagesRequest(run_id="a", messages=[]),
        {"run_id": "a"},
    ):
        with pytest.raises(InvalidRequestError):
            await backend.runs.read_messages(bad)  # type: ignore[call-overload]
    message = Message(role="u").model_copy(update={"role": 5})
    with pytest.raises(InvalidRequestError, match=r"messages\[0\]\.role"):
        await backend.runs.append_messages(run_id="a", messages=[message])
    with pytest.raises(InvalidRequestError, match=r"messages\[0\]\.role"):
        await backend.runs.append_messages(run_id="a", messages=[Message.model_construct(text="x")])
    item = MemoryItem(key="k", value="v")
    for broken, field in (
        (item.model_copy(update={"key": 5}), r"items\[0\]\.key"),
        (MemoryItem.model_construct(key="k"), r"items\[0\]\.value"),
        (LabelledItem(key="k", value="v"), r"items\[0\]\.label"),
    ):
        with pytest.raises(InvalidRequestError, match=field):
            await backend.memory.put_memories(items=[broken])
    with pytest.raises(InvalidRequestError, match="request"):
        await backend.runs.read_messages(good, limit=3)  # type: ignore[call-overload]
    assert recorded.requests == []


async def test_a_store_receives_complete_requests() -> None:
    backend, recorded = recording()
    await backend.runs.create_run()
    await backend.runs.fork_run(run_id="a", at_message=-3)
    await backend.runs.list_runs(limit=5_000)
    await backend.runs.read_events(run_id="a")
    await backend.memory.put_memory(item=MemoryItem(key="k", value="v"))
    await backend.tool_results.put_tool_result(result=ToolResult())
    create, fork, listing, read, put, result = recorded.requests
    assert create.at == fork.at == put.at == NOW
    assert create.run_id.startswith(f"{int(NOW.timestamp() * 1000):012x}-")
    assert len({create.run_id, fork.new_run_id, result.ref}) == 3
    assert fork.at_message == 0
    assert (listing.limit, read.limit) == (1_000, 100)
    assert put.item.created_at == NOW


async def test_messages_are_stamped_and_encoded_once() -> None:
    backend, recorded = recording()
    given = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    mine = [
        Message(role="u"),
        Message(role="u", timestamp=given),
        Message(role="u", timestamp=None),
    ]
    await backend.runs.append_messages(run_id="a", messages=mine)
    sent = recorded.requests[0].messages
    assert [message.timestamp for message in sent] == [NOW, given, NOW]
    texts = [codec.encode(message) for message in sent]
    assert texts[0] == b'{"role":"u","timestamp":"2026-01-02T03:04:05.678901Z"}'
    assert texts[1] == b'{"role":"u","timestamp":"2020-01-01T10:00:00Z"}'
    assert [codec.canonical(message) for message in sent] == [text.decode() for text in texts]
    assert mine[0].timestamp is None


async def test_the_digest_of_a_batch_does_not_depend_on_the_stamp() -> None:
    backend, recorded = recording()
    call = ToolCall(id="1", args={"a": 1})
    batch = [Message(role="u", tool_calls=[call])]
    await backend.runs.append_messages(run_id="a", messages=batch, idempotency_key="k")
    backend.opened.clock = lambda: NOW + timedelta(days=1)
    await backend.runs.append_messages(run_id="a", messages=batch, idempotency_key="k")
    other = [Message(role="u", tool_calls=[ToolCall(id="1", args={"a": 1.0})])]
    await backend.runs.append_messages(run_id="a", messages=other, idempotency_key="k")
    first, second, third = (request.digest for request in recorded.requests)
    assert first == second != third


async def test_limits_refuse_before_anything_is_sent_and_say_how_to_raise_them() -> None:
    backend, recorded = recording()
    backend.opened.limits = stores_core.Limits(
        max_entry_bytes=100, max_batch_entries=3, max_batch_bytes=200
    )
    long = Message(role="u", text="x" * 100)
    for fields, option in (
        ({"messages": [long]}, "max_entry_bytes"),
        ({"messages": [], "events": [{"kind": "k"}] * 4}, "max_batch_entries"),
        ({"messages": [Message(role="u", text="x" * 60)] * 3}, "max_batch_bytes"),
    ):
        with pytest.raises(RecordTooLargeError, match=option):
            await backend.runs.append_messages(run_id="a", **fields)  # type: ignore[arg-type]
    with pytest.raises(RecordTooLargeError, match="max_entry_bytes"):
        await backend.memory.put_memory(item=MemoryItem(key="k", value="x" * 100))
    with pytest.raises(RecordTooLargeError, match="max_entry_bytes"):
        await backend.tool_results.put_tool_result(result=ToolResult(content=["x" * 100]))
    assert recorded.requests == []


async def _never(request: Any) -> Any:
    await asyncio.sleep(60)


async def _waits_unsent(request: Any) -> Any:
    with nothing_sent():
        await asyncio.sleep(60)


async def _fails(request: Any) -> Any:
    raise ConnectionResetError("password=S3cret")


async def test_a_timeout_is_an_unknown_outcome_for_a_write_and_unavailable_for_a_read() -> None:
    backend, _ = recording(_never)
    with pytest.raises(StoreUnavailableError, match=r"runs\.get_run"):
        await backend.runs.get_run(run_id="a", timeout=0.01)
    with pytest.raises(OutcomeUnknownError) as unknown:
        await backend.runs.create_run(timeout=0.01)
    assert list(unknown.value.retry_with) == ["run_id"]
    with pytest.raises(OutcomeUnknownError) as unknown:
        await backend.runs.append_messages(
            run_id="a", messages=[], idempotency_key="k", timeout=0.01
        )
    assert unknown.value.retry_with == {"idempotency_key": "k"}


async def test_a_timeout_while_nothing_was_sent_means_not_applied() -> None:
    backend, _ = recording(_waits_unsent)
    with pytest.raises(StoreUnavailableError):
        await backend.runs.create_run(timeout=0.01)


async def test_no_exception_of_a_store_reaches_a_caller_bare() -> None:
    backend, _ = recording(_fails)
    with pytest.raises(StoreUnavailableError) as failed:
        await backend.runs.get_run(run_id="a")
    assert isinstance(failed.value.__cause__, ConnectionResetError)
    assert "S3cret" not in str(failed.value)
    with pytest.raises(OutcomeUnknownError):
        await backend.runs.delete_run(run_id="a")


async def test_a_cancelled_operation_stays_cancelled() -> None:
    backend, _ = recording(_never)
    task = asyncio.ensure_future(backend.runs.create_run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_backend_refuses_another_event_loop_unless_it_says_otherwise() -> None:
    backend, _ = recording()

    async def use() -> None:
        await backend.runs.get_run(run_id="a")

    asyncio.run(use())
    with pytest.raises(InvalidRequestError, match="another event loop"):
        asyncio.run(use())


async def test_a_closed_backend_says_so() -> None:
    async with open_backend("memory:") as backend:
        pass
    with pytest.raises(StoreClosedError, match="closed"):
        await backend.runs.get_run(run_id="a")


async def test_a_store_that_is_not_offered_is_named() -> None:
    backend = Backend(name="empty")
    with pytest.raises(InvalidRequestError, match="'empty'"):
        _ = backend.memory
    assert backend.offered == frozenset()


async def test_a_retry_inside_an_interceptor_does_not_hide_an_earlier_try() -> None:
    async def first_lost_then_waiting(request: Any) -> Any:
        if len(recorded.requests) == 1:
            raise OutcomeUnknownError
        await _waits_unsent(request)

    async def retrying(call: Call, proceed: Proceed) -> Response:
        try:
            return await proceed(call.request)
        except OutcomeUnknownError:
            return await proceed(call.request)

    backend, recorded = recording(first_lost_then_waiting)
    backend.opened.interceptors = (retrying,)
    with pytest.raises(OutcomeUnknownError):
        await backend.runs.create_run(run_id="a", timeout=0.02)
    assert len(recorded.requests) == 2
