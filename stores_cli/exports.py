"""``export``: what a backend holds, into one portable archive."""

import hashlib
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Option

from stores_cli.archiving import Archive, written
from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.moving import (
    Report,
    Runs,
    Since,
    ensure_there,
    selection_of,
    tally_report,
    wanted_tenants,
)
from stores_cli.options import AllTenants, Json, Tenant, Url
from stores_cli.output import Advance, Output
from stores_cli.transfer import Selection, move, read
from stores_cli.urls import opened
from stores_cli.watching import Watch
from stores_core.backend import Backend
from stores_core.codec import encode_json

commands = group()


@command(commands, "export", example="export sqlite:agent.db --output agent.jsonl.zst")
async def export(
    url: Url = "",
    output_file: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Default: a new name in this folder."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace the file if it is there.")] = False,
    tenant: Tenant = "",
    all_tenants: AllTenants = False,
    run: Runs = None,
    since: Since = "",
    json: Json = False,
) -> int:
    """Write everything of a tenant, or of all, into one portable file.

    The file holds JSON lines, compressed with zstd, and is for its owner alone. Until it is whole
    it is named FILE.part: after an interruption the same command, with --output, goes on with it.
    `import` puts the file into any backend.
    """
    output, selection = Output(json=json), selection_of(run, since)
    path = output_file or Path(f"agent-stores-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl.zst")
    names = await wanted_tenants(url, tenant, every=all_tenants)
    reports: list[Report] = []
    async with opened(url, tenant=tenant) as source:
        await ensure_there(source, selection)
        of = _of(source, selection, all_tenants=all_tenants)
        header = {"backend": source.name, "of": of}
        with written(path, header, replace=force) as file, output.progress("exporting") as step:
            resumed = file.resumed
            for name in names:
                if all_tenants:
                    file.begin(name)
                within = opened(url, tenant=name) if all_tenants else nullcontext(source)
                async with within as part:
                    await _export(part, selection, file, step)
                reports.append(tally_report(name, file.tally))
    _show(output, path, reports, resumed=resumed)
    return Exit.FOUND if any(report["gone"] for report in reports) else Exit.FINE


def _of(source: Backend, selection: Selection, *, all_tenants: bool) -> str:
    """A digest of what is exported. An archive that was begun goes on where it is equal."""
    since = selection.since and selection.since.isoformat()
    asked = [source.opened.identity, all_tenants, sorted(selection.runs), since]
    return hashlib.blake2b(encode_json(asked), digest_size=16).hexdigest()


async def _export(source: Backend, selection: Selection, file: Archive, step: Advance) -> None:
    watch, tally = Watch(), file.tally
    await move(watch.over(read(source, selection, file, tally)), file, step)
    await watch.name_moved(source, selection, tally.moved)


def _show(output: Output, path: Path, reports: list[Report], *, resumed: bool) -> None:
    written = {"file": str(path), "bytes": path.stat().st_size, "resumed": resumed}
    if output.json:
        output.document({**written, "tenants": reports})
        return
    output.table(tuple(written), [list(written.values())])
    columns = ("tenant", "runs", "entries", "notes", "results", "moved", "gone")
    output.table(columns, [[report[name] for name in columns] for report in reports])
