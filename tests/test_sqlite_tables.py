"""Tables and statements of SQLite: every query has its index, and no SQL is made from values."""

import ast
import asyncio
import importlib
import pkgutil
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import stores_sql.sqlite
from stores_core import (
    Backend,
    MemoryItem,
    Message,
    ToolResult,
    WordEmbedder,
)
from stores_sql.sqlite import versions
from stores_sql.sqlite.backend import open_sqlite
from stores_sql.sqlite.orphans import ORPHANS
from stores_sql.sqlite.statements import Statement
from stores_sql.sqlite.tables import METADATA
from tests.every_kind import fill, fill_and_fork

SCANS = {"storage._IDENTITY", "tenants._LIST", "orphans.ORPHANS"}
"""A table of one row, a page of all tenants along their index, and what verify reads anyway."""

SORTED = "run_rows._KEYS"
"""The one that sorts: the 128 keys of a run, for an export."""


def statements() -> Iterator[tuple[str, Statement]]:
    for found in pkgutil.iter_modules(stores_sql.sqlite.__path__):
        module = importlib.import_module(f"stores_sql.sqlite.{found.name}")
        for name, value in vars(module).items():
            yield from ((f"{found.name}.{name}", one) for one in statements_in(value))


def statements_in(value: Any) -> Iterator[Statement]:
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, tuple):
        for part in cast("tuple[Any, ...]", value):
            yield from statements_in(part)


def test_every_statement_finds_its_rows_by_an_index() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    versions.create_tables(connection)
    tables = {table.name for table in METADATA.sorted_tables}
    seen = 0
    for name, statement in statements():
        values = [1] * statement.text.count("?")
        plan = connection.execute("EXPLAIN QUERY PLAN " + statement.text, values).fetchall()
        steps = [step for *_, step in plan]
        scanned = [step for step in steps if step.startswith("SCAN") and step.split()[1] in tables]
        sorted_ = [step for step in steps if "TEMP B-TREE FOR ORDER" in step]
        assert not scanned or name in SCANS, (name, steps)
        assert not sorted_ or name.endswith(SORTED), (name, steps)
        seen += 1
    connection.close()
    assert seen > 60


def test_sql_is_written_out_or_compiled_and_never_put_together() -> None:
    calls = 0
    for path in Path(stores_sql.sqlite.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in ("execute", "executemany", "executescript"):
                continue
            calls += 1
            assert _is_harmless(node.args[0]), f"{path.name}:{node.lineno}"
    assert calls > 20


def _is_harmless(text: ast.expr) -> bool:
    if isinstance(text, ast.JoinedStr):  # numbers of ours, as numbers
        parts = [part for part in text.values if isinstance(part, ast.FormattedValue)]
        return all(
            isinstance(part.format_spec, ast.JoinedStr)
            and ast.literal_eval(part.format_spec.values[0]) == "d"
            for part in parts
        )
    if isinstance(text, ast.IfExp):
        return _is_harmless(text.body) and _is_harmless(text.orelse)
    if isinstance(text, ast.Call):  # str(CreateTable(...).compile(...))
        return ast.unparse(text).startswith(("str(CreateTable(", "str(CreateIndex("))
    # A constant, Statement.text, or the text of a pragma that a constant was named for.
    return isinstance(text, ast.Constant) or ast.unparse(text) in ("self.text", "text")


def test_a_statement_refuses_values_in_its_text() -> None:
    runs = METADATA.tables["runs"]
    with pytest.raises(ValueError, match="a value stands in a statement"):
        Statement(runs.select().where(runs.c.id == "a value"))


def use(path: Path, work: Callable[[Backend], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with open_sqlite(f"sqlite:{path}", **options) as backend:
            return await work(backend)

    return asyncio.run(run())


@pytest.mark.parametrize("query", ["b\0c", "\0", "\0\0", "x\0É" + "y" * 100, "É" * 40])
def test_text_with_nul_is_kept_found_and_sliced(tmp_path: Path, query: str) -> None:
    text = "a\0b\0c\0\0" + "x\0é" + "y" * 100 + "é" * 50

    async def work(backend: Backend) -> None:
        await backend.memory.put_memory(item=MemoryItem(key="k", value=text))
        await backend.memory.put_memory(item=MemoryItem(key="other", value="a b c"))
        found = (await backend.memory.list_memories(query=query)).items
        assert [(scored.item.key, scored.item.value) for scored in found] == [("k", text)]
        result = ToolResult(content=({"type": "text", "text": text},))
        await backend.tool_results.put_tool_result(ref="ref", result=result)
        slice_ = await backend.tool_results.read_tool_result(ref="ref", offset=2, limit=9)
        assert (slice_.text, slice_.characters) == (text[2:11], len(text))

    use(tmp_path / "a.db", work)


def test_a_long_query_costs_no_product_of_lengths(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.memory.put_memory(item=MemoryItem(key="k", value="a" * 1_000_000))
        query = "a" * 60_000 + "b"
        answer = await backend.memory.list_memories(query=query, timeout=5)
        assert answer.items == ()

    use(tmp_path / "a.db", work)


def test_a_slice_reads_its_chunks_alone(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        text = "".join(f"{n:09d}," for n in range(300_000))
        result = ToolResult(content=({"type": "text", "text": text},))
        await backend.tool_results.put_tool_result(ref="ref", result=result)
        for offset, limit in ((2_999_990, 100), (65_530, 20), (0, 1), (131_072, 200_000)):
            found = await backend.tool_results.read_tool_result(
                ref="ref", offset=offset, limit=limit
            )
            assert found.text == text[offset : offset + limit]
            assert found.characters == 3_000_000

    use(tmp_path / "a.db", work)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        (longest,) = connection.execute("SELECT max(length(text)) FROM chunks").fetchone()
    connection.close()
    assert longest == 65_536


def test_what_a_deleted_run_leaves_is_freed_in_pieces(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await backend.runs.create_run(run_id="r")
        for _ in range(6):
            await backend.runs.append_messages(
                run_id="r", messages=[Message(role="user", text="t")] * 1_000
            )
        await backend.runs.fork_run(run_id="r", new_run_id="f", at_message=10)
        await backend.runs.delete_run(run_id="r")
        left: list[int] = []
        for budget in (500, 2_500, 10_000):
            swept = await backend.admin.sweep(budget=budget)
            left.append(swept.freed.get("entries", 0))
        assert left == [500, 2_500, 6_000 - 10 - 1_000 - 3_000]
        assert not swept.more
        run = (await backend.runs.load_run(run_id="f")).run
        assert run is not None
        assert len(run.messages) == 10

    use(tmp_path / "a.db", work)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (10,)
    connection.close()


def test_recall_sees_what_another_client_put_replaced_and_deleted(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        async with open_sqlite(f"sqlite:{tmp_path / 'a.db'}", embedder=WordEmbedder()) as other:

            async def keys() -> list[str]:
                found = await backend.memory.list_memories(query="red apples", limit=2)
                return [scored.item.key for scored in found.items]

            put = other.memory.put_memory
            await put(item=MemoryItem(key="1", value="green pears"))
            await put(item=MemoryItem(key="2", value="blue plums"))
            assert set(await keys()) == {"1", "2"}
            await put(item=MemoryItem(key="3", value="red apples"))
            assert (await keys())[0] == "3"
            await put(item=MemoryItem(key="2", value="very red apples, red apples"))
            assert set(await keys()) == {"2", "3"}
            await other.memory.delete_memory(key="3")
            assert (await keys())[0] == "2"
            assert "3" not in await keys()
            await other.memory.clear_namespace(namespace="")
            assert await keys() == []

    use(tmp_path / "a.db", work, embedder=WordEmbedder())


def assert_no_row(path: Path, but_of: Collection[str]) -> None:
    with sqlite3.connect(path) as connection:
        for table in METADATA.tables.keys() - set(but_of):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # noqa: S608 - names of ours
    connection.close()


def test_what_is_deleted_leaves_no_row(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await fill(backend)
        await backend.runs.fork_run(run_id="r", new_run_id="f")
        for run in ("r", "f"):
            assert (await backend.runs.delete_run(run_id=run)).deleted
        assert (await backend.memory.delete_memory(key="k")).deleted
        assert (await backend.tool_results.delete_tool_result(ref="t")).deleted
        await backend.admin.sweep()

    use(tmp_path / "a.db", work, embedder=WordEmbedder())
    assert_no_row(tmp_path / "a.db", but_of={"storage", "tenants", "embedders", "namespaces"})


def test_an_erased_tenant_leaves_no_row_and_no_name(tmp_path: Path) -> None:
    async def work(backend: Backend) -> None:
        await fill(backend)
        assert (await backend.admin.measure()).bytes
        assert (await backend.admin.erase_tenant(tenant="t")).erased
        assert not (await backend.runs.get_run(run_id="r")).found
        assert (await backend.admin.measure()).bytes == 0

    use(tmp_path / "a.db", work, tenant="t", embedder=WordEmbedder())
    assert_no_row(tmp_path / "a.db", but_of={"storage"})


@pytest.mark.parametrize(
    ("owner", "left"),
    [
        ("runs", {"keys of no run": 2, "ranges of no run": 3, "labels of no run": 2}),
        ("run_ranges", {"logs of no run": 2}),
        ("logs", {"ranges of no log": 3, "entries of no log": 2}),
        ("namespaces", {"notes of no namespace": 1}),
        ("notes", {"filters of no note": 1, "vectors of no note": 1}),
        ("embedders", {"vectors of no embedder": 1}),
        ("results", {"chunks of no result": 1, "labels of no result": 1}),
        (
            "tenants",
            {
                "runs of no tenant": 2,
                "logs of no tenant": 2,
                "namespaces of no tenant": 1,
                "embedders of no tenant": 1,
                "results of no tenant": 1,
            },
        ),
    ],
)
def test_verify_names_rows_that_belong_to_nothing(
    tmp_path: Path, owner: str, left: dict[str, int]
) -> None:
    async def whole(backend: Backend) -> None:
        await fill_and_fork(backend)
        assert (await backend.admin.verify()).problems == ()

    async def found(backend: Backend) -> set[str]:
        return {problem.what for problem in (await backend.admin.verify()).problems}

    use(tmp_path / "a.db", whole, embedder=WordEmbedder())
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(f"DELETE FROM {owner}")  # noqa: S608 - a name of ours
    connection.close()
    named = {what for _, what, _ in ORPHANS}
    assert left.keys() <= named
    told = use(tmp_path / "a.db", found, embedder=WordEmbedder())
    assert {what for what in told if what.partition(" ")[2] in named} == {
        f"{count} {what}" for what, count in left.items()
    }
