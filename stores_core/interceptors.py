"""Interceptors: one wrapper fits every operation, because all operations have one shape.

An interceptor is a coroutine function of a :class:`Call` and of ``proceed``, which runs what is
further in and answers its response. It stands inside the front, so the request is complete and
checked, generated ids included, and the timeout of the operation holds for it too: it sees a
timeout as CancelledError. It may proceed with another request, which nobody checks again, and it
may proceed more than once, or not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from logging import DEBUG, WARNING, Logger, getLogger
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, cast

from stores_core.errors import InvalidRequestError, OutcomeUnknownError, StoreUnavailableError
from stores_core.extras import need
from stores_core.runs import (
    AppendEventsRequest,
    AppendMessagesRequest,
    CreateRunRequest,
    ForkRunRequest,
    Run,
)
from stores_core.shape import Request, Response, Shape
from stores_core.tool_results import PutToolResultRequest

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation. ``store`` is "runs", "memory", "tool_results", "admin" or "moving";
    ``operation`` is the method's name, such as "append_messages"; ``writes`` says that it may
    change something.
    """

    backend: str
    store: str
    operation: str
    request: Request
    writes: bool


Proceed = Callable[[Request], Awaitable[Response]]
Interceptor = Callable[[Call, Proceed], Awaitable[Response]]


def chain(interceptors: Sequence[Interceptor], call: Call, handler: Proceed) -> Awaitable[Response]:
    """The answer of ``handler`` to the call, through the interceptors; the first is outermost."""
    proceed = handler
    for interceptor in reversed(interceptors):
        proceed = _around(interceptor, call, proceed)
    return proceed(call.request)


def _around(interceptor: Interceptor, call: Call, inner: Proceed) -> Proceed:
    def proceed(request: Request) -> Awaitable[Response]:
        same = request is call.request
        return interceptor(call if same else replace(call, request=request), inner)

    return proceed


def retry_with(request: Request) -> dict[str, str]:
    """What makes a repeat of a complete request converge when its outcome is unknown.

    It is empty where a plain repeat is safe, and for an append without a key.
    """
    if isinstance(request, CreateRunRequest):
        return {"run_id": request.run_id}
    if isinstance(request, ForkRunRequest):
        return {"new_run_id": request.new_run_id}
    if isinstance(request, PutToolResultRequest):
        return {"ref": request.ref}
    if isinstance(request, AppendMessagesRequest | AppendEventsRequest):
        key = request.idempotency_key
        return {"idempotency_key": key} if key else {}
    return {}


# What may be told of a call: ids and counts, never content.

_IDS = ("run_id", "new_run_id", "ref", "namespace", "log")


def _ids(request: Request) -> Iterator[tuple[str, str]]:
    for name in _IDS:
        value = request.__dict__.get(name)
        if value:
            yield name, value


def _entries(shape: Shape) -> int:
    """How many messages, events, notes, headers or other records a request or response holds."""
    count = 0
    for value in shape.__dict__.values():
        if isinstance(value, tuple):
            count += len(cast("tuple[object, ...]", value))
        elif isinstance(value, Run):
            count += _entries(value)
    return count


def tracing(tracer: "Tracer | None" = None) -> Interceptor:
    """A span of OpenTelemetry for each operation, named like "runs.append_messages".

    Attributes are ``agent_stores.`` and backend, store, operation, run_id, new_run_id, ref,
    namespace, log (those that the request has), entries_sent, entries_answered, and outcome: "ok",
    or the name of the error's class, which is ``error.type`` too and makes the span's status an
    error. An exception's message is not recorded.

    Needs the extra ``tracing``; raises InvalidRequestError without it.
    """
    api = need("opentelemetry.trace", extra="tracing", field="tracing")
    spans: Tracer = api.get_tracer("agent_stores") if tracer is None else tracer

    async def trace(call: Call, proceed: Proceed) -> Response:
        attributes: dict[str, str | int] = {
            "agent_stores.backend": call.backend,
            "agent_stores.store": call.store,
            "agent_stores.operation": call.operation,
            "agent_stores.entries_sent": _entries(call.request),
            **{f"agent_stores.{name}": value for name, value in _ids(call.request)},
        }
        with spans.start_as_current_span(
            f"{call.store}.{call.operation}",
            kind=api.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                response = await proceed(call.request)
            except BaseException as error:
                name = type(error).__name__
                span.set_attributes({"agent_stores.outcome": name, "error.type": name})
                span.set_status(api.StatusCode.ERROR)
                raise
            span.set_attributes(
                {"agent_stores.outcome": "ok", "agent_stores.entries_answered": _entries(response)}
            )
            return response

    return trace


def logging(logger: Logger | None = None, level: int = DEBUG) -> Interceptor:
    """A line for each operation, such as ``runs.get_run backend=memory run_id='t-7' ms=0.1
    outcome=ok``; one that raises is a warning, with the name of the error's class as outcome.

    Ids are escaped, so none can forge a line. The default logger is "agent_stores".
    """
    lines = getLogger("agent_stores") if logger is None else logger

    async def log(call: Call, proceed: Proceed) -> Response:
        began, outcome, at = perf_counter(), "ok", level
        try:
            return await proceed(call.request)
        except BaseException as error:
            outcome, at = type(error).__name__, max(level, WARNING)
            raise
        finally:
            if lines.isEnabledFor(at):
                ids = "".join(f" {name}={value!r}" for name, value in _ids(call.request))
                lines.log(
                    at,
                    "%s.%s backend=%s%s ms=%.1f outcome=%s",
                    *(call.store, call.operation, call.backend, ids),
                    *((perf_counter() - began) * 1000, outcome),
                )

    return log


class Faulty:
    """What :func:`faulty` answers. ``injected`` counts each kind: "fail_before", "fail_after",
    "delay", "cancel"."""

    def __init__(
        self, seed: int, chances: dict[str, float], delay: float, only: frozenset[str] | None
    ) -> None:
        self.injected = dict.fromkeys(chances, 0)
        self._random = Random(seed)  # noqa: S311 - repeatable on purpose
        self._chances, self._delay, self._only = chances, delay, only

    async def __call__(self, call: Call, proceed: Proceed) -> Response:
        if self._only is not None and call.operation not in self._only:
            return await proceed(call.request)
        # All are drawn for each call, so that one chance does not shift where the others fall.
        hit = {kind: self._random.random() < chance for kind, chance in self._chances.items()}
        cancel_first = self._random.random() < 0.5
        what = f"a fault was injected into {call.store}.{call.operation}"
        if hit["delay"]:
            self.injected["delay"] += 1
            await asyncio.sleep(self._delay)
        if hit["fail_before"]:
            self.injected["fail_before"] += 1
            raise StoreUnavailableError(f"{what}; nothing was applied")
        if hit["cancel"] and cancel_first:
            self._cancel(what)
        response = await proceed(call.request)
        if hit["cancel"]:
            self._cancel(what)
        if hit["fail_after"]:
            self.injected["fail_after"] += 1
            if not call.writes:
                raise StoreUnavailableError(f"{what}; nothing was applied")
            raise OutcomeUnknownError(
                f"{what}; it may or may not have been applied", retry_with=retry_with(call.request)
            )
        return response

    def _cancel(self, what: str) -> None:
        self.injected["cancel"] += 1
        raise asyncio.CancelledError(what)


def faulty(
    seed: int,
    *,
    fail_before: float = 0.0,
    fail_after: float = 0.0,
    delay: float = 0.0,
    delay_seconds: float = 0.01,
    cancel: float = 0.0,
    operations: Collection[str] | None = None,
) -> Faulty:
    """Injects faults, so that you can test how your code repeats and recovers.

    Chances from 0 to 1, drawn for each call from ``seed``: to fail before anything is done with
    StoreUnavailableError; to do it and then fail, a write with OutcomeUnknownError and a read with
    StoreUnavailableError; to wait ``delay_seconds`` first; to raise CancelledError, half of them
    before and half after it is done. ``operations`` names those to disturb, all by default.

    Raises InvalidRequestError for a chance or time that is none.
    """
    chances = {
        "fail_before": fail_before,
        "fail_after": fail_after,
        "delay": delay,
        "cancel": cancel,
    }
    for name, value in chances.items():
        if not 0 <= value <= 1:
            raise InvalidRequestError(field=name, found=f"{value!r}", allowed="0 to 1")
    if not 0 <= delay_seconds < float("inf"):
        raise InvalidRequestError(
            field="delay_seconds", found=f"{delay_seconds!r}", allowed="seconds, 0 or more"
        )
    return Faulty(
        seed, chances, delay_seconds, None if operations is None else frozenset(operations)
    )
