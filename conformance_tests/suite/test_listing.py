"""Listing runs: order and cursors."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance_tests import samples
from conformance_tests.compare import assert_same
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.steps import (
    StoppedClock,
    deltas,
    fork,
    header,
    ids,
    start_run,
    turn,
    walk,
)
from stores_core import Backend, InvalidRequestError

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


async def start_many(
    client: Backend, names: list[str], labels: Mapping[str, str] | None = None
) -> list[str]:
    for name in names:
        assert (await client.runs.create_run(run_id=name, labels=labels or {})).created
    return names


# Order


@pytest.mark.parametrize("page", [1, 2, 7, 12, 100])
@proves("RUN-Q1", "RUN-Q2", needs=("runs", "clock"), look_at="what list_runs orders by")
async def test_the_newest_run_comes_first(lab: Lab, page: int) -> None:
    clock, label = StoppedClock(), {"of": lab.new_id("label")}
    client = await lab.open(clock=clock)
    made: list[str] = []
    for _ in range(12):
        clock.move(0.000001)
        made.append(await start_run(lab, labels=label, client=client))
    assert ids(await walk(client, page, labels=label)) == made[::-1]


@pytest.mark.parametrize("page", [1, 7, 10, 100])
@proves(
    "RUN-Q1",
    "RUN-Q2",
    needs=("runs", "clock"),
    look_at="whether a cursor holds the id beside the time",
)
async def test_runs_of_one_moment_come_by_id(lab: Lab, page: int) -> None:
    clock, label = StoppedClock(), {"of": lab.new_id("label")}
    client = await lab.open(clock=clock)
    stem = lab.new_id("run")
    tails = ["b", "a", "B", "10", "9", "é", "e\u0301", "z", "\U0001f680", "\uffee", "_", " ", "aa"]
    early = await start_many(client, [stem + tail for tail in tails], label)
    clock.move(1)
    late = await start_many(client, [f"{stem} {n} {tail}" for n in (2, 1) for tail in tails], label)
    expected = sorted(late) + sorted(early)
    assert ids(await walk(client, page, labels=label)) == expected


@proves(
    "RUN-Q1",
    needs=("runs", "clock"),
    look_at="whether a listing is ordered by updated_at or by arrival",
)
async def test_order_is_by_creation_and_by_nothing_else(lab: Lab) -> None:
    clock, label = StoppedClock(), {"of": lab.new_id("label")}
    client = await lab.open(clock=clock)
    first = await start_run(lab, labels=label, client=client)
    clock.move(10)
    second = await start_run(lab, labels=label, client=client)
    clock.move(-20)
    older = await start_run(lab, labels=label, client=client)
    clock.move(100)
    await client.runs.append_messages(run_id=first, messages=turn(1))
    await client.runs.update_run(run_id=older, labels={"more": "x"})
    assert ids(await walk(client, 7, labels=label)) == [second, first, older]


@proves(
    "RUN-Q1",
    needs=("runs",),
    look_at="whether listings by all clients and by all filters are alike",
)
async def test_every_listing_gives_full_headers_in_one_order(lab: Lab) -> None:
    label = {"of": lab.new_id("label")}
    parent = await start_run(lab, turn(3), deltas(2), labels=label)
    made = [parent, *[await fork(lab, parent, n) for n in range(1, 4)]]
    infos = [await header(lab.reader, run_id) for run_id in made]
    expected = sorted(infos, key=lambda info: info.id)
    expected.sort(key=lambda info: info.created_at, reverse=True)
    for client in (lab.reader, lab.backend):
        for page in (1, 2, 50):
            listed = await walk(client, page, labels=label)
            assert ids(listed) == ids(expected)
            for info, other in zip(listed, expected, strict=True):
                assert_same(
                    info.model_copy(update={"labels": {}}),
                    other.model_copy(update={"labels": {}}),
                    f"the header of {info.id}",
                )
                assert dict(info.labels) == dict(other.labels)
            forks = await walk(client, page, parent_id=parent)
            assert ids(forks) == [info.id for info in expected if info.parent_id]


# Cursors


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 14, 21])
@proves("RUN-Q2", needs=("runs", "tenant"), look_at="how list_runs knows that a page is the last")
async def test_pages_are_full_and_the_last_one_says_so(lab: Lab, count: int) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    made = [await start_run(lab, client=client) for _ in range(count)]
    seen: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page = await client.runs.list_runs(limit=7, cursor=cursor)
        pages, cursor = pages + 1, page.next_cursor
        seen += ids(page.runs)
        assert len(page.runs) == 7 or not cursor, "a page is short although more follow"
    assert pages == max(1, -(-count // 7)), "an empty page came after the last run"
    assert sorted(seen) == sorted(made)


@proves(
    "RUN-Q2", needs=("runs", "tenant"), look_at="what limit 0 means, and the most that a page gives"
)
async def test_a_page_is_50_runs_unless_asked(lab: Lab) -> None:
    client = await lab.open(tenant=lab.new_id("tenant"))
    for _ in range(60):
        await client.runs.create_run()
    for limit, expected in ((0, 50), (59, 59), (60, 60), (1_000, 60), (2**63, 60)):
        page = await client.runs.list_runs(limit=limit)
        assert len(page.runs) == expected
        assert bool(page.next_cursor) == (expected < 60)


@pytest.mark.parametrize("sample", samples.unfit_limits, ids=samples.name_of)
@proves("RUN-Q2", "ALL-11", needs=("runs",), look_at="what the request accepts as a limit")
async def test_a_limit_that_is_no_count_is_refused(lab: Lab, sample: samples.Sample) -> None:
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.list_runs(limit=sample.value)


@pytest.mark.parametrize("filtered", [True, False], ids=["by label", "all runs"])
@pytest.mark.parametrize("moving", [True, False], ids=["clock runs", "clock stands"])
@proves(
    "RUN-Q2",
    needs=("runs", "tenant", "clock"),
    look_at="whether a cursor is a place or a number of runs",
)
async def test_what_comes_and_goes_meanwhile_hides_and_repeats_nothing(
    lab: Lab, moving: bool, filtered: bool
) -> None:
    clock, label = StoppedClock(), {"of": lab.new_id("label")}
    client = await lab.open(tenant=lab.new_id("tenant"), clock=clock)
    kept: list[str] = []
    passing: list[str] = []
    for n in range(42):
        clock.move(1 if moving else 0)
        (passing if n % 3 == 0 else kept).append(await start_run(lab, labels=label, client=client))
    seen: list[str] = []
    cursor = ""
    for n in range(200):
        page = await client.runs.list_runs(limit=4, cursor=cursor, labels=label if filtered else {})
        seen += ids(page.runs)
        cursor = page.next_cursor
        if not cursor:
            break
        clock.move(1 if moving else 0)
        await start_run(lab, labels=label, client=client)
        await client.runs.append_messages(run_id=kept[n % len(kept)], messages=turn(1))
        if passing:
            await client.runs.delete_run(run_id=passing.pop(n % len(passing)))
        if page.runs and page.runs[-1].id not in kept:  # the run that the cursor stands on goes
            await client.runs.delete_run(run_id=page.runs[-1].id)
            passing = [run_id for run_id in passing if run_id != page.runs[-1].id]
    assert not cursor, "the cursors never end"
    assert len(seen) == len(set(seen)), "a run was given twice"
    missed = set(kept) - set(seen)
    assert not missed, f"{len(missed)} runs that were there throughout were passed over"


@proves("RUN-Q2", needs=("runs",), look_at="how labels are filtered while cursors are followed")
async def test_a_filtered_walk_finds_every_run_among_many_others(lab: Lab) -> None:
    rare, common = {"rare": lab.new_id("label")}, {"common": lab.new_id("label")}
    wanted: list[str] = []
    for n in range(60):
        run_id = await start_run(lab, labels={**common, **(rare if n % 9 == 0 else {})})
        if n % 9 == 0:
            wanted.append(run_id)
    for page in (1, 7, 50):
        found = ids(await walk(lab.reader, page, labels={**common, **rare}))
        assert sorted(found) == sorted(wanted)
        assert len(found) == len(set(found))
        assert len(await walk(lab.reader, page, labels=common)) == 60


@proves("RUN-Q2", "RUN-Q3", needs=("runs",), look_at="what a cursor is bound to")
async def test_a_cursor_goes_on_with_another_limit_and_from_another_client(lab: Lab) -> None:
    label = {"of": lab.new_id("label")}
    made = {await start_run(lab, labels=label) for _ in range(9)}
    first = await lab.backend.runs.list_runs(limit=2, labels=label)
    second = await lab.reader.runs.list_runs(limit=3, labels=label, cursor=first.next_cursor)
    again = await lab.reader.runs.list_runs(limit=3, labels=label, cursor=first.next_cursor)
    assert ids(second.runs) == ids(again.runs), "a cursor works once"
    third = await lab.backend.runs.list_runs(limit=9, labels=label, cursor=second.next_cursor)
    assert {*ids(first.runs), *ids(second.runs), *ids(third.runs)} == made
    assert len(first.runs) + len(second.runs) + len(third.runs) == 9


def _forged(cursor: str) -> dict[str, str]:
    middle = len(cursor) // 2
    other = "A" if cursor[middle] != "A" else "B"
    return {
        "a word": "nope",
        "a number": "7",
        "a space": " ",
        "JSON": '{"offset": 2}',
        "Base64 of JSON": base64.b64encode(b'{"created_at": 0, "id": "x"}').decode(),
        "a run id": "run-1",
        "one character changed": cursor[:middle] + other + cursor[middle + 1 :],
        "cut short": cursor[:-1],
        "longer": cursor + "A",
        "a space behind": cursor + " ",
        "padding": cursor + "=",
        "twice": cursor + cursor,
        "a lone surrogate": "\ud800",
        "NUL": "\0",
        "a megabyte": "A" * 2**20,
        "other alphabet": "é" * 40,
    }


@pytest.mark.parametrize("name", _forged("AAAAAAAA"))
@proves("RUN-Q3", needs=("runs",), look_at="whether a cursor is checked before it is believed")
async def test_a_cursor_that_nobody_made_is_refused(lab: Lab, name: str) -> None:
    label = {"of": lab.new_id("label")}
    for _ in range(4):
        await start_run(lab, labels=label)
    cursor = (await lab.backend.runs.list_runs(limit=2, labels=label)).next_cursor
    assert cursor, "a page of 2 of 4 runs has no cursor"
    with pytest.raises(InvalidRequestError):
        await lab.backend.runs.list_runs(limit=2, labels=label, cursor=_forged(cursor)[name])
    page = await lab.reader.runs.list_runs(limit=2, labels=label, cursor=cursor)
    assert len(page.runs) == 2


@proves("RUN-Q3", needs=("runs",), look_at="whether a cursor is bound to its filters")
async def test_a_cursor_of_another_query_is_refused(lab: Lab) -> None:
    label, other = {"of": lab.new_id("label")}, {"of": lab.new_id("label")}
    parent = await start_run(lab, labels=label)
    for _ in range(3):
        await fork(lab, parent)
    cursor = (await lab.backend.runs.list_runs(limit=2, labels=label)).next_cursor
    queries: list[dict[str, Any]] = [
        {},
        {"labels": other},
        {"labels": label | other | {"more": "x"}},
        {"parent_id": parent},
        {"labels": label, "parent_id": parent},
        {"labels": label, "updated_before": LAST},
    ]
    for query in queries:
        with pytest.raises(InvalidRequestError):
            await lab.backend.runs.list_runs(limit=2, cursor=cursor, **query)


@proves(
    "RUN-Q3", "ALL-10", needs=("runs", "tenant"), look_at="whether a cursor is bound to its tenant"
)
async def test_a_cursor_of_another_tenant_is_refused(lab: Lab) -> None:
    label = {"of": lab.new_id("label")}
    ours = await lab.open(tenant=lab.new_id("tenant"))
    theirs = await lab.open(tenant=lab.new_id("tenant"))
    for client in (ours, theirs):
        for _ in range(3):
            await start_run(lab, labels=label, client=client)
    for labels in ({}, label):
        cursor = (await ours.runs.list_runs(limit=2, labels=labels)).next_cursor
        with pytest.raises(InvalidRequestError):
            await theirs.runs.list_runs(limit=2, labels=labels, cursor=cursor)


@proves(
    "RUN-Q1", "ALL-10", needs=("runs", "tenant"), look_at="how a tenant is kept from others like it"
)
async def test_a_listing_shows_one_tenant_alone(lab: Lab) -> None:
    stem, label = lab.new_id("tenant"), {"of": lab.new_id("label")}
    tenants = [stem, stem + "b", stem + ":b", stem + "/b", stem.upper(), stem + "*"]
    clients = [await lab.open(tenant=tenant) for tenant in tenants]
    run_id = lab.new_id("run")
    for n, client in enumerate(clients):
        made = await client.runs.create_run(run_id=run_id, labels=label)
        assert made.created, "another tenant has the id"
        await start_run(lab, turn(1), labels={"own": str(n)}, client=client)
    for n, client in enumerate(clients):
        assert len(await walk(client, 7)) == 2
        assert ids(await walk(client, 7, labels=label)) == [run_id]
        assert len(await walk(client, 7, labels={"own": str(n)})) == 1
        assert await walk(client, 7, labels={"own": str(n + 1)}) == []
