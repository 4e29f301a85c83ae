"""Substrings with the extension pg_trgm, where a server has it."""

import asyncio
from collections.abc import Iterator

import pytest

from stores_core import MemoryItem, open_backend
from stores_sql.postgres import trigrams
from stores_sql.postgres.trigrams import INDEX, pattern_of
from tests.postgres_notes import execute, keys, value
from tests.postgres_plans import explained, nodes, recorded
from tests.postgres_server import asyncpg, drop_database, new_database

STRANGE = ("100%_\\ off", "C:\\303\\251 path", "nul\x00byte", "Straße éclair", "日本語", "a\nb c")


@pytest.fixture
def with_trigrams(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with pg_trgm, in which 500 notes are many."""
    monkeypatch.setattr(trigrams, "LARGE", 500)
    url = asyncio.run(new_database(postgres, extensions=()))
    try:
        asyncio.run(
            execute(url, 'CREATE SCHEMA "Theirs"', 'CREATE EXTENSION pg_trgm SCHEMA "Theirs"')
        )
    except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError):
        asyncio.run(drop_database(postgres, url))
        pytest.skip("this Postgres has no pg_trgm (the embedded one has no contrib extensions)")
    yield url
    asyncio.run(drop_database(postgres, url))


async def fill(url: str) -> None:
    async with open_backend(url) as backend:
        for start in range(0, 3_000, 1_000):
            items = [
                MemoryItem(key=f"k{n}", value=f"Note {n} about {'thing' * (n % 5)} {n * 7919}")
                for n in range(start, start + 1_000)
            ]
            await backend.memory.put_memories(items=items, namespace="s")
        items = [MemoryItem(key=f"strange {n}", value=text) for n, text in enumerate(STRANGE)]
        await backend.memory.put_memories(items=items, namespace="s")


async def test_migrate_makes_the_index_and_check_asks_for_it(with_trigrams: str) -> None:
    await fill(with_trigrams)
    async with open_backend(with_trigrams) as backend:
        assert [text for text in (await backend.admin.check()).warnings if "pg_trgm" in text]
        await backend.admin.migrate()
        assert not [text for text in (await backend.admin.check()).warnings if "pg_trgm" in text]
        await backend.admin.migrate()
    there = "SELECT count(*) FROM pg_indexes WHERE indexname = 'notes_trigrams'"
    assert await value(with_trigrams, there) == 1


async def test_the_same_notes_are_found_with_the_index_as_without(with_trigrams: str) -> None:
    await fill(with_trigrams)
    parts = [text[a : a + 4] for text in STRANGE for a in range(len(text) - 2)]
    parts += [
        "note 29",
        "NOTE 29",
        "k29",
        "thingthing",
        "7919",
        "xyz",
        "303",
        "251",
        "t 1",
        "%_",
        "ss",
    ]
    parts += ["note 2999 about " + "thing" * 4 + " 23749081" + "x" * 80]
    async with open_backend(with_trigrams) as without:
        await without.memory.list_memories(namespace="s", query="note 29")
        async with open_backend(with_trigrams) as operator:
            await operator.admin.migrate()
        async with open_backend(with_trigrams) as backend:
            for part in parts:
                expected = await keys(without, "s", part, limit=0)
                assert await keys(backend, "s", part, limit=0) == expected, part
                assert await keys(backend, "s", part, limit=3) == expected[:3], part


async def test_a_rare_word_is_looked_up_in_the_index(with_trigrams: str) -> None:
    await fill(with_trigrams)
    async with open_backend(with_trigrams) as operator:
        await operator.admin.migrate()
    await execute(with_trigrams, "ANALYZE")
    async with recorded(with_trigrams) as (backend, sent):
        assert await keys(backend, "s", "23749081", limit=0) == ["k2999"]
        (statement,) = [one for one in sent if "LIKE" in one.query]
    plan = await explained(with_trigrams, statement, "force_custom_plan")
    assert INDEX in {node.get("Index Name", "") for node in nodes(plan)}


def test_a_query_without_three_plain_letters_is_not_asked_of_the_index() -> None:
    assert pattern_of("日本".encode()) is None
    assert pattern_of(b"a b%c_d") is None
    assert pattern_of(b"abc%") == "%abc\\%%"
    assert pattern_of(b"abc\x00\\\xff") == "%abc\\\\000\\\\\\\\\\\\377%"
