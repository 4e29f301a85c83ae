"""`where` on tables that the server has not analysed yet, as after an import: its guesses at how
many rows there are may be off by any factor, so no plan may be one that punishes that."""

import pytest

from stores_core import MemoryItem, WordEmbedder
from tests.postgres_plans import MODES, explained, recorded, rows_handled

NOTES, FITTING = 4_000, 40
WHERES = ({"rare": 7}, {"half": 1, "rare": 7}, {"all": "x", "rare": 7})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["", "value 7"])
async def test_where_costs_what_its_filters_name_before_the_server_knows_the_tables(
    postgres_url: str, mode: str, query: str
) -> None:
    embedder = WordEmbedder()
    async with recorded(postgres_url, embedder=embedder) as (backend, sent):
        for start in range(0, NOTES, 1_000):
            await backend.memory.put_memories(
                items=[
                    MemoryItem(
                        key=f"k{n}",
                        value=f"value {n}",
                        metadata={"rare": n % (NOTES // FITTING), "half": n % 2, "all": "x"},
                    )
                    for n in range(start, start + 1_000)
                ]
            )
        for where in WHERES:
            sent.clear()
            listed = await backend.memory.list_memories(query=query, where=where, limit=10)
            assert len(listed.items) == 10
            for statement in list(sent):
                if "note_filters" not in statement.query:
                    continue
                plan = await explained(postgres_url, statement, mode)
                # A pass over the widest filter is fine; one for each of its rows is not.
                assert rows_handled(plan) < 10 * NOTES, (where, plan)
