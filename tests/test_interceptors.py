"""Interceptors on a real backend: order, what makes a retry converge, injected faults."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from stores_core import Backend, open_backend
from stores_core.entries import Event, Message
from stores_core.errors import (
    InvalidRequestError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from stores_core.interceptors import (
    Call,
    Faulty,
    Interceptor,
    Proceed,
    chain,
    faulty,
    retry_with,
)
from stores_core.runs import (
    AppendEventsRequest,
    AppendMessagesRequest,
    CreateRunRequest,
    ForkRunRequest,
    GetRunRequest,
    GetRunResponse,
    UpdateRunRequest,
)
from stores_core.shape import Request, Response
from stores_core.tool_results import PutToolResultRequest, ToolResult

T = TypeVar("T")
BAIT = "bait: never to be seen"
GET = GetRunRequest(run_id="r")
CALL = Call("memory", "runs", "get_run", GET, False)


async def not_found(request: Request) -> Response:
    return GetRunResponse(found=False)


def on_a_backend(
    interceptors: Sequence[Interceptor],
    use: Callable[[Backend], Awaitable[T]],
    timeout: float = 30.0,
) -> T:
    async def run() -> T:
        async with open_backend("memory:", interceptors=interceptors, timeout=timeout) as backend:
            return await use(backend)

    return asyncio.run(run())


def answer(interceptors: Sequence[Interceptor], handler: Proceed = not_found) -> Response:
    async def run() -> Response:
        return await chain(interceptors, CALL, handler)

    return asyncio.run(run())


def naming(name: str, order: list[str]) -> Interceptor:
    async def interceptor(call: Call, proceed: Proceed) -> Response:
        order.append(f"{name} in")
        response = await proceed(call.request)
        order.append(f"{name} out")
        return response

    return interceptor


def test_without_interceptors_the_handler_answers() -> None:
    assert answer([]) == GetRunResponse(found=False)


def test_the_first_interceptor_is_the_outermost() -> None:
    order: list[str] = []
    answer([naming("first", order), naming("second", order)])
    assert order == ["first in", "second in", "second out", "first out"]


def test_an_interceptor_may_answer_without_proceeding() -> None:
    order: list[str] = []

    async def cached(call: Call, proceed: Proceed) -> Response:
        return GetRunResponse(found=False)

    answer([cached, naming("never", order)])
    assert order == []


def test_an_interceptor_may_proceed_again_after_a_failure() -> None:
    attempts: list[str] = []

    async def retry(call: Call, proceed: Proceed) -> Response:
        try:
            return await proceed(call.request)
        except StoreUnavailableError:
            return await proceed(call.request)

    async def down_at_first(request: Request) -> Response:
        attempts.append("asked")
        if len(attempts) == 1:
            raise StoreUnavailableError
        return GetRunResponse(found=False)

    assert answer([retry], down_at_first) == GetRunResponse(found=False)
    assert len(attempts) == 2


def test_a_request_that_was_changed_is_what_all_further_in_see() -> None:
    other = GetRunRequest(run_id="other")
    seen: list[Request] = []

    async def change(call: Call, proceed: Proceed) -> Response:
        return await proceed(other)

    async def look(call: Call, proceed: Proceed) -> Response:
        seen.append(call.request)
        return await proceed(call.request)

    async def handler(request: Request) -> Response:
        seen.append(request)
        return GetRunResponse(found=False)

    answer([look, change, look], handler)
    assert seen == [GET, other, other]


def test_a_backend_tells_interceptors_the_store_the_operation_and_whether_it_writes() -> None:
    calls: list[Call] = []

    async def look(call: Call, proceed: Proceed) -> Response:
        calls.append(call)
        return await proceed(call.request)

    async def use(backend: Backend) -> None:
        await backend.runs.create_run()
        await backend.memory.list_memories()
        await backend.admin.sweep()

    on_a_backend([look], use)
    assert [(call.backend, call.store, call.operation, call.writes) for call in calls] == [
        ("memory", "runs", "create_run", True),
        ("memory", "memory", "list_memories", False),
        ("memory", "admin", "sweep", True),
    ]
    assert isinstance(calls[0].request, CreateRunRequest)
    assert calls[0].request.run_id, "interceptors see the generated id"


MESSAGES, EVENTS = [Message(role="user", text=BAIT)], [Event(kind="signal")]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CreateRunRequest(run_id="r"), {"run_id": "r"}),
        (ForkRunRequest(run_id="r", new_run_id="f"), {"new_run_id": "f"}),
        (
            AppendMessagesRequest(run_id="r", messages=MESSAGES, idempotency_key="k"),
            {"idempotency_key": "k"},
        ),
        (
            AppendEventsRequest(run_id="r", events=EVENTS, idempotency_key="k"),
            {"idempotency_key": "k"},
        ),
        (AppendMessagesRequest(run_id="r", messages=MESSAGES), {}),
        (PutToolResultRequest(ref="t", result=ToolResult()), {"ref": "t"}),
        (UpdateRunRequest(run_id="r", labels={"a": "b"}), {}),
        (GET, {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_retry_converges_with_the_id_or_key_of_the_request(
    request_: Request, expected: dict[str, str]
) -> None:
    assert retry_with(request_) == expected


async def fresh_run(backend: Backend) -> str:
    return (await backend.runs.create_run(run_id="r")).run_id


def append_with(faults: Faulty) -> tuple[type[BaseException], dict[str, str] | None, int]:
    """What one append raised, with which retry_with, and how many messages are there then."""

    async def use(backend: Backend) -> tuple[type[BaseException], dict[str, str] | None, int]:
        run_id = await fresh_run(backend)
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - told apart by the caller
            await backend.runs.append_messages(
                run_id=run_id, messages=MESSAGES, idempotency_key="k"
            )
        found = await backend.runs.get_run(run_id=run_id)
        assert found.info
        error = caught.value
        retry = error.retry_with if isinstance(error, OutcomeUnknownError) else None
        return type(error), retry, found.info.message_count

    return on_a_backend([faults], use)


def test_a_failure_before_is_unavailable_and_writes_nothing() -> None:
    faults = faulty(1, fail_before=1, operations=["append_messages"])
    assert append_with(faults) == (StoreUnavailableError, None, 0)
    assert faults.injected == {"fail_before": 1, "fail_after": 0, "delay": 0, "cancel": 0}


def test_a_failure_after_is_an_unknown_outcome_of_a_write_that_is_there() -> None:
    faults = faulty(1, fail_after=1, operations=["append_messages"])
    assert append_with(faults) == (OutcomeUnknownError, {"idempotency_key": "k"}, 1)
    assert faults.injected["fail_after"] == 1


def test_cancelling_hits_before_and_after_the_write() -> None:
    outcomes = {
        append_with(faulty(seed, cancel=1, operations={"append_messages"}))[::2]
        for seed in range(12)
    }
    assert outcomes == {(asyncio.CancelledError, 0), (asyncio.CancelledError, 1)}


def test_a_read_that_fails_after_is_unavailable_because_it_has_no_outcome() -> None:
    async def use(backend: Backend) -> None:
        with pytest.raises(StoreUnavailableError):
            await backend.runs.get_run(run_id="r")

    on_a_backend([faulty(1, fail_after=1)], use)


def test_an_unknown_outcome_names_generated_ids_so_that_a_retry_converges() -> None:
    async def use(backend: Backend) -> None:
        with pytest.raises(OutcomeUnknownError) as caught:
            await backend.runs.create_run()
        run_id = caught.value.retry_with["run_id"]
        with pytest.raises(OutcomeUnknownError):
            await backend.runs.create_run(run_id=run_id)
        assert (await backend.runs.get_run(run_id=run_id)).found

    on_a_backend([faulty(1, fail_after=1, operations=["create_run"])], use)


def test_a_delay_is_waited_and_can_run_into_the_timeout() -> None:
    faults = faulty(1, delay=1, delay_seconds=5, operations=["get_run"])

    async def use(backend: Backend) -> None:
        with pytest.raises(StoreUnavailableError, match="timeout"):
            await backend.runs.get_run(run_id="r")

    on_a_backend([faults], use, timeout=0.02)
    assert faults.injected["delay"] == 1


def outcomes_of(faults: Faulty, count: int = 400) -> list[str]:
    async def run() -> list[str]:
        names: list[str] = []
        for _ in range(count):
            try:
                await faults(CALL, not_found)
            except (StoreUnavailableError, asyncio.CancelledError) as error:
                names.append(type(error).__name__)
            else:
                names.append("ok")
        return names

    return asyncio.run(run())


def test_one_seed_gives_one_sequence_of_faults_and_another_seed_another() -> None:
    first = outcomes_of(faulty(5, fail_before=0.25, cancel=0.1))
    assert first == outcomes_of(faulty(5, fail_before=0.25, cancel=0.1))
    assert first != outcomes_of(faulty(6, fail_before=0.25, cancel=0.1))


def test_faults_come_as_often_as_their_chance_says_and_are_counted() -> None:
    faults = faulty(2, fail_before=0.25, cancel=0.1)
    found = Counter(outcomes_of(faults, 2_000))
    assert 400 < found["StoreUnavailableError"] < 600
    assert faults.injected["fail_before"] == found["StoreUnavailableError"]
    assert faults.injected["cancel"] == found["CancelledError"] > 100


def test_one_chance_does_not_shift_where_another_falls() -> None:
    alone = outcomes_of(faulty(3, fail_before=0.2))
    mixed = outcomes_of(faulty(3, fail_before=0.2, cancel=0.3, delay=0.2, delay_seconds=0))
    assert [name == "StoreUnavailableError" for name in alone] == [
        name == "StoreUnavailableError" for name in mixed
    ]


def test_by_default_nothing_is_injected() -> None:
    assert set(outcomes_of(faulty(1))) == {"ok"}


@pytest.mark.parametrize("name", ["fail_before", "fail_after", "delay", "cancel"])
@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_a_chance_outside_zero_to_one_is_refused(name: str, chance: float) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        faulty(1, **{name: chance})  # pyright: ignore[reportArgumentType] - the names vary
    assert caught.value.field == name


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_delay_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        faulty(1, delay=1, delay_seconds=seconds)
    assert caught.value.field == "delay_seconds"
