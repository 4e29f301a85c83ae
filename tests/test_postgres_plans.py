"""What the run store's statements read at 100,000 runs: few pages, found by an index."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from stores_core import Backend, MemoryItem, Message, WordEmbedder, open_backend
from tests.postgres_plans import MODES, copies, explained, nodes, recorded, rows_handled
from tests.postgres_server import asyncpg, drop_database, new_database

RUNS = 100_000
TURN = [Message(role="user", text=f"message {n}") for n in range(4)]


FILL = [
    copies(
        "runs",
        f"generate_series(1, {RUNS}) AS n",
        "template.id = 'template'",
        id="'run ' || n",
        number="nextval('agent_stores.numbers')",
        age="template.age + n",
        parent="CASE WHEN n % 1000 = 0 THEN 'parent' ELSE '' END",
    ),
    *(
        copies(
            "labels",
            f"generate_series({each}, {RUNS}, {each}) AS n",
            "template.key = 'template'",
            id="'run ' || n",
            age="template.age + n",
            key=f"'{label}'",
        )
        for label, each in (("all", 1), ("tenth", 10), ("rare", 5_000))
    ),
    copies(
        "entries",
        f"generate_series(1, {RUNS}) AS n",
        "template.position < 2",
        log="1000000 + n",
    ),
    "VACUUM (ANALYZE)",
]


@pytest.fixture(scope="module")
def filled(postgres: str) -> Iterator[str]:
    """A database with 100,000 runs: all with one label, a tenth and a few with another."""

    async def fill(url: str) -> None:
        async with open_backend(url) as backend:
            await backend.runs.create_run(run_id="template", labels={"template": "x"})
            await backend.runs.create_run(run_id="long")
            for _ in range(100):
                await backend.runs.append_messages(run_id="long", messages=TURN * 10)
        connection = await asyncpg.connect(url)
        for statement in FILL:
            await connection.execute(statement)
        await connection.close()

    url = asyncio.run(new_database(postgres))
    asyncio.run(fill(url))
    yield url
    asyncio.run(drop_database(postgres, url))


Call = Callable[[Backend], Awaitable[Any]]

CALLS: dict[str, tuple[Call, int]] = {
    "newest": (lambda b: b.runs.list_runs(limit=50), 50),
    "by a label that all have": (lambda b: b.runs.list_runs(limit=50, labels={"all": "x"}), 50),
    "by a rare label": (lambda b: b.runs.list_runs(limit=50, labels={"rare": "x"}), 20),
    "by two labels": (
        lambda b: b.runs.list_runs(limit=50, labels={"all": "x", "tenth": "x"}),
        50,
    ),
    "by parent": (lambda b: b.runs.list_runs(limit=50, parent_id="parent"), 50),
    "header": (lambda b: b.runs.get_run(run_id="run 77777"), 1),
}
"""What is asked for, and how many it gives."""

LARGE = {"runs", "labels", "entries", "logs"}
PAGES = 1_000
"""Pages of 8 kB that a page of 50 may touch: each header in another, and what the indexes have."""


@pytest.mark.parametrize("name", CALLS)
async def test_a_listing_reads_a_page_and_not_the_table(filled: str, name: str) -> None:
    call, wanted = CALLS[name]
    async with recorded(filled) as (backend, sent):
        answer = await call(backend)
        given = answer.runs if hasattr(answer, "runs") else [answer.info]
        assert len(given) == wanted
        await looked_at(filled, sent)


@pytest.mark.parametrize("label", ["all", "tenth"])
async def test_a_page_far_back_costs_what_the_first_does(filled: str, label: str) -> None:
    async with recorded(filled) as (backend, sent):
        cursor = ""
        for _ in range(5):
            page = await backend.runs.list_runs(limit=1_000, labels={label: "x"}, cursor=cursor)
            cursor = page.next_cursor
        sent.clear()
        page = await backend.runs.list_runs(limit=50, labels={label: "x"}, cursor=cursor)
        assert len(page.runs) == 50
        await looked_at(filled, sent)


async def test_a_load_and_an_append_touch_what_they_need(filled: str) -> None:
    async with recorded(filled) as (backend, sent):
        run = (await backend.runs.load_run(run_id="long", last_messages=20)).run
        assert run
        assert len(run.messages) == 20
        await looked_at(filled, sent, pages=60)
        sent.clear()
        await backend.runs.append_messages(run_id="long", messages=TURN, idempotency_key="k")
        await looked_at(filled, sent, pages=120)
        sent.clear()
        await backend.runs.fork_run(run_id="long", at_message=2_000)
        await looked_at(filled, sent, pages=120)


async def looked_at(url: str, sent: list[Any], pages: int = PAGES) -> None:
    """Whether the statements found their rows by indexes, and touched few pages."""
    statements = [each for each in sent if "agent_stores" in each.query]
    assert statements
    for statement in statements:
        for mode in MODES:
            plan = await explained(url, statement, mode)
            touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            scanned = {
                node.get("Relation Name") for node in nodes(plan) if node["Node Type"] == "Seq Scan"
            }
            assert not scanned & LARGE, (mode, statement.query)
            assert touched <= pages, (mode, touched, statement.query)


async def test_a_recall_of_notes_that_are_new_to_the_planner_handles_each_a_few_times(
    postgres_url: str,
) -> None:
    count = 1_000
    items = [MemoryItem(key=f"{n}", value=f"w{n} w{n % 7}") for n in range(count)]
    async with open_backend(postgres_url, embedder=WordEmbedder()) as backend:
        connection = await asyncpg.connect(postgres_url)
        for table in ("notes", "vectors"):  # as it is before autovacuum comes by
            await connection.execute(
                f"ALTER TABLE agent_stores.{table} SET (autovacuum_enabled = off)"
            )
        await connection.close()
        await backend.memory.put_memories(items=items)
    async with recorded(postgres_url, embedder=WordEmbedder()) as (backend, sent):
        recalled = await backend.memory.list_memories(query="w5 w6", limit=5)
        assert len(recalled.items) == 5
        await asyncio.sleep(0)
        statements = [each for each in sent if "agent_stores.vectors" in each.query]
        assert statements
        for statement in statements:
            plan = await explained(postgres_url, statement, MODES[0])
            assert rows_handled(plan) <= 30 * count, statement.query
