"""``copy`` and ``export``: what a backend holds, into another or into an archive."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from stores_cli import archive
from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, Tenant, Url, since_option
from stores_cli.output import Output
from stores_cli.paging import pages
from stores_cli.target import Target
from stores_cli.transfer import Names, Selection, Tally, move, read, runs_of
from stores_cli.urls import opened
from stores_cli.watching import Watch
from stores_core.backend import Backend
from stores_core.errors import InvalidRequestError

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
    all_tenants: Annotated[
        bool, Option("--all-tenants", help="One tenant after the other.")
    ] = False,
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
    names = await tenants_of(source) if all_tenants else [tenant]
    reports: list[Report] = []
    for name in names:
        async with opened(source, tenant=name) as here, opened(target, tenant=name) as there:
            if here.opened.identity == there.opened.identity:
                raise InvalidRequestError(
                    field="DST", found="the storage that SRC is too", allowed="another one"
                )
            await _ensure_there(here, selection)
            tally = Tally()
            work = _count if dry_run else _copy
            await work(here, there, selection, tally, output)
            reports.append(tally_report(name, tally, dry_run=dry_run))
    show_copied(output, reports)
    fine = not any(report["conflicts"] or report["gone"] for report in reports)
    return Exit.FINE if fine else Exit.FOUND


async def tenants_of(url: str) -> list[str]:
    """All tenants that hold data."""
    async with opened(url) as backend:
        return [name async for page in pages(backend.admin.list_tenants) for name in page.tenants]


async def _ensure_there(source: Backend, selection: Selection) -> None:
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
        await move(watch.over(read(source, selection, sink.reached, tally)), sink, step)
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
            async for notes in pages(source.moving.export_memories):
                counts["notes"] += sum(map(selection.takes_note, notes.memories))
            async for results in pages(source.moving.export_tool_results):
                counts["results"] += sum(map(selection.takes_result, results.results))


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


@command(commands, "export", example="export sqlite:agent.db --output agent.jsonl.zst")
async def export(
    url: Url = "",
    output_file: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Default: a new name in this folder."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace the file if it is there.")] = False,
    tenant: Tenant = "",
    run: Runs = None,
    since: Since = "",
    json: Json = False,
) -> int:
    """Write everything of a tenant into one portable file.

    The file holds JSON lines, compressed with zstd, is for its owner alone and bears its name once
    it is whole; an export that was interrupted is begun anew. `import` puts it into any backend.
    """
    output, selection, tally = Output(json=json), selection_of(run, since), Tally()
    path = output_file or Path(f"agent-stores-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl.zst")
    async with opened(url, tenant=tenant) as source:
        await _ensure_there(source, selection)
        watch = Watch()
        with archive.written(path, replace=force) as file, output.progress("exporting") as step:
            writer = archive.Writer(file, tally)
            writer.begin(source.name)
            await move(watch.over(read(source, selection, writer.reached, tally)), writer, step)
        await watch.name_moved(source, selection, tally.moved)
    report = {"file": str(path), "bytes": path.stat().st_size, **tally_report(tenant, tally)}
    if json:
        output.document(report)
    else:
        kinds = ("runs", "entries", "notes", "results")
        columns = ("file", "bytes", *kinds, "moved", "gone")
        output.table(columns, [[report[name] for name in columns]])
    return Exit.FOUND if report["gone"] else Exit.FINE
