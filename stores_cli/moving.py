"""``copy``: what a backend holds, into another; and what is said of anything that moves."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from typer import Argument, Option

from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import AllTenants, Json, Tenant, since_option
from stores_cli.output import Output
from stores_cli.target import Target
from stores_cli.transfer import Names, Selection, Tally, move, notes_of, read, results_of, runs_of
from stores_cli.urls import opened
from stores_cli.watching import Watch
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError, SchemaVersionError
from stores_core.opening import open_backend
from stores_core.revisions import State
from stores_core.walking import pages

commands = group()

SHOWN = 20
"""So many names of runs are shown; JSON has more."""

Report = dict[str, Any]

Runs = Annotated[
    list[str] | None,
    Option("--run", metavar="RUN", help="Only this run, without notes and results; repeatable."),
]
Since = Annotated[
    str, Option("--since", metavar="TIME", help="Only what was written to since then; as 7d too.")
]
Source = Annotated[str, Argument(metavar="SRC", help="The backend to read.")]
Destination = Annotated[str, Argument(metavar="DST", help="The backend to write to.")]


def selection_of(runs: list[str] | None, since: str) -> Selection:
    """What the options ask for."""
    return Selection(frozenset(runs or ()), since_option(since, "--since", datetime.now(UTC)))


@command(commands, "copy", example="copy sqlite:agent.db postgresql://app@db.internal/agents")
async def copy(
    source: Source,
    target: Destination,
    tenant: Tenant = "",
    all_tenants: AllTenants = False,
    run: Runs = None,
    since: Since = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Count, and write nothing.")] = False,
    json: Json = False,
) -> int:
    """Copy everything from one backend to another, of any kind.

    Runs, notes and tool results are brought with their times, labels, keys, versions and vectors,
    and forks go on sharing their prefixes. Repeat the command after an interruption, or to bring
    what was written since: nothing is doubled. SRC may be in use: each run is copied whole, as it
    was at one instant.

    Ends with 1 where another run stood at an id, or one was deleted meanwhile.
    """
    output, selection = Output(json=json), selection_of(run, since)
    names = await wanted_tenants(source, tenant, every=all_tenants)
    reports: list[Report] = []
    for name in names:
        async with (
            opened(source, tenant=name) as here,
            _target(target, name, dry_run=dry_run) as there,
        ):
            if here.opened.identity == there.opened.identity:
                raise InvalidRequestError(
                    field="DST", found="the storage that SRC is too", allowed="another one"
                )
            await ensure_there(here, selection)
            tally = Tally()
            work = _count if dry_run else _copy
            await work(here, there, selection, tally, output)
            reports.append(tally_report(name, tally, dry_run=dry_run))
    show_copied(output, reports)
    fine = not any(report["conflicts"] or report["gone"] for report in reports)
    return Exit.FINE if fine else Exit.FOUND


@asynccontextmanager
async def _target(url: str, tenant: str, *, dry_run: bool) -> AsyncGenerator[Backend]:
    async with AsyncExitStack() as opening:
        try:
            there = await opening.enter_async_context(
                opened(url, tenant=tenant, create=not dry_run)
            )
        except SchemaVersionError as error:
            if error.state != State.ABSENT:
                raise
            # Counted as against an empty one, so that none is made.
            there = await opening.enter_async_context(open_backend("memory:"))
        yield there


async def tenants_of(url: str) -> list[str]:
    """All tenants that hold data."""
    async with opened(url) as backend:
        return [name async for page in pages(backend.admin.list_tenants) for name in page.tenants]


async def wanted_tenants(url: str, tenant: str, *, every: bool) -> list[str]:
    """The one that an option names, or all. Raises InvalidRequestError where both are asked for."""
    if not every:
        return [tenant]
    if tenant:
        raise InvalidRequestError(
            field="--all-tenants", found="--tenant beside it", allowed="one of them"
        )
    return await tenants_of(url)


async def ensure_there(source: Backend, selection: Selection) -> None:
    """Raises InvalidRequestError for a run that is asked for and is not there."""
    for id in sorted(selection.runs):
        if not (await source.runs.get_run(run_id=id)).found:
            raise InvalidRequestError(
                field="--run", found=f"no run {id!r}", allowed="one that `runs list` shows"
            )


async def _copy(
    source: Backend, target: Backend, selection: Selection, tally: Tally, output: Output
) -> None:
    watch, sink = Watch(), Target(target, tally)
    with output.progress("copying") as step:
        await move(watch.over(read(source, selection, sink, tally)), sink, step)
        await watch.name_moved(source, selection, tally.moved)


async def _count(
    source: Backend, target: Backend, selection: Selection, tally: Tally, output: Output
) -> None:
    """As `_copy`, with reads alone: what is there is told by headers and lengths of logs."""
    counts, sink = tally.counts, Target(target, tally)
    with output.progress("counting") as step:
        async for run in runs_of(source.moving, selection):
            counts["runs"] += 1
            standing = (await target.runs.get_run(run_id=run.info.id)).info
            outcome = "created" if standing is None else "updated"
            counts["same" if standing == run.info else outcome] += 1
            for part in (*run.messages, *run.events):
                there = await sink.reached(part.log)
                counts["entries"] += max(0, part.length - there)
                sink.lengths.set(part.log, max(there, part.length))
            step(1)
        if not selection.runs:
            async for notes in notes_of(source.moving, selection, sink):
                counts["notes"] += len(notes.memories)
            async for results in results_of(source.moving, selection, sink):
                counts["results"] += len(results.results)


def tally_report(tenant: str, tally: Tally, *, dry_run: bool = False) -> Report:
    """A tally as a report."""
    report: Report = {"tenant": tenant, "dryRun": dry_run, **tally.counts}
    for name in ("conflicts", "moved", "gone"):
        names: Names = getattr(tally, name)
        report[name] = names.count
        report[f"{name}Runs"] = names.first
    return report


_MEANINGS = {
    "conflicts": "another run, or one that was written to there, stands at the id; left alone",
    "moved": "written to meanwhile; whole as at one instant, repeat the command to bring the rest",
    "gone": "deleted or laid out anew meanwhile; repeat the command",
}


def show_copied(output: Output, reports: Sequence[Report]) -> None:
    """What was copied, tenant by tenant."""
    if output.json:
        output.document({"tenants": list(reports)})
        return
    names = (*Tally().counts, *_MEANINGS)
    if len(reports) == 1:
        output.table(("what", "count"), [(name, reports[0][name]) for name in names])
    else:
        rows = [[report["tenant"], *(report[name] for name in names)] for report in reports]
        output.table(("tenant", *names), rows)
    for report in reports:
        for name, meaning in _MEANINGS.items():
            runs: list[str] = report[f"{name}Runs"]
            if runs:
                output.line(f"{name} ({meaning}):")
                for run in runs[:SHOWN]:
                    output.line(f"  {run}")
                if report[name] > SHOWN:
                    output.line(f"  and {report[name] - SHOWN} more")
