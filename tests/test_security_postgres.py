"""A Postgres where somebody else may make functions, and one that does not encrypt."""

import pytest

from stores_core import (
    InvalidRequestError,
    MemoryItem,
    Message,
    StoreError,
    StoreUnavailableError,
    ToolResult,
    WordEmbedder,
    open_backend,
)
from tests.postgres_server import asyncpg

TRAPS = [
    ("strpos(text, text)", "integer", "0"),
    ("strpos(bytea, bytea)", "integer", "0"),
    ("position(bytea, bytea)", "integer", "0"),
    ("lower(text)", "text", "'x'"),
    ("length(text)", "integer", "0"),
    ("length(bytea)", "integer", "0"),
    ("octet_length(bytea)", "integer", "0"),
    ("substr(text, integer, integer)", "text", "'x'"),
    ("left(text, integer)", "text", "'x'"),
    ("now()", "timestamptz", "'2000-01-01'::timestamptz"),
    ("array_length(anyarray, integer)", "integer", "0"),
    ("greatest(bigint, bigint)", "bigint", "0"),
    ("coalesce(bigint, bigint)", "bigint", "0"),
    ("hashtext(text)", "integer", "0"),
    ("starts_with(text, text)", "boolean", "true"),
    ("nextval(regclass)", "bigint", "1"),
    ("count(anyelement)", "bigint", "0"),
    ("convert_from(bytea, name)", "text", "'x'"),
]


async def _set_traps(url: str) -> None:
    """Functions that say when they are called, where others may make some: in ``public``."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE SEQUENCE public.sprung")
        for signature, gives, value in TRAPS:
            await connection.execute(
                f"CREATE FUNCTION public.{_quoted(signature)} RETURNS {gives} LANGUAGE sql AS "
                f"$$ SELECT pg_catalog.nextval('public.sprung'); SELECT {value} $$"
            )
        for of in ("text", "bytea", "bigint"):
            await connection.execute(
                f"CREATE FUNCTION public.same_{of}({of}, {of}) RETURNS boolean LANGUAGE sql AS "
                "$$ SELECT pg_catalog.nextval('public.sprung'); SELECT true $$"
            )
            await connection.execute(
                f"CREATE OPERATOR public.= (LEFTARG={of}, RIGHTARG={of}, FUNCTION=same_{of})"
            )
        (path,) = await connection.fetchrow("SHOW search_path")
        assert "public" in path
    finally:
        await connection.close()


def _quoted(signature: str) -> str:
    name, rest = signature.split("(", 1)
    return f'"{name}"({rest}'


async def test_functions_that_others_made_are_never_called(postgres_url: str) -> None:
    async with open_backend(postgres_url):
        pass  # the tables, by their owner
    await _set_traps(postgres_url)
    async with open_backend(postgres_url, tenant="t", embedder=WordEmbedder()) as backend:
        for id in ("a", "b"):
            await backend.runs.create_run(run_id=id, labels={"of": id})
            said = [Message(role="user", text=id)]
            await backend.runs.append_messages(run_id=id, messages=said, idempotency_key="k")
            await backend.runs.fork_run(run_id=id, new_run_id=f"{id} fork", at_message=1)
            item = MemoryItem(key=id, value=f"needle {id}", metadata={"of": id})
            await backend.memory.put_memory(item=item, namespace="n")
            result = ToolResult(content=[{"type": "text", "text": f"a result of {id}"}])
            await backend.tool_results.put_tool_result(ref=id, result=result)
        run = (await backend.runs.load_run(run_id="b")).run
        assert run
        assert run.messages[0].text == "b"
        assert len((await backend.runs.list_runs(labels={"of": "a"})).runs) == 2
        found = await backend.memory.list_memories(query="needle", namespace="n", where={"of": "a"})
        assert [one.item.key for one in found.items] == ["a"]
        slice = await backend.tool_results.read_tool_result(ref="b", offset=2, limit=6)
        assert slice.text == "result"
        await backend.admin.verify()
        await backend.admin.sweep()
        await backend.runs.delete_run(run_id="a")
    async with open_backend(postgres_url, tenant="t") as backend:
        found = await backend.memory.list_memories(query="NEEDLE b", namespace="n")
        assert [one.item.key for one in found.items] == ["b"]
        assert not (await backend.runs.get_run(run_id="a")).found
        assert (await backend.admin.erase_tenant(tenant="t")).erased
    await _none_sprung(postgres_url)


async def _none_sprung(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        (sprung,) = await connection.fetchrow("SELECT is_called FROM public.sprung")
    finally:
        await connection.close()
    assert not sprung, "a function that somebody else made ran with our rights"


async def test_a_search_path_in_which_their_functions_would_win_is_refused(
    postgres_url: str,
) -> None:
    async with open_backend(postgres_url):
        pass
    await _set_traps(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    try:
        (name,) = await connection.fetchrow("SELECT pg_catalog.current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
    finally:
        await connection.close()
    with pytest.raises(InvalidRequestError, match="'public' before pg_catalog"):
        async with open_backend(postgres_url):
            pass
    await _none_sprung(postgres_url)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_encryption_that_was_asked_for_is_never_done_without(
    postgres_url: str, mode: str
) -> None:
    """The server of the tests speaks no TLS."""
    with pytest.raises(StoreUnavailableError if mode == "require" else StoreError):
        async with open_backend(f"{postgres_url}?sslmode={mode}"):
            pass
