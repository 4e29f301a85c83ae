"""Opening a backend by URL: schemes, options, tenants, closing."""

import functools
import inspect
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast, get_type_hints
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from stores_core.backend import Backend
from stores_core.embedding import Embedder
from stores_core.errors import InvalidRequestError
from stores_core.in_memory.backend import open_memory
from stores_core.interceptors import Interceptor
from stores_core.limits import CEILINGS, Limits
from stores_core.values import Clock, IdOrEmpty, system_clock

ENTRY_POINTS = "agent_stores.backends"

Opener = Callable[..., AbstractAsyncContextManager[Backend]]
"""What an entry point names: ``opener(url, *, tenant, embedder, clock, its own options)``.

The URL comes without its query. Every keyword with an annotation of int, float, bool or str is a
query parameter of the URL too.
"""

_BUILT_IN: dict[str, Opener] = {"memory": open_memory}
_OURS = {
    "file": ("stores_files.backend:open_files", ""),
    "postgres": ("stores_sql.postgres.backend:open_postgres", "postgres"),
    "postgresql": ("stores_sql.postgres.backend:open_postgres", "postgres"),
    "redis": ("stores_redis.backend:open_redis", "redis"),
    "redis+cluster": ("stores_redis.backend:open_redis", "redis"),
    "redis+sentinel": ("stores_redis.backend:open_redis", "redis"),
    "rediss": ("stores_redis.backend:open_redis", "redis"),
    "sqlite": ("stores_sql.sqlite.backend:open_sqlite", "sql"),
}
"""Schemes of other packages of this distribution: their entry point, which nobody else's may stand
in for, and the extra that brings what they need, if they need one."""

_CORE_OPTIONS: dict[str, Any] = {
    "tenant": IdOrEmpty,
    "timeout": float,
    "max_entry_bytes": int,
    "max_batch_entries": int,
    "max_batch_bytes": int,
}


@asynccontextmanager
async def open_backend(
    url: str,
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    timeout: float | None = 30.0,  # noqa: ASYNC109 - of each operation, not of opening
    interceptors: Sequence[Interceptor] = (),
    **options: Any,
) -> AsyncGenerator[Backend]:
    """Open the backend that ``url`` names; leaving the context closes what was opened.

    ``timeout`` is in seconds and holds for every operation that names none of its own. Further
    options are ``max_entry_bytes``, ``max_batch_entries``, ``max_batch_bytes`` (see Limits) and the
    backend's own. Each option that is a plain value may stand in the URL instead, as a query
    parameter of the same name.

    Raises InvalidRequestError for an unknown scheme or option, a value that does not fit, and an
    option given in both places.
    """
    given = {"tenant": tenant, "timeout": timeout, **options}
    opener, location, query = _resolved(url)
    known = options_of(url)
    for name, text in query.items():
        if name in options or given.get(name) not in (None, "", 30.0):
            raise InvalidRequestError(
                field=name, found="a value in the URL and another beside it", allowed="one of them"
            )
        given[name] = text
    settings = {name: _fitting(name, value, known) for name, value in given.items()}
    timeout = settings.pop("timeout")
    limits = Limits(**{name: settings.pop(name) for name in CEILINGS if name in settings})
    now = clock or system_clock
    context = opener(location, embedder=embedder, clock=now, **settings)
    async with set_up(
        context, clock=now, timeout=timeout, limits=limits, interceptors=interceptors
    ) as backend:
        yield backend


@asynccontextmanager
async def set_up(
    context: object,
    *,
    clock: Clock,
    timeout: float | None,  # noqa: ASYNC109 - as in open_backend
    limits: Limits,
    interceptors: Sequence[Interceptor] = (),
) -> AsyncGenerator[Backend]:
    """Enter what an opener gave, with the front set up so; leaving closes the front too.

    Raises InvalidRequestError for what is no context manager of a Backend.
    """
    if not isinstance(context, AbstractAsyncContextManager):
        raise _no_opener(context, "gives")
    async with cast("AbstractAsyncContextManager[object]", context) as backend:
        if not isinstance(backend, Backend):
            raise _no_opener(backend, "yields")
        opened = backend.opened
        opened.clock, opened.timeout, opened.limits = clock, timeout, limits
        opened.interceptors = tuple(interceptors)
        opened.ensure_usable()  # and so bound to this event loop
        try:
            yield backend
        finally:
            opened.closed = True


def _no_opener(found: object, does: str) -> InvalidRequestError:
    return InvalidRequestError(
        field="opener",
        found=f"one that {does} a {type(found).__name__}",
        allowed="an async function that yields a stores_core.Backend, under @asynccontextmanager",
    )


def options_of(url: str) -> dict[str, Any]:
    """The options that the backend of ``url`` takes, by name, with the type of each."""
    opener, _, _ = _resolved(url)
    hints = get_type_hints(opener)
    own = {
        name: hints[name]
        for name, parameter in inspect.signature(opener).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("embedder", "clock")
    }
    return own | _CORE_OPTIONS


def _resolved(url: str) -> tuple[Opener, str, Mapping[str, str]]:
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme:
        raise InvalidRequestError(field="url", found="no scheme", allowed="memory: or scheme:place")
    opener = _BUILT_IN.get(scheme) or _plugged_in(scheme)
    place, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequestError(field=name, found="given twice in the URL", allowed="once")
    return opener, place, dict(pairs)


@functools.cache  # reading what is installed takes longer than all the rest of opening
def _plugged_in(scheme: str) -> Opener:
    found = [point for point in _offered() if point.name == scheme]
    if not found:
        raise InvalidRequestError(
            field="url",
            found="a scheme that no installed package offers",
            allowed=", ".join(f"{name}:" for name in schemes()),
        )
    if len(found) > 1:
        raise InvalidRequestError(
            field="url",
            found=f"{len(found)} packages that offer the scheme",
            allowed="one installed package for each scheme",
        )
    try:  # only the one that was asked for is imported
        return cast(Opener, found[0].load())
    except ImportError as error:
        _, extra = _OURS.get(scheme, ("", ""))
        if not extra:
            raise
        raise InvalidRequestError(
            field="url",
            found=f"no package {(error.name or '').partition('.')[0]!r}",
            allowed=f"{scheme}: once `pip install 'agent-stores[{extra}]'` has run",
        ) from error


def _offered() -> list[EntryPoint]:
    """The entry points of the group; under a name of ours, ours alone."""
    return [
        point
        for point in entry_points(group=ENTRY_POINTS)
        if point.name not in _BUILT_IN
        and (point.name not in _OURS or point.value == _OURS[point.name][0])
    ]


def schemes() -> list[str]:
    """The schemes that can be opened here."""
    return sorted({*_BUILT_IN, *(point.name for point in _offered())})


def _fitting(name: str, value: object, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise InvalidRequestError(
            field=name, found="an unknown option", allowed=", ".join(sorted(known))
        )
    if value is None and name == "timeout":
        return None
    try:
        # A query parameter is text and is read as what it stands for; a Python value is taken
        # strictly, so that True is no number.
        strict = not isinstance(value, str)
        fitted = TypeAdapter(known[name]).validate_python(value, strict=strict)
    except ValidationError as error:
        wanted = error.errors(include_url=False)[0]["msg"].removeprefix("Input should be ")
        raise InvalidRequestError(field=name, found=type(value).__name__, allowed=wanted) from None
    if isinstance(fitted, float) and not (fitted > 0 and math.isfinite(fitted)):
        raise InvalidRequestError(field=name, found=repr(fitted), allowed="a finite number above 0")
    return fitted
