"""Rows in Postgres that belong to nothing: verify says how many there are, of which kind."""

import pytest

from stores_core import WordEmbedder, open_backend
from stores_sql.postgres.orphans import ORPHANS
from tests.every_kind import fill_and_fork
from tests.postgres_notes import execute

NAMED = {what for _, what, _ in ORPHANS}


@pytest.mark.parametrize(
    ("owner", "left"),
    [
        ("runs", {"keys of no run": 2, "ranges of no run": 1, "labels of no run": 2}),
        ("logs", {"ranges of no log": 1, "entries of no log": 2}),
        ("namespaces", {"notes of no namespace": 1}),
        ("notes", {"filters of no note": 1, "vectors of no note": 1}),
        ("embedders", {"vectors of no embedder": 1}),
        ("results", {"chunks of no result": 1, "labels of no result": 1}),
    ],
)
async def test_verify_names_rows_that_belong_to_nothing(
    postgres_url: str, owner: str, left: dict[str, int]
) -> None:
    assert left.keys() <= NAMED
    async with open_backend(postgres_url, tenant="other") as other:
        await fill_and_fork(other)
    async with open_backend(postgres_url, tenant="ours", embedder=WordEmbedder()) as backend:
        await fill_and_fork(backend)
        assert (await backend.admin.verify()).problems == ()
        await execute(
            postgres_url,
            f"DELETE FROM agent_stores.{owner} WHERE tenant = "  # noqa: S608 - a name of ours
            "(SELECT number FROM agent_stores.tenants WHERE name = 'ours')",
        )
        told = {problem.what for problem in (await backend.admin.verify()).problems}
    assert {what for what in told if what.partition(" ")[2] in NAMED} == {
        f"{count} {what}" for what, count in left.items()
    }
    async with open_backend(postgres_url, tenant="other") as other:
        assert (await other.admin.verify()).problems == ()
