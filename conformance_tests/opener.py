"""What opens the storage under examination: an author's own opener, or a URL."""

import functools
import importlib
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from stores_core.backend import Backend
from stores_core.errors import StoreError
from stores_core.limits import CEILINGS, Limits
from stores_core.opening import open_backend, options_of, set_up
from stores_core.values import system_clock

CORE_KEYWORDS = frozenset({"clock", "timeout", "interceptors", *CEILINGS})
"""What core's front does for every backend, so that no opener has to take it."""


Open = Callable[..., AbstractAsyncContextManager[Backend]]


class UnusableOpenerError(Exception):
    """The storage cannot be examined; the message says what to mend."""


@dataclass(frozen=True, slots=True)
class Source:
    """How another process opens the storage: what ``find`` takes."""

    opener: str | None = None
    url: str | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens clients of one storage. ``keywords`` is what may be passed; None: anything.

    ``source`` is None where another process cannot open it. ``server`` is the HOST:PORT of the
    server behind it, "" where none is known, and ``by_way_of`` opens it at another HOST:PORT.
    ``placed_in`` opens a storage of its own in a folder; None where nobody can say where it lies.
    """

    name: str
    call: Open
    keywords: frozenset[str] | None
    source: Source | None = None
    server: str = ""
    by_way_of: "Callable[[str], Opener] | None" = None
    placed_in: "Callable[[Path], Opener] | None" = None

    def takes(self, keyword: str) -> bool:
        """Whether the storage can be opened with this keyword."""
        return self.keywords is None or keyword in self.keywords

    def open(self, **values: Any) -> AbstractAsyncContextManager[Backend]:
        """One more client; entering it raises UnusableOpenerError for what yields no Backend."""
        refused = sorted(name for name in values if not self.takes(name))
        if refused:
            raise UnusableOpenerError(
                f"{self.name} takes no {', '.join(refused)}; a test that passes it has to say so "
                "in its needs"
            )
        return self.call(**values)


def find(opener: str | None, url: str | None, server: str | None = None) -> Opener:
    """The opener that the command line names. Raises UnusableOpenerError.

    ``server`` is the HOST:PORT behind an opener; that behind a URL stands there.
    """
    if bool(opener) == bool(url):
        raise UnusableOpenerError(
            "name what to examine: MODULE:OPENER, as my_backend.stores:open_backend, or --url URL"
        )
    return from_url(url) if url else from_function(opener or "", server)


def from_url(url: str) -> Opener:
    """Opens by core's open_backend. The name shows the scheme alone: a URL may hold a password."""
    scheme = url.partition(":")[0]
    fixed = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    try:
        own = options_of(url)
    except StoreError as error:
        raise UnusableOpenerError(f"--url: {error}") from error
    except Exception as error:
        raise UnusableOpenerError(f"--url {scheme}: {_outline(error)}") from error
    # What the URL fixes cannot be passed beside it.
    keywords = (CORE_KEYWORDS | {"embedder"} | own.keys()) - fixed

    def call(**values: Any) -> AbstractAsyncContextManager[Backend]:
        return open_backend(url, **values)

    def by_way_of(place: str) -> Opener:
        return from_url(at(url, place))

    def placed_in(folder: Path) -> Opener:
        return from_url(moved(url, folder))

    source = None if scheme == "memory" else Source(url=url)  # it is in this process
    placing = placed_in if moved(url, Path("/")) else None
    return Opener(f"{scheme}:", call, keywords, source, _server_of(url), by_way_of, placing)


def at(url: str, place: str) -> str:
    """The same URL with another HOST:PORT."""
    parts = urlsplit(url)
    who, sign, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{who}{sign}{place}"))


def moved(url: str, folder: Path) -> str:
    """The same URL with a path in this folder, which is there; "" where its path says no place."""
    scheme, _, rest = url.partition(":")
    path, mark, query = rest.partition("?")
    name = path.rstrip("/").rpartition("/")[2]
    if scheme == "memory" or urlsplit(url).netloc or not name:
        return ""
    return f"{scheme}:{quote(str(folder))}/{'store' if name in ('.', '..') else name}{mark}{query}"


def _server_of(url: str) -> str:
    """The one host and port that a URL names, "" where it names none or several."""
    parts = urlsplit(url)
    try:
        return f"{parts.hostname}:{parts.port}" if parts.hostname and parts.port else ""
    except ValueError:  # several ports
        return ""


def from_function(named: str, server: str | None = None) -> Opener:
    """Opens by ``MODULE:OPENER``, a function that gives an async context manager of a Backend."""
    module_name, colon, attribute = named.partition(":")
    if not colon or not module_name or not attribute:
        raise UnusableOpenerError(
            f"{named!r} names no opener; write MODULE:OPENER, as my_backend.stores:open_backend"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnusableOpenerError(
            f"cannot import {module_name!r}: no module {error.name!r}; install it, or run from "
            "the folder that holds it"
        ) from error
    except Exception as error:
        raise UnusableOpenerError(f"importing {module_name!r} failed: {_outline(error)}") from error
    function: Any = module
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        found = "nothing" if function is None else f"a {type(function).__name__}"
        raise UnusableOpenerError(
            f"{module_name!r} has {found} at {attribute!r}; it has to be a function that opens "
            "the storage"
        )
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        raise UnusableOpenerError(
            f"{named} has to be an async context manager: `yield` the Backend and put "
            "@asynccontextmanager above the function"
        )
    return _entered(named, cast(Open, function), server)


def _entered(name: str, function: Open, server: str | None) -> Opener:
    parameters = inspect.signature(function).parameters.values()
    own = frozenset(
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @asynccontextmanager
    async def call(
        *,
        clock: Any = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - the backend's own, as in open_backend
        interceptors: Any = (),
        **values: Any,
    ) -> AsyncGenerator[Backend]:
        limits = Limits(**{key: values.pop(key) for key in CEILINGS if key in values})
        if clock is not None and (anything or "clock" in own):
            values["clock"] = clock
        async with set_up(
            function(**values),
            clock=clock or system_clock,
            timeout=timeout,
            limits=limits,
            interceptors=interceptors,
        ) as backend:
            yield backend

    def elsewhere(**where: str) -> Opener:
        def there(**values: Any) -> AbstractAsyncContextManager[Backend]:
            return function(**values, **where)

        functools.update_wrapper(there, function)
        return _entered(name, there, None)

    def by_way_of(place: str) -> Opener:
        return elsewhere(server=place)

    def placed_in(folder: Path) -> Opener:
        return elsewhere(folder=str(folder))

    takes_server = server and (anything or "server" in own)
    return Opener(
        name,
        call,
        None if anything else CORE_KEYWORDS | own,
        Source(opener=name, server=server),
        server if server and takes_server else "",
        by_way_of,
        placed_in if anything or "folder" in own else None,
    )


def explained(opener: Opener, error: Exception, doing: str = "opening") -> UnusableOpenerError:
    """Why a client could not be opened or closed, for people."""
    if isinstance(error, UnusableOpenerError):
        return error
    return UnusableOpenerError(f"{doing} {opener.name} failed: {_outline(error)}")


def _outline(error: Exception) -> str:
    """What went wrong and where, without the text of a driver's error, which may hold secrets."""
    if isinstance(error, StoreError | ImportError | TypeError | NameError | SyntaxError):
        what = f"{type(error).__name__}: {error}"
    else:
        what = f"{type(error).__name__} (run the opener by itself to see all of it)"
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return what
    return f"{what}, at {Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
