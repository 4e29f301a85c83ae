"""Tenants: to ask for what another tenant has costs what asking for nothing costs."""

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.operations import operations
from conformance_tests.suite.test_isolation import answers, nobody, owner
from stores_core import Backend

READ = [
    (store, name)
    for store in ("runs", "memory", "tool_results")
    for name in operations(store)
    if name.startswith(("get_", "load_", "read_", "list_", "search_"))
]


async def _entries_read(client: Backend) -> int | None:
    return (await client.admin.measure()).entries_read


@pytest.mark.parametrize(("store", "name"), READ, ids=[name for _, name in READ])
@proves(
    "ALL-10",
    needs=("runs", "memory", "tool_results", "tenant", "admin"),
    look_at="whether it is read first and the tenant checked afterwards",
)
async def test_a_strangers_id_costs_what_an_unused_one_costs(
    lab: Lab, store: str, name: str
) -> None:
    """A clock cannot tell this for certain; the entries that were looked at can."""
    _, names = await owner(lab)
    stranger = await lab.open(tenant=lab.new_id("stranger"))
    before = await _entries_read(stranger)
    if before is None:
        lab.not_applicable("the backend does not count the entries that it reads")
    await answers(stranger, store, name, names)
    between = await _entries_read(stranger)
    await answers(stranger, store, name, nobody(lab, names))
    after = await _entries_read(stranger)
    assert between is not None
    assert after is not None
    assert between - before == after - between, f"{store}.{name} looks at another tenant's"
