"""No password and nothing of what is stored shows in an error, a log line or a repr."""

import asyncio
import io
import logging
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from conformance_tests.faults.proxy import Fault, proxied
from stores_core import (
    Backend,
    Event,
    MemoryItem,
    Message,
    StoreError,
    ToolResult,
    open_backend,
)
from tests.postgres_server import asyncpg, in_database

CANARY = "Zq7canaryZq7"
MESSAGES = [Message(role="user", text=f"{CANARY} message")]
NOTE = MemoryItem(key="k", value=f"{CANARY} value", metadata={"m": CANARY})
RESULT = ToolResult(content=[{"type": "text", "text": CANARY}], structured_content={"a": CANARY})

CALLS: list[Callable[[Backend], Awaitable[object]]] = [
    lambda b: b.runs.create_run(run_id="new", labels={CANARY: CANARY}),
    lambda b: b.runs.append_messages(
        run_id="r", messages=MESSAGES, events=[Event(kind=CANARY)], idempotency_key="k"
    ),
    lambda b: b.runs.load_run(run_id="r"),
    lambda b: b.runs.fork_run(run_id="r", new_run_id="fork"),
    lambda b: b.runs.list_runs(labels={CANARY: CANARY}),
    lambda b: b.memory.put_memory(item=NOTE, namespace="n"),
    lambda b: b.memory.list_memories(query=CANARY, namespace="n", where={"m": CANARY}),
    lambda b: b.tool_results.put_tool_result(ref="t", result=RESULT, labels={"l": CANARY}),
    lambda b: b.tool_results.search_tool_result(ref="t", pattern=CANARY),
]


@contextmanager
def listening() -> Generator[io.StringIO]:
    """All that is logged, by anybody, at any level."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def shown(error: BaseException) -> str:
    """All that a program may print of an error, with its causes; their sources show too."""
    seen = list[BaseException]()
    whole: BaseException | None = error
    while whole is not None and whole not in seen:
        seen.append(whole)
        whole = whole.__cause__ or whole.__context__
    texts = [f"{each!s}\n{each!r}\n{vars(each)}" for each in seen]
    return "\n".join([*texts, "".join(traceback.format_exception(error))])


async def failing(url: str) -> list[StoreError]:
    """The errors of every call when the tables refuse, when they are gone, and when cut off."""
    errors: list[StoreError] = []

    async def collect(call: Callable[[Backend], Awaitable[object]], backend: Backend) -> None:
        try:
            await call(backend)
        except StoreError as error:
            errors.append(error)

    async with proxied(url) as proxy, open_backend(proxy.url(url)) as backend:
        await backend.runs.create_run(run_id="r", labels={CANARY: CANARY})
        for call in CALLS:
            await call(backend)
        for call in CALLS:
            for after in range(3):
                proxy.cut(Fault(reply=0, after=after))
                await collect(call, backend)
        connection = await asyncpg.connect(url)
        for change in (
            "ALTER TABLE agent_stores.entries ADD CHECK (body = '') NOT VALID",
            "ALTER TABLE agent_stores.notes ADD CHECK (version < 0) NOT VALID",
            "ALTER TABLE agent_stores.chunks ADD CHECK (position < 0) NOT VALID",
            "ALTER TABLE agent_stores.runs ADD CHECK (id = 'other') NOT VALID",
        ):
            await connection.execute(change)
        for call in CALLS:
            await collect(call, backend)
        await connection.execute("DROP TABLE agent_stores.entries, agent_stores.labels")
        await connection.execute("DROP TABLE agent_stores.notes, agent_stores.chunks")
        for call in CALLS:
            await collect(call, backend)
        await connection.close()
    return errors


async def test_what_is_stored_shows_in_no_error_and_no_log_line(postgres_url: str) -> None:
    with listening() as heard:
        errors = await failing(postgres_url)
        await asyncio.sleep(0)
    assert len(errors) > 25
    assert len({type(error) for error in errors}) >= 3
    for error in errors:
        assert CANARY not in shown(error)
    assert CANARY not in heard.getvalue()


@pytest.mark.parametrize("place", ["away", "no database", "wrong password", "bad port", "no host"])
async def test_the_password_shows_nowhere(postgres_url: str, place: str) -> None:
    secret = "s3cr%40t hunter2".replace(" ", "%20")
    user, _, where = postgres_url.partition("//")[2].partition("@")
    name = user.partition(":")[0]
    urls = {
        "away": f"postgresql://{name}:{secret}@127.0.0.1:1/none",
        "no database": in_database(postgres_url, "no_such_database"),
        "wrong password": f"postgresql://{name}:{secret}@{where}",
        "bad port": f"postgresql://{name}:{secret}@127.0.0.1:port/none",
        "no host": f"postgresql:{name}:{secret}@x",
    }
    with listening() as heard, pytest.raises(StoreError) as refused:
        async with open_backend(urls[place]):
            pass
    told = shown(refused.value) + heard.getvalue()
    password = user.partition(":")[2]
    for part in ("hunter2", "s3cr", password):
        assert part not in told, place


async def test_reprs_show_neither_password_nor_url(postgres_url: str) -> None:
    password = postgres_url.partition("//")[2].partition("@")[0].partition(":")[2]
    async with open_backend(postgres_url) as backend:
        seen: list[Any] = [backend, backend.runs, backend.memory, backend.admin]
        seen += [backend.runs.store, backend.memory.store, *vars(backend.runs.store).values()]
        for each in seen:
            assert password not in repr(each)
        assert password not in repr(await backend.admin.check())
