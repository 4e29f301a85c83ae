"""URLs of backends: opened, and shown without their passwords."""

import os
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from stores_core.backend import Backend
from stores_core.embedding import Embedder
from stores_core.errors import InvalidRequestError, SchemaVersionError
from stores_core.opening import open_backend, options_of, schemes
from stores_core.revisions import State

VARIABLE = "AGENT_STORES_URL"

_HIDDEN = "***"
_CREATE = re.compile(r"[?&]create=")
_SECRET = re.compile(r"([?&;][^=&;#\s]*(?:pass|pwd|secret|token|key)[^=&;#\s]*=)[^&;#\s]*", re.I)
_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:/*[^:@/]*):(.*)@", re.DOTALL)
_ANYWHERE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s:@/]*):\S*@")


def shown(url: str) -> str:
    """The URL without the password and without parameters that look like one.

    A password that is not percent-encoded may hold any character, so all up to the last ``@`` goes.
    """
    return _SECRET.sub(rf"\1{_HIDDEN}", _USER.sub(rf"\1:{_HIDDEN}@", url))


def redacted(text: str, given: Iterable[str]) -> str:
    """``text`` with the URLs in it, those among ``given`` above all, as `shown` gives them."""
    for argument in (*given, os.environ.get(VARIABLE, "")):
        if argument and shown(argument) != argument:
            text = text.replace(argument, shown(argument))
    return _ANYWHERE.sub(rf"\1:{_HIDDEN}@", text)


def in_tenant(url: str, tenant: str) -> str:
    """The URL with this tenant, of plain letters, in place of its own."""
    place, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("tenant=")]
    return f"{place}?{'&'.join([*kept, f'tenant={tenant}'])}"


def is_url(text: str) -> bool:
    """Whether an argument names a backend rather than a file."""
    return text.partition(":")[0] in schemes() and ":" in text


def url_or_default(url: str) -> str:
    """``url``, or what the environment names. Raises InvalidRequestError where neither is given."""
    found = url or os.environ.get(VARIABLE, "")
    if not found:
        raise InvalidRequestError(
            field="url",
            found="none",
            allowed=f"one as the last argument, or in {VARIABLE}; as sqlite:agent.db",
        )
    return found


@asynccontextmanager
async def opened(
    url: str, *, tenant: str = "", embedder: Embedder | None = None, create: bool = False
) -> AsyncGenerator[Backend]:
    """The backend of ``url``, or of the environment's. Only with ``create`` is anything set up.

    Raises SchemaVersionError of the state "absent" where there is nothing and nothing is made.
    """
    url = url_or_default(url)
    given = partial(open_backend, url, tenant=tenant, embedder=embedder)
    if create or "create" not in options_of(url) or _CREATE.search(url):
        async with given() as backend:
            yield backend
        return
    async with AsyncExitStack() as opening:
        try:
            backend = await opening.enter_async_context(given(create=False))
        except SchemaVersionError as error:
            if error.state == State.ABSENT:
                raise SchemaVersionError(
                    f"there is no storage at {shown(url)}; name one that is there "
                    "(`copy`, `import`, `memory put` and `migrate up` make a new one)",
                    state=error.state,
                ) from error
            if error.state != State.BEHIND:
                raise
            # Older tables are there, so nothing is made, and they are shown as they are.
            backend = await opening.enter_async_context(given())
        yield backend
