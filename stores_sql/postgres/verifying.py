"""Reading every record of a tenant, and listing what is damaged."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import ARRAY, BigInteger, and_, func, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on

from stores_core.admin import Problem
from stores_core.codec import decode_event, decode_message
from stores_core.errors import CorruptRecordError, StoreError
from stores_core.findings import Findings, damage
from stores_core.shape import replaced
from stores_sql.catalog import page, place_of
from stores_sql.headers import StoredRun
from stores_sql.parameters import given
from stores_sql.postgres.logs import Both, log_lengths, ranges_of
from stores_sql.postgres.notes import BEFORE_ALL, Note, Place, Spot, listed, names_from
from stores_sql.postgres.orphans import orphans
from stores_sql.postgres.result_rows import result_of
from stores_sql.postgres.run_rows import HEADER
from stores_sql.postgres.runs import ALL_RUNS
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.tables import EVENTS, MESSAGES, entries, logs, run_ranges, runs
from stores_sql.postgres.tool_results import ALL_RESULTS
from stores_sql.results import StoredResult

E = TypeVar("E")

_KINDS = ("messages", "events")
_of_logs = func.any(given("logs", ARRAY(BigInteger)))
_READERS = Statement(
    select(
        logs.c.number,
        logs.c.run,
        run_ranges.c.run,
        run_ranges.c.kind,
        run_ranges.c.start,
    )
    .ext(distinct_on(logs.c.number))
    .select_from(
        logs.outerjoin(
            run_ranges,
            and_(run_ranges.c.tenant == logs.c.tenant, run_ranges.c.log == logs.c.number),
        )
    )
    .where(logs.c.tenant == given("tenant"), logs.c.number == _of_logs)
    .order_by(logs.c.number, run_ranges.c.length.desc())
)
# Without an index: it is asked for where something is damaged.
_RUN = Statement(
    select(*HEADER).where(runs.c.tenant == given("tenant"), runs.c.number == given("run"))
)
_ENTRIES = Statement(
    select(entries.c.log, entries.c.position, entries.c.body)
    .where(
        entries.c.tenant == given("tenant"),
        tuple_(entries.c.log, entries.c.position) > tuple_(given("log"), given("position")),
    )
    .order_by(entries.c.log, entries.c.position)
    .limit(given("most"))
)

PAGE = 100
"""So many records are read in one snapshot, so that none is held open for long."""


async def _read(
    tenant: Tenant,
    findings: Findings,
    work: Callable[[Connection, int], Awaitable[E]],
    otherwise: E,
    problem: Problem,
) -> E:
    """What ``work`` reads; where Postgres cannot read on, ``otherwise`` and a problem."""
    try:
        return await tenant.read(work)
    except CorruptRecordError as error:
        findings.problems.append(replaced(problem, {"what": str(error)}))
        return otherwise


async def verify(tenant: Tenant) -> tuple[dict[str, int], list[Problem]]:
    """Counts of what was checked and the problems found. Changes nothing."""
    findings = Findings()
    await _verify_headers(tenant, findings)
    await _verify_logs(tenant, findings)
    await _verify_notes(tenant, findings)
    await _verify_results(tenant, findings)
    broken = Problem(store="", id="", what="")
    findings.problems += await _read(tenant, findings, orphans, [], broken)
    return dict(findings.checked), findings.problems


async def _verify_headers(tenant: Tenant, findings: Findings) -> None:
    position, more = "", True
    while more:
        age, id = place_of(position)

        async def work(
            connection: Connection, number: int, age: int = age, id: str = id
        ) -> tuple[list[StoredRun], list[Problem], str]:
            rows = await ALL_RUNS.all(connection, name=tenant.name, age=age, id=id, most=PAGE + 1)
            found, position, _ = page(rows, StoredRun._make, PAGE, PAGE)
            ranges = await ranges_of(connection, number, found)
            used = {log for both in ranges.values() for part in both for log, _ in part}
            lengths = await log_lengths(connection, number, used)
            missing = [
                problem for run in found for problem in _missing(run, ranges[run.number], lengths)
            ]
            return found, missing, position

        problem = Problem(store="runs", id=id, what="")
        nothing: tuple[list[StoredRun], list[Problem], str] = [], [], ""
        found, missing, position = await _read(tenant, findings, work, nothing, problem)
        more = bool(position)
        findings.problems += missing
        for run in found:
            findings.checked["runs"] += 1
            findings.check("runs", run.id, run.named)


def _missing(run: StoredRun, both: Both, lengths: Mapping[int, int]) -> Iterator[Problem]:
    """The places of a run's logs that its ranges promise and no log holds."""
    for kind, ranges in enumerate(both):
        start = 0
        for log, length in ranges:
            lacking = length - lengths.get(log, 0)
            if lacking > 0:
                what = f"{lacking} {_KINDS[kind]} are missing from here on"
                position = start + length - lacking
                yield Problem(store="runs", id=run.id, position=position, what=what)
            start += length
        count = run.event_count if kind == EVENTS else run.message_count
        if start != count:
            what = f"its ranges hold {start} of {count} {_KINDS[kind]}"
            yield Problem(store="runs", id=run.id, what=what)


class _Reader(NamedTuple):
    """The run that reads most of a log, what it reads there, and where the log begins in it.

    ``start`` is -1 where the run writes to the log itself.
    """

    run: int
    kind: int
    start: int


class _Found(NamedTuple):
    """A page of entries, of several logs, and who reads these; nobody reads the others yet."""

    entries: list[tuple[int, int, str]]
    readers: dict[int, _Reader]


async def _verify_logs(tenant: Tenant, findings: Findings) -> None:
    """Each log once, however many runs read it; a problem names the run that reads most of it."""
    log, position, more = -1, -1, True
    while more:

        async def work(
            connection: Connection, number: int, log: int = log, position: int = position
        ) -> _Found:
            rows = await _ENTRIES.all(
                connection, tenant=number, log=log, position=position, most=PAGE
            )
            found = [(row[0], row[1], row[2]) for row in rows]
            used = list({log for log, _, _ in found})
            readers = await _READERS.all(connection, tenant=number, logs=used)
            return _Found(found, {row[0]: _reader(*row) for row in readers if row[1] or row[2]})

        broken = Problem(store="runs", id="", position=position, what="")
        found = await _read(tenant, findings, work, _Found([], {}), broken)
        more = len(found.entries) == PAGE
        for entry in found.entries:
            expected = position + 1 if entry[0] == log else 0
            log, position, body = entry
            reader = found.readers.get(log)
            if reader is not None:
                await _verify_entry(tenant, findings, reader, expected, position, body)


def _reader(log: int, owner: int, run: int, kind: int, start: int) -> _Reader:
    # The number of a log that a run writes to says what it holds.
    return _Reader(owner, log % 2, -1) if owner else _Reader(run, kind, start)


async def _verify_entry(
    tenant: Tenant,
    findings: Findings,
    reader: _Reader,
    expected: int,
    position: int,
    body: str,
) -> None:
    findings.checked["entries"] += 1
    what = damage(partial(decode_message if reader.kind == MESSAGES else decode_event, body))
    if position != expected:
        what = f"{position - expected} entries are missing before this one"
    if what:
        run_id, start = await _place_in_run(tenant, reader)
        findings.add("runs", run_id, what, start + position)


async def _place_in_run(tenant: Tenant, reader: _Reader) -> tuple[str, int]:
    """The id of the run, and where the log begins in it."""

    async def work(connection: Connection, number: int) -> StoredRun | None:
        row = await _RUN.one(connection, tenant=number, run=reader.run)
        return None if row is None else StoredRun._make(row)

    run = await tenant.read(work)
    if run is None:
        return "", 0
    if reader.start >= 0:
        return run.id, reader.start
    return run.id, run.event_start if reader.kind == EVENTS else run.message_start


async def _verify_notes(tenant: Tenant, findings: Findings) -> None:
    after, broken = None, Problem(store="memory", id="", what="")
    while True:

        async def following(connection: Connection, _: int, after: str | None = after) -> list[str]:
            return await names_from(connection, tenant.name, "", 1, after)

        names = await _read(tenant, findings, following, list[str](), broken)
        if not names:
            return
        after = names[0]
        await _verify_namespace(tenant, findings, Spot(tenant.name, after))


async def _verify_namespace(tenant: Tenant, findings: Findings, spot: Spot) -> None:
    after, more = BEFORE_ALL, True
    while more:

        async def work(connection: Connection, _: int, after: Place = after) -> list[Note]:
            return await listed(connection, spot, after, most=PAGE)

        broken = Problem(store="memory", id="", what="")
        found = await _read(tenant, findings, work, [], broken)
        more = len(found) == PAGE
        for note in found:
            after = note.place
            findings.checked["notes"] += 1
            findings.check("memory", note.key, note.stored)


async def _verify_results(tenant: Tenant, findings: Findings) -> None:
    async def damage_of(connection: Connection, stored: StoredResult) -> str:
        try:
            stored.named()
            await result_of(connection, tenant.name, stored.ref)
        except StoreError as error:
            return str(error)
        return ""

    position, more = "", True
    while more:
        age, id = place_of(position)

        async def work(
            connection: Connection, _: int, age: int = age, id: str = id
        ) -> tuple[list[tuple[str, str]], str]:
            # One at a time, since a result may be large.
            rows = await ALL_RESULTS.all(connection, name=tenant.name, age=age, id=id, most=2)
            found, position, _ = page(rows, StoredResult._make, 1, 1)
            return [(one.ref, await damage_of(connection, one)) for one in found], position

        problem = Problem(store="tool_results", id=id, what="")
        results, position = await _read(tenant, findings, work, ([], ""), problem)
        more = bool(position)
        for ref, what in results:
            findings.checked["tool_results"] += 1
            if what:
                findings.add("tool_results", ref, what)
