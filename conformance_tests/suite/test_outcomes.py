"""Timeouts, failures half-way, cancellation: every outcome has a name, and nothing is left over."""

import asyncio
import time
from typing import Any

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.samples import Sample, name_of
from conformance_tests.suite.notes import is_missing, note, write
from conformance_tests.suite.operations import PROTOCOLS, bound, operations, requests, unused
from conformance_tests.suite.steps import header, load, start_run, turn
from conformance_tests.suite.test_tool_results import put, text_of, text_result
from stores_core import (
    Call,
    InvalidRequestError,
    Message,
    OutcomeUnknownError,
    Response,
    StoreUnavailableError,
)
from stores_core.interceptors import Proceed

AMID = "faults"

BAD_TIMEOUTS: list[Sample] = [
    Sample("zero", 0),
    Sample("negative", -0.5),
    Sample("NaN", float("nan")),
    Sample("infinity", float("inf")),
    Sample("text", "1"),
    Sample("boolean", True),
]


@pytest.mark.parametrize("sample", BAD_TIMEOUTS, ids=name_of)
@pytest.mark.parametrize("store", PROTOCOLS)
@proves("ALL-8", look_at="the check of the timeout of a request")
async def test_a_timeout_that_is_no_time_is_refused_by_every_operation(
    lab: Lab, store: str, sample: Sample
) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend offers no `{store}`")
    for name in operations(store):
        fits = requests(store, name, unused(lab))[0]
        with pytest.raises(InvalidRequestError) as refused:
            await bound(lab.backend, store, name)(**fits, timeout=sample.value)
        assert refused.value.field == "timeout"


async def _hang(call: Call, proceed: Proceed) -> Response:
    """An interceptor that carries the call out and never answers."""
    await proceed(call.request)
    await asyncio.sleep(60)
    raise AssertionError("nobody waits that long")


@proves("ALL-8", needs=("runs",), look_at="when a timeout surfaces, and by which error")
async def test_a_timeout_ends_on_time_and_says_what_is_known(lab: Lab) -> None:
    client = await lab.open(interceptors=[_hang], timeout=0.3)
    run_id, key = await start_run(lab), lab.new_id("key")
    runs = client.runs
    begun = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        await runs.get_run(run_id=run_id)
    with pytest.raises(OutcomeUnknownError) as unknown:
        await runs.append_messages(
            run_id=run_id, messages=turn(2), idempotency_key=key, timeout=0.2
        )
    assert unknown.value.retry_with == {"idempotency_key": key}
    with pytest.raises(OutcomeUnknownError) as unknown:
        await runs.fork_run(run_id=run_id, timeout=0.2)
    assert unknown.value.retry_with["new_run_id"]
    assert time.monotonic() - begun < 0.3 + 0.2 + 0.2 + 3 * 0.1 + 0.5  # and a slow machine
    again = await lab.backend.runs.append_messages(
        run_id=run_id, messages=turn(2), idempotency_key=key
    )
    assert (again.found, again.message_count) == (True, 2)


async def _fail_afterwards(call: Call, proceed: Proceed) -> Response:
    """An interceptor that carries the call out and loses the reply."""
    await proceed(call.request)
    raise ConnectionResetError("password=hunter2 was in the connection string")


@proves(
    "ALL-8",
    "RUN-A7",
    "RUN-F7",
    "RUN-C2",
    needs=("runs",),
    look_at="what an unknown outcome carries",
)
async def test_after_an_unknown_outcome_a_retry_with_what_it_carries_converges(lab: Lab) -> None:
    client, runs = await lab.open(interceptors=[_fail_afterwards]), lab.backend.runs
    source = await start_run(lab, turn(3))
    if not (await _seen_by(lab, client, source)):
        lab.not_applicable("without SHARED a second client has a storage of its own")
    with pytest.raises(OutcomeUnknownError) as unknown:
        await client.runs.create_run(labels={"a": "1"})
    assert isinstance(unknown.value.__cause__, ConnectionResetError)
    assert "hunter2" not in str(unknown.value)
    run_id = unknown.value.retry_with["run_id"]
    assert not (await runs.create_run(run_id=run_id)).created
    assert (await header(lab.reader, run_id)).labels == {"a": "1"}
    with pytest.raises(OutcomeUnknownError) as unknown:
        await client.runs.fork_run(run_id=source, at_message=2)
    fork = unknown.value.retry_with["new_run_id"]
    again = await runs.fork_run(run_id=source, new_run_id=fork, at_message=2)
    assert (again.created, again.parent_id, again.fork_point) == (False, source, 2)
    with pytest.raises(OutcomeUnknownError) as unknown:
        await client.runs.append_messages(run_id=source, messages=turn(2))
    assert unknown.value.retry_with == {}, "without a key nothing makes a repeat safe"
    with pytest.raises(StoreUnavailableError):
        await client.runs.load_run(run_id=source)


async def _seen_by(lab: Lab, client: Any, run_id: str) -> bool:
    """Whether another client works on the same storage; told by a conflict that changes nothing."""
    with pytest.raises(OutcomeUnknownError):
        await client.runs.append_messages(
            run_id=run_id, messages=turn(1, first=3), expected_count=3
        )
    return (await header(lab.backend, run_id)).message_count == 4


@proves(
    "ALL-9", "RUN-A4", "RUN-A7", needs=("runs",), look_at="what a cancelled append leaves behind"
)
async def test_cancelled_appends_are_whole_or_absent_and_a_retry_makes_them_once(
    lab: Lab,
) -> None:
    run_id, count = await start_run(lab), 12 if lab.quick else 40
    keys = [lab.new_id("key") for _ in range(count)]

    def append(n: int) -> Any:
        return lab.backend.runs.append_messages(
            run_id=run_id, messages=turn(5, f"batch {n}"), idempotency_key=keys[n]
        )

    calls = [asyncio.ensure_future(append(n)) for n in range(count)]
    for n, call in enumerate(calls):
        for _ in range(n % 9):
            await asyncio.sleep(0)
        call.cancel()
    await asyncio.wait(calls)
    async with asyncio.timeout(30):  # usable at once: no lock, no connection is held
        answers = [await append(n) for n in range(count)]
    assert answers[-1].found
    messages = (await load(lab.reader, run_id)).messages
    assert len(messages) == 5 * count
    batches = [messages[start].text for start in range(0, len(messages), 5)]
    assert sorted(str(text) for text in batches) == sorted(f"batch {n} 0" for n in range(count))
    for start in range(0, len(messages), 5):
        by = str(messages[start].text).removesuffix(" 0")
        assert [m.text for m in messages[start : start + 5]] == [f"{by} {n}" for n in range(5)]


@proves("ALL-9", needs=("runs",), look_at="a connection that goes back with a reply still to come")
async def test_the_reply_of_a_cancelled_call_never_reaches_another_caller(lab: Lab) -> None:
    names = ["one", "two", "three"]
    runs = {name: await start_run(lab, turn(3, name)) for name in names}
    for turns in range(30 if lab.quick else 90):
        cancelled = asyncio.ensure_future(lab.backend.runs.load_run(run_id=runs[names[turns % 3]]))
        for _ in range(turns % 7):
            await asyncio.sleep(0)
        cancelled.cancel()
        name = names[(turns + 1) % 3]
        run, info = await asyncio.gather(
            load(lab.backend, runs[name]), header(lab.backend, runs[name])
        )
        assert (run.id, info.id) == (runs[name], runs[name])
        assert [message.text for message in run.messages] == [f"{name} {n}" for n in range(3)]
        await asyncio.wait([cancelled])


@proves("ALL-9", needs=("memory", "tool_results"), look_at="what a cancelled put leaves behind")
async def test_cancelled_puts_leave_the_old_or_the_new_whole(lab: Lab) -> None:
    space, ref = lab.new_id("notes"), lab.new_id("ref")

    def start(n: int) -> list[asyncio.Future[Any]]:
        result = text_result(f"{n % 10}" * 90_000, further=f"{n % 10}")
        return [
            asyncio.ensure_future(write(lab.backend, space, "k", f"{n}", {"n": n})),
            asyncio.ensure_future(put(lab.backend, ref, result)),
            asyncio.ensure_future(write(lab.backend, space, f"new {n}", f"{n}", {"n": n})),
        ]

    await asyncio.gather(*start(0))
    begun = time.monotonic()
    await asyncio.gather(*start(0))
    took = time.monotonic() - begun
    for n in range(1, 30 if lab.quick else 60):
        calls = start(n)
        # After some turns of the loop, or some part of the time that they take.
        for _ in range(n // 2 % 6 if n % 2 else 0):
            await asyncio.sleep(0)
        if n % 2 == 0:
            await asyncio.sleep(took * (n % 24) / 20)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        kept = await note(lab.reader, space, "k")
        assert kept.metadata == {"n": int(kept.value)}
        text = await text_of(lab.reader, ref)
        assert (len(text), len(set(text))) == (90_000, 1)
        if not await is_missing(lab.reader, space, f"new {n}"):
            assert (await note(lab.reader, space, f"new {n}")).value == f"{n}"
    await write(lab.backend, space, "k", "last", {})
    assert (await note(lab.reader, space, "k")).value == "last"


@proves(
    "ALL-9", "ALL-7", needs=("runs",), look_at="a task group that cancels the rest of its tasks"
)
async def test_a_task_that_fails_takes_its_siblings_along_and_leaves_the_store_usable(
    lab: Lab,
) -> None:
    run_id = await start_run(lab)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(30):
                group.create_task(_append(lab, run_id, n))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await together()
    async with asyncio.timeout(20):
        answer = await lab.backend.runs.append_messages(
            run_id=run_id, messages=[Message(role="user", text="after")]
        )
    assert answer.applied
    texts = [message.text for message in (await load(lab.reader, run_id)).messages]
    assert texts[-1] == "after"
    assert len(texts) == len(set(texts))


async def _append(lab: Lab, run_id: str, n: int) -> None:
    message = Message(role="user", text=f"{n}")
    await lab.backend.runs.append_messages(run_id=run_id, messages=[message])
