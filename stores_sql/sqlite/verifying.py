"""Reading every record of a tenant, and listing what is damaged."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import select

from stores_core.admin import Problem
from stores_core.codec import decode_event, decode_message
from stores_core.errors import CorruptRecordError
from stores_core.findings import Findings, damage
from stores_core.limits import PAGE_ENTRIES
from stores_core.shape import replaced
from stores_sql.catalog import page, place_of
from stores_sql.headers import StoredRun
from stores_sql.parameters import fixed, given
from stores_sql.results import StoredResult
from stores_sql.sqlite import tool_results
from stores_sql.sqlite.logs import length_of
from stores_sql.sqlite.memory import NAMESPACES_FROM
from stores_sql.sqlite.notes import BEFORE_ALL, Note, find_namespace, listed
from stores_sql.sqlite.orphans import orphans
from stores_sql.sqlite.run_rows import events_of, find, messages_of
from stores_sql.sqlite.runs import ALL_RUNS
from stores_sql.sqlite.statements import Connection, Row, Statement
from stores_sql.sqlite.storage import Tenant
from stores_sql.sqlite.tables import ENTRY_SPAN, MESSAGES, entries, logs, run_ranges, runs

E = TypeVar("E")

_KINDS = ("messages", "events")
_NEXT_LOG = Statement(
    select(logs.c.number, logs.c.id)
    .where(logs.c.tenant == given("tenant"), logs.c.id > given("after"))
    .order_by(logs.c.id)
    .limit(fixed(1))
)
_READER = Statement(
    select(runs.c.id, run_ranges.c.kind, run_ranges.c.start)
    .select_from(run_ranges.join(runs, runs.c.number == run_ranges.c.run))
    .where(run_ranges.c.log == given("log"))
    .order_by(run_ranges.c.length.desc())
    .limit(fixed(1))
)
_ENTRIES = Statement(
    select(entries.c.body)
    .where(entries.c.place >= given("first"), entries.c.place < given("last"))
    .order_by(entries.c.place)
)

PAGE = 100
"""So many records are read in one snapshot, so that none is held open for long."""


async def _read(
    tenant: Tenant,
    findings: Findings,
    work: Callable[[Connection, int], E],
    otherwise: E,
    problem: Problem,
) -> E:
    """What ``work`` reads; where SQLite cannot read on, ``otherwise`` and a problem."""
    try:
        return await tenant.read(work)
    except CorruptRecordError as error:
        findings.problems.append(replaced(problem, {"what": str(error)}))
        return otherwise


async def verify(tenant: Tenant) -> tuple[dict[str, int], list[Problem]]:
    """Counts of what was checked and the problems found. Changes nothing."""
    findings = Findings()
    broken = Problem(store="file", id="", what="")
    for text in await _read(tenant, findings, _integrity, [], broken):
        findings.problems.append(replaced(broken, {"what": text}))
    findings.problems += await _read(tenant, findings, orphans, [], broken)
    await _verify_runs(tenant, findings)
    await _verify_logs(tenant, findings)
    await _verify_notes(tenant, findings)
    await _verify_results(tenant, findings)
    return dict(findings.checked), findings.problems


def _integrity(connection: Connection, _: int) -> list[str]:
    """SQLite's own complaints about pages, tables and indexes: numbers and names of ours."""
    rows = connection.execute("PRAGMA integrity_check(100)").fetchall()
    return [text for (text,) in rows if text != "ok"]


async def _verify_runs(tenant: Tenant, findings: Findings) -> None:
    position, more = "", True
    while more:
        age, id = place_of(position)

        def work(
            connection: Connection, number: int, age: int = age, id: str = id
        ) -> tuple[list[StoredRun], str, int]:
            rows = ALL_RUNS.run(connection, tenant=number, age=age, id=id, most=PAGE + 1)
            return page(rows, StoredRun._make, PAGE, PAGE)

        problem = Problem(store="runs", id=id, what="")
        found, position, _ = await _read(tenant, findings, work, ([], "", 0), problem)
        more = bool(position)
        for run in found:
            findings.checked["runs"] += 1
            findings.check("runs", run.id, run.named)
            missing = partial(_missing_of, run_id=run.id)
            findings.problems += await _read(tenant, findings, missing, [], problem)


def _missing_of(connection: Connection, tenant: int, *, run_id: str) -> list[Problem]:
    run = find(connection, tenant, run_id)
    return [] if run is None else _missing(connection, tenant, run)


def _missing(connection: Connection, tenant: int, run: StoredRun) -> list[Problem]:
    """The places of a run's logs that its ranges promise and no log holds."""
    problems: list[Problem] = []
    for view in (messages_of(run, tenant), events_of(run, tenant)):
        start = 0
        for log, length in view.ranges(connection):
            lacking = length - length_of(connection, log)
            if lacking > 0:
                what = f"{lacking} {_KINDS[view.kind]} are missing from here on"
                position = start + length - lacking
                problems.append(Problem(store="runs", id=run.id, position=position, what=what))
            start += length
        if start != view.count:
            what = f"its ranges hold {start} of {view.count} {_KINDS[view.kind]}"
            problems.append(Problem(store="runs", id=run.id, what=what))
    return problems


async def _verify_logs(tenant: Tenant, findings: Findings) -> None:
    """Each log once, however many runs read it; a problem names the run that reads most of it."""
    after, more, broken = "", True, Problem(store="runs", id="", what="")
    while more:

        def following(connection: Connection, number: int, after: str = after) -> Row | None:
            return _NEXT_LOG.one(connection, tenant=number, after=after)

        row = await _read(tenant, findings, following, None, broken)
        more = row is not None
        if row is not None:
            log, after = row
            await _verify_log(tenant, findings, log)


async def _verify_log(tenant: Tenant, findings: Findings, log: int) -> None:
    start, texts = 0, [b""]
    while texts:

        def work(
            connection: Connection, _: int, start: int = start
        ) -> tuple[Row | None, list[bytes]]:
            first = log * ENTRY_SPAN + start
            rows = _ENTRIES.all(connection, first=first, last=first + PAGE_ENTRIES)
            return _READER.one(connection, log=log), [body for (body,) in rows]

        broken = Problem(store="runs", id="", position=start, what="")
        reader, texts = await _read(tenant, findings, work, (None, []), broken)
        if reader is None:  # nobody reads it any more, or not yet
            return
        run_id, kind, begin = reader
        decode = decode_message if kind == MESSAGES else decode_event
        for position, text in enumerate(texts, begin + start):
            findings.checked["entries"] += 1
            findings.check("runs", run_id, partial(decode, text), position)
        start += len(texts)


async def _verify_notes(tenant: Tenant, findings: Findings) -> None:
    def names(connection: Connection, number: int) -> list[str]:
        return [name for (name,) in NAMESPACES_FROM.all(connection, tenant=number, prefix="")]

    broken = Problem(store="memory", id="", what="")
    for name in await _read(tenant, findings, names, [], broken):
        after, more = BEFORE_ALL, True
        while more:

            def work(
                connection: Connection, number: int, name: str = name, after: Any = after
            ) -> list[Note]:
                namespace = find_namespace(connection, number, name)
                found: list[Note] = []
                for note in () if namespace is None else listed(connection, namespace, after):
                    found.append(note)
                    if len(found) == PAGE:
                        break
                return found

            notes = await _read(tenant, findings, work, [], broken)
            more = len(notes) == PAGE
            for note in notes:
                after = note.place
                findings.checked["notes"] += 1
                findings.check("memory", note.key, note.stored)


async def _verify_results(tenant: Tenant, findings: Findings) -> None:
    position, more = "", True
    while more:
        age, id = place_of(position)

        def work(
            connection: Connection, number: int, age: int = age, id: str = id
        ) -> tuple[list[tuple[str, str]], str]:
            # One at a time, since a result may be large.
            rows = tool_results.ALL_RESULTS.run(connection, tenant=number, age=age, id=id, most=2)
            found, position, _ = page(rows, StoredResult._make, 1, 1)
            return [(stored.ref, _damage(connection, stored)) for stored in found], position

        problem = Problem(store="tool_results", id=id, what="")
        results, position = await _read(tenant, findings, work, ([], ""), problem)
        more = bool(position)
        for ref, what in results:
            findings.checked["tool_results"] += 1
            if what:
                findings.add("tool_results", ref, what)


def _damage(connection: Connection, stored: StoredResult) -> str:
    return damage(stored.named) or damage(partial(tool_results.result_of, connection, stored))
