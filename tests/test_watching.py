"""Watching operations: spans of OpenTelemetry, log lines; neither ever tells content."""

import asyncio
import logging as python_logging
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from stores_core import Backend, Event, Message, ToolResult, open_backend
from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_core.interceptors import Call, Interceptor, Proceed, chain, logging, tracing
from stores_core.runs import GetRunRequest, GetRunResponse
from stores_core.shape import Request, Response

T = TypeVar("T")
BAIT = "bait: never to be seen"
MESSAGES, EVENTS = [Message(role="user", text=BAIT)], [Event(kind="signal")]


def on_a_backend(interceptors: Sequence[Interceptor], use: Callable[[Backend], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_backend("memory:", interceptors=interceptors) as backend:
            return await use(backend)

    return asyncio.run(run())


async def not_found(request: Request) -> Response:
    return GetRunResponse(found=False)


def logged(interceptor: Interceptor, handler: Proceed = not_found) -> Response:
    call = Call("memory", "runs", "get_run", GetRunRequest(run_id="r"), False)

    async def run() -> Response:
        return await chain([interceptor], call, handler)

    return asyncio.run(run())


def spans_of(use: Callable[[Backend], Awaitable[object]], *more: Interceptor) -> list[ReadableSpan]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    on_a_backend([tracing(provider.get_tracer("test")), *more], use)
    provider.shutdown()
    return list(exporter.get_finished_spans())


async def a_turn(backend: Backend) -> None:
    await backend.runs.create_run(run_id="t-7", labels={"user": BAIT})
    await backend.runs.append_messages(run_id="t-7", messages=MESSAGES * 2, events=EVENTS)
    await backend.runs.load_run(run_id="t-7")
    await backend.tool_results.put_tool_result(
        ref="out", result=ToolResult(content=[{"type": "text", "text": BAIT}])
    )
    await backend.memory.put_memory(item={"key": "k", "value": BAIT}, namespace="n")  # pyright: ignore[reportArgumentType] - a dict will do


def test_each_operation_is_a_span_with_ids_counts_and_outcome() -> None:
    create, append, load, put, note = spans_of(a_turn)
    assert [span.name for span in (create, append, load, put, note)] == [
        "runs.create_run",
        "runs.append_messages",
        "runs.load_run",
        "tool_results.put_tool_result",
        "memory.put_memory",
    ]
    assert append.attributes == {
        "agent_stores.backend": "memory",
        "agent_stores.store": "runs",
        "agent_stores.operation": "append_messages",
        "agent_stores.run_id": "t-7",
        "agent_stores.entries_sent": 3,
        "agent_stores.entries_answered": 0,
        "agent_stores.outcome": "ok",
    }
    assert load.attributes
    assert load.attributes["agent_stores.entries_answered"] == 3
    assert put.attributes
    assert put.attributes["agent_stores.ref"] == "out"
    assert note.attributes
    assert note.attributes["agent_stores.namespace"] == "n"
    assert {span.kind for span in (create, append, load)} == {SpanKind.CLIENT}
    assert append.status.status_code is StatusCode.UNSET


def test_a_span_never_holds_content() -> None:
    for span in spans_of(a_turn):
        assert BAIT not in span.to_json()


def test_a_failed_operation_is_a_span_in_error_that_names_the_class_alone() -> None:
    async def broken(call: Call, proceed: Proceed) -> Response:
        raise ValueError(BAIT)

    async def use(backend: Backend) -> None:
        with pytest.raises(StoreUnavailableError):
            await backend.runs.get_run(run_id="r")

    (span,) = spans_of(use, broken)
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes
    assert span.attributes["agent_stores.outcome"] == "ValueError"
    assert span.attributes["error.type"] == "ValueError"
    assert "agent_stores.entries_answered" not in span.attributes
    assert not span.events
    assert BAIT not in span.to_json()


def test_a_span_around_an_operation_is_the_parent_of_its_span() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    async def use(backend: Backend) -> None:
        with tracer.start_as_current_span("turn"):
            await backend.runs.get_run(run_id="r")

    on_a_backend([tracing(tracer)], use)
    inner, outer = exporter.get_finished_spans()
    assert inner.parent
    assert outer.context
    assert inner.parent.span_id == outer.context.span_id


def test_tracing_without_a_tracer_uses_the_global_one() -> None:
    async def use(backend: Backend) -> bool:
        return (await backend.runs.get_run(run_id="r")).found

    assert on_a_backend([tracing()], use) is False


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(InvalidRequestError, match=re.escape("'agent-stores[tracing]'")):
        tracing()


def test_each_operation_is_one_line_with_ids_time_and_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(python_logging.DEBUG, "agent_stores")
    on_a_backend([logging()], a_turn)
    lines = [record.getMessage() for record in caplog.records if record.name == "agent_stores"]
    assert len(lines) == 5
    pattern = r"runs\.append_messages backend=memory run_id='t-7' ms=\d+\.\d outcome=ok"
    assert re.fullmatch(pattern, lines[1])
    assert {record.levelname for record in caplog.records if record.name == "agent_stores"} == {
        "DEBUG"
    }
    assert BAIT not in caplog.text


def test_a_failing_operation_is_a_warning_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(request: Request) -> Response:
        raise ValueError(BAIT)

    with pytest.raises(ValueError, match=BAIT):
        logged(logging(), broken)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith("outcome=ValueError")
    assert BAIT not in caplog.text


def test_a_cancelled_operation_is_a_warning_too(caplog: pytest.LogCaptureFixture) -> None:
    async def cut_off(request: Request) -> Response:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        logged(logging(), cut_off)
    assert caplog.records[0].getMessage().endswith("outcome=CancelledError")


def test_no_id_can_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(python_logging.DEBUG, "agent_stores")
    run_id = "a\nruns.delete_run outcome=ok\x1b[2J\u2028\u202e"

    async def use(backend: Backend) -> None:
        await backend.runs.get_run(run_id=run_id)

    on_a_backend([logging()], use)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "agent_stores"]
    assert f"run_id={run_id!r}" in line
    assert line.isprintable()


def test_a_logger_and_a_level_of_ones_own_are_used(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(python_logging.INFO, "mine")
    logged(logging(python_logging.getLogger("mine"), python_logging.INFO))
    assert [(record.name, record.levelname) for record in caplog.records] == [("mine", "INFO")]


def test_a_level_that_nobody_listens_to_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(python_logging.INFO, "agent_stores")
    logged(logging())
    assert caplog.records == []
