"""Tenants: what one tenant has is to another exactly as if it had never been."""

import secrets
from dataclasses import replace

import pytest

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite import steps, test_tool_results
from conformance_tests.suite.notes import fill_many, listed, note, walk_namespaces, write
from conformance_tests.suite.operations import Names, bound, operations, requests, unused
from conformance_tests.suite.spelled import Spelled, recalled, spell
from conformance_tests.suite.test_tool_results import put, text_of, text_result
from stores_core import Backend, Capability, Event, MemoryItem, Message, StoreError
from stores_core.codec import canonical

# What the operator's seam shows of other tenants is what it is there for.
SEES_ALL_TENANTS = {"list_tenants"}

MOST_PAGES = 10_000


async def owner(lab: Lab) -> tuple[Backend, Names]:
    """A tenant that has something of everything, and the names of it all."""
    tenant = lab.new_id("owner")
    client = await lab.open(tenant=tenant)
    names = unused(lab)
    label = {"of": names.label}
    cursors: dict[str, str] = {}
    if "runs" in client.offered:
        said = [Message(role="user", text="a value"), Message(role="user", text="another")]
        for id in (names.run, names.fork):
            await client.runs.create_run(run_id=id, labels=label)
            await client.runs.append_messages(
                run_id=id, messages=said, events=[Event(kind="x")], idempotency_key=names.token
            )
        cursors["list_runs"] = (await client.runs.list_runs(limit=1)).next_cursor
    if "memory" in client.offered:
        items = [MemoryItem(key=key, value="a value", metadata=label) for key in (names.key, "b")]
        for namespace in (names.namespace, "", names.namespace + "x"):
            await client.memory.put_memories(items=items, namespace=namespace)
        memories = await client.memory.list_memories(namespace=names.namespace, limit=1)
        cursors["list_memories"] = memories.next_cursor
        cursors["list_namespaces"] = (await client.memory.list_namespaces(limit=1)).next_cursor
    if "tool_results" in client.offered:
        for ref in (names.ref, names.token):
            await put(client, ref, text_result("a value"), label)
        results = await client.tool_results.list_tool_results(limit=1)
        cursors["list_tool_results"] = results.next_cursor
    log = names.log
    if "moving" in client.offered:
        runs = await client.moving.export_runs(limit=1)
        log = runs.runs[0].messages[0].log
        cursors["export_runs"] = runs.next_cursor
        cursors["export_memories"] = (await client.moving.export_memories(limit=1)).next_cursor
        results = await client.moving.export_tool_results(limit=1)
        cursors["export_tool_results"] = results.next_cursor
    assert all(cursors.values()), "a page of 1 of several has a cursor"
    await _is_the_storage(lab, tenant, names)
    return client, replace(names, cursors=cursors, log=log)


async def _is_the_storage(lab: Lab, tenant: str, names: Names) -> None:
    """End the test where a second client has a storage of its own: it would prove nothing."""
    if Capability.SHARED in lab.backend.capabilities or "runs" not in lab.backend.offered:
        return
    second = await lab.open(tenant=tenant)
    if not (await second.runs.get_run(run_id=names.run)).found:
        lab.not_applicable("without SHARED a second client has a storage of its own")


def nobody(lab: Lab, like: Names) -> Names:
    """Names of what was never there, with cursors of the same length that nobody made."""
    cursors = {
        operation: secrets.token_urlsafe(len(cursor))[: len(cursor)]
        for operation, cursor in like.cursors.items()
    }
    return replace(unused(lab), cursors=cursors)


async def everything_of(client: Backend) -> str:
    """All that a tenant has, as one text."""
    parts: list[object] = []
    if "runs" in client.offered:
        for info in await steps.walk(client, 100):
            parts.append(await client.runs.load_run(run_id=info.id))
    if "memory" in client.offered:
        for namespace in await walk_namespaces(client, "", 100):
            parts += [namespace, await client.memory.list_memories(namespace=namespace)]
    if "tool_results" in client.offered:
        for info in await test_tool_results.walk(client, 100):
            parts += [info, await client.tool_results.get_tool_result(ref=info.ref)]
    return canonical(parts)


async def answers(client: Backend, store: str, name: str, names: Names) -> list[str]:
    """What an operation answers, or raises, for each request; the names themselves blotted out."""
    told: list[str] = []
    for request in requests(store, name, names):
        try:
            answer = canonical(await bound(client, store, name)(**request))
        except StoreError as error:
            answer = f"{type(error).__name__}: {error}"
        roles = {value: role for role, value in names.__dict__.items() if isinstance(value, str)}
        for value in names.all():
            answer = answer.replace(value, f"<{roles.get(value, 'cursor')}>")
        told.append(answer)
    return told


async def _strangers_learn_nothing(lab: Lab, store: str, name: str) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend offers no `{store}`")
    mine, names = await owner(lab)
    before = await everything_of(mine)
    intruder = await lab.open(tenant=lab.new_id("intruder"))
    visitor = await lab.open(tenant=lab.new_id("visitor"))
    tried = await answers(intruder, store, name, names)
    assert tried, f"{store}.{name} has no request in the table"
    if name not in SEES_ALL_TENANTS:
        expected = await answers(visitor, store, name, nobody(lab, names))
        assert tried == expected, f"{store}.{name} tells what another tenant has"
    assert await everything_of(mine) == before, f"{store}.{name} changed another tenant's data"


@pytest.mark.parametrize("name", operations("runs"))
@proves(
    "ALL-10", needs=("tenant",), look_at="this operation of the run store: where the tenant enters"
)
async def test_to_a_stranger_a_run_is_as_if_it_had_never_been(lab: Lab, name: str) -> None:
    await _strangers_learn_nothing(lab, "runs", name)


@pytest.mark.parametrize("name", operations("memory"))
@proves(
    "ALL-10", needs=("tenant",), look_at="this operation of the memory: where the tenant enters"
)
async def test_to_a_stranger_a_note_is_as_if_it_had_never_been(lab: Lab, name: str) -> None:
    await _strangers_learn_nothing(lab, "memory", name)


@pytest.mark.parametrize("name", operations("tool_results"))
@proves("ALL-10", needs=("tenant",), look_at="this operation on results: where the tenant enters")
async def test_to_a_stranger_a_result_is_as_if_it_had_never_been(lab: Lab, name: str) -> None:
    await _strangers_learn_nothing(lab, "tool_results", name)


@pytest.mark.parametrize("name", operations("moving"))
@proves(
    "ALL-10", needs=("tenant", "moving"), look_at="this operation of moving: whose logs it reads"
)
async def test_a_stranger_exports_and_imports_only_its_own(lab: Lab, name: str) -> None:
    await _strangers_learn_nothing(lab, "moving", name)


@pytest.mark.parametrize("name", operations("admin"))
@proves(
    "ALL-10", needs=("tenant", "admin"), look_at="this operation of admin: whose data it counts"
)
async def test_the_operators_seam_counts_and_sweeps_one_tenant(lab: Lab, name: str) -> None:
    await _strangers_learn_nothing(lab, "admin", name)


@proves(
    "ALL-10",
    needs=("runs", "memory", "tool_results", "tenant"),
    look_at="ids of two tenants that meet in one key, row or file",
)
async def test_two_tenants_may_use_the_same_ids_for_everything(lab: Lab) -> None:
    clients = [await lab.open(tenant=lab.new_id("tenant")) for _ in range(2)]
    for n, client in enumerate(clients):
        assert (await client.runs.create_run(run_id="r", labels={"of": str(n)})).created
        answer = await client.runs.append_messages(
            run_id="r", messages=[Message(role="user", text=f"{n}")] * (n + 1), idempotency_key="k"
        )
        assert (answer.applied, answer.message_count) == (True, n + 1)
        assert (await client.runs.fork_run(run_id="r", new_run_id="f")).created
        assert (await write(client, "s", "k", f"needle {n}")).created
        await put(client, "f", text_result(f"{n}"), {"a": "1"})
    for n, client in enumerate(clients):
        assert [message.text for message in (await steps.load(client, "f")).messages] == (
            [f"{n}"] * (n + 1)
        )
        assert steps.ids(await steps.walk(client, 1, parent_id="r")) == ["f"]
        assert (await note(client, "s", "k")).value == f"needle {n}"
        assert await listed(client, "s", query="needle") == ["k"]
        assert await text_of(client, "f") == f"{n}"
        assert len(await test_tool_results.walk(client, 1, {"a": "1"})) == 1
    await clients[0].runs.delete_run(run_id="r")
    await clients[0].memory.clear_namespace(namespace="s")
    await clients[0].tool_results.delete_tool_result(ref="f")
    assert (await steps.header(clients[1], "r")).message_count == 2
    assert await listed(clients[1], "s") == ["k"]
    assert await text_of(clients[1], "f") == "1"


@proves(
    "ALL-10",
    "EMB-3",
    needs=("memory", "embeddings", "tenant"),
    look_at="an index that ranks before it looks at the tenant",
)
async def test_the_nearest_note_of_another_tenant_is_never_recalled(lab: Lab) -> None:
    theirs = await lab.open(tenant=lab.new_id("tenant"), embedder=Spelled())
    ours = await lab.open(tenant=lab.new_id("tenant"), embedder=Spelled())
    near = [MemoryItem(key=f"near{n}", value=spell(1, n * 1e-4)) for n in range(300)]
    await fill_many(theirs, "s", near)
    await fill_many(ours, "s", [MemoryItem(key=f"far{n}", value=spell(-1, n)) for n in range(5)])
    found = await recalled(ours, "s", spell(1, 0), limit=10)
    assert {key for key, _ in found} == {f"far{n}" for n in range(5)}


@proves(
    "ALL-10",
    "EMB-5",
    needs=("memory", "embeddings", "tenant"),
    look_at="the record of the embedder: each tenant has its own",
)
async def test_each_tenant_may_have_an_embedder_of_its_own(lab: Lab) -> None:
    for embedder in (Spelled(2, "one"), Spelled(3, "two")):
        client = await lab.open(tenant=lab.new_id("tenant"), embedder=embedder)
        await write(client, "s", "k", spell(1, 0))
        assert await recalled(client, "s", spell(1, 0)) == [("k", 1.0)]


@proves("ALL-10", needs=("runs", "tenant"), look_at='the tenant "", which is one of no other name')
async def test_the_tenant_without_a_name_is_none_that_has_one(lab: Lab) -> None:
    run_id = await steps.start_run(lab)
    for name in ("default", "public", "None", "null", " ", "0", "*"):
        client = await lab.open(tenant=name)
        assert not (await client.runs.get_run(run_id=run_id)).found, f"{name!r} sees it"


@proves(
    "ALL-10",
    needs=("runs", "memory", "tool_results", "tenant", "admin"),
    look_at="how much erase_tenant erases",
)
async def test_erasing_a_tenant_erases_all_of_that_tenant_alone(lab: Lab) -> None:
    start = lab.new_id("tenant")
    names = [start, start + "x", start + "*", start[:-1]]
    clients = {name: await lab.open(tenant=name) for name in names}
    for name, client in clients.items():
        await client.runs.create_run(run_id="r", labels={"of": name})
        await client.runs.append_events(run_id="r", events=[Event(kind="x")], idempotency_key="k")
        await write(client, "s", "k", "needle")
        await put(client, "f", text_result("x"), {"of": name})
    await _is_one_storage(lab, start)
    operator = clients[start + "*"]
    left = {name: await everything_of(client) for name, client in clients.items()}
    assert sorted(names) == await _tenants(operator, start[:-1], 100)
    assert (await operator.admin.erase_tenant(tenant=start)).erased
    new = await lab.open(tenant=lab.new_id("tenant"))
    assert await everything_of(clients[start]) == await everything_of(new)
    for name in names[1:]:
        assert await everything_of(clients[name]) == left[name]
    assert not (await operator.admin.erase_tenant(tenant=start)).erased
    assert sorted(names[1:]) == await _tenants(operator, start[:-1], 100)
    assert (await clients[start].runs.create_run(run_id="r")).created
    assert (await steps.header(clients[start], "r")).event_count == 0


@proves("ALL-10", needs=("runs", "tenant", "admin"), look_at="whose data measure and verify count")
async def test_what_one_tenant_writes_is_counted_for_no_other(lab: Lab) -> None:
    ours = await lab.open(tenant=lab.new_id("tenant"))
    theirs = await lab.open(tenant=lab.new_id("tenant"))
    assert not sum((await ours.admin.verify()).checked.values())
    await steps.start_run(lab, steps.turn(2), client=ours)
    await steps.start_run(lab, steps.turn(3), steps.deltas(4), client=ours)
    held, checked = await steps.bytes_held(lab, ours), (await ours.admin.verify()).checked
    assert (checked["runs"], sum(checked.values())) == (2, 2 + 2 + 3 + 4), "not all is counted once"
    await steps.start_run(lab, steps.turn(200, "w" * 500), client=theirs)
    assert await steps.bytes_held(lab, ours) < held + 10_000, "another tenant's bytes are counted"
    assert (await ours.admin.verify()).checked == checked, "another tenant's records are counted"


@pytest.mark.parametrize("limit", [3, 1_000])
@proves("ALL-10", needs=("runs", "tenant", "admin"), look_at="the order and pages of list_tenants")
async def test_tenants_are_listed_in_code_point_order_by_any_page(lab: Lab, limit: int) -> None:
    start = lab.new_id("tenant")
    tails = ["", "!", "A", "B", "_", "a", "a b", "b", "é", "e\u0301", "\uffff", "😀"]
    for n, tail in enumerate(tails):
        client = await lab.open(tenant=start + tail)
        if n % 3 == 0 or "memory" not in client.offered:
            await client.runs.create_run(run_id="r")
        elif n % 3 == 1 or "tool_results" not in client.offered:
            await write(client, "s", "k")
        else:
            await put(client, "f", text_result("x"))
    operator = await lab.open(tenant=start + "nothing")
    await _is_one_storage(lab, start)
    assert await _tenants(operator, start, limit) == sorted(start + tail for tail in tails)


async def _is_one_storage(lab: Lab, tenant: str) -> None:
    """End the test where clients have a storage each: this tenant holds a run."""
    if Capability.SHARED not in lab.backend.capabilities:
        second = await lab.open(tenant=tenant)
        if not (await second.runs.get_run(run_id="r")).found:
            lab.not_applicable("without SHARED each client has a storage of its own")


async def _tenants(client: Backend, start: str, limit: int) -> list[str]:
    """The tenants whose names start so, as they come."""
    found: list[str] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.admin.list_tenants(cursor=cursor, limit=limit)
        assert len(page.tenants) <= limit
        found += page.tenants
        cursor = page.next_cursor
        if not cursor:
            assert found == sorted(set(found)), "tenants come in code-point order, once each"
            return [name for name in found if name.startswith(start)]
    raise AssertionError("the listing of tenants never ends")
