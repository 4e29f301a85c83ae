"""The front: its operations, what reaches a store, and how answers and failures come back."""

import asyncio
import inspect
from datetime import datetime, timedelta, timezone
from typing import Any, cast, get_type_hints

import pytest

import stores_core
from stores_core import (
    Backend,
    Call,
    InvalidRequestError,
    MemoryItem,
    Message,
    OutcomeUnknownError,
    Proceed,
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
from tests.recording_store import NOW, recording

FRONTS = {
    RunsFront: stores_core.RunStore,
    MemoryFront: stores_core.MemoryStore,
    ToolResultsFront: stores_core.ToolResultStore,
    AdminFront: stores_core.Admin,
    MovingFront: stores_core.Moving,
}


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
