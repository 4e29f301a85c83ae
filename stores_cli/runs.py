"""``runs list | show | tail``: which runs there are, and what was said in one."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from typer import Option

from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import (
    Json,
    LabelFilter,
    Limit,
    RunId,
    Tenant,
    Url,
    pairs,
    since_option,
)
from stores_cli.output import Output, json_of, moment
from stores_cli.paging import PAGE
from stores_cli.reading import entries, page_of
from stores_cli.transcript import event_lines, message_lines
from stores_cli.urls import opened
from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.runs import RunInfo
from stores_core.values import system_clock
from stores_core.walking import pages

commands = group()

Full = Annotated[bool, Option("--full", help="Do not cut long texts.")]
WithEvents = Annotated[bool, Option("--events", help="The event log too.")]

LISTED = ("run", "created", "updated", "messages", "events", "labels", "forked from")


@command(commands, "list", example="runs list sqlite:agent.db --label user=ada --idle-for 30d")
async def list_(
    url: Url = "",
    tenant: Tenant = "",
    label: LabelFilter = None,
    parent: Annotated[str, Option("--parent", metavar="RUN", help="Only its forks.")] = "",
    idle_for: Annotated[
        str, Option("--idle-for", metavar="AGE", help="Only those not written to for so long.")
    ] = "",
    limit: Limit = 50,
    json: Json = False,
) -> int:
    """List runs, newest first."""
    output = Output(json=json)
    async with (
        opened(url, tenant=tenant) as backend,
        aclosing(filtered(backend, label, parent, idle_for)) as found,
    ):
        infos: list[RunInfo] = []
        more = False
        async for info in found:
            more = len(infos) == limit
            if more:
                break
            infos.append(info)
    if json:
        output.document({"runs": [json_of(info) for info in infos], "more": more})
        return Exit.FINE
    output.table(LISTED, [_row(info) for info in infos])
    if more:
        output.beside(f"there are more; --limit {limit * 10} shows more of them")
    return Exit.FINE


async def filtered(
    backend: Backend, label: list[str] | None, parent: str, idle_for: str
) -> AsyncGenerator[RunInfo]:
    """The runs that the options ask for, newest first."""
    fields: dict[str, Any] = {"labels": pairs(label, "--label")}
    if parent:
        fields["parent_id"] = parent
    if idle_for:
        fields["updated_before"] = since_option(idle_for, "--idle-for", system_clock())
    async for page in pages(backend.runs.list_runs, **fields):
        for info in page.runs:
            yield info


def _row(info: RunInfo) -> tuple[object, ...]:
    labels = " ".join(f"{key}={value}" for key, value in info.labels.items())
    origin = f"{info.parent_id} at {info.fork_point}" if info.parent_id else ""
    return (
        info.id, moment(info.created_at), moment(info.updated_at), info.message_count,
        info.event_count, labels, origin,
    )  # fmt: skip


def absent(output: Output, run_id: str) -> int:
    """Say that there is no such run."""
    output.beside(f"there is no run {run_id}")
    return Exit.FOUND


@command(commands, "show", example="runs show t-7 sqlite:agent.db --last 20")
async def show(
    run: RunId,
    url: Url = "",
    tenant: Tenant = "",
    start: Annotated[int, Option("--start", min=0, metavar="N", help="From message N on.")] = 0,
    last: Annotated[int | None, Option("--last", min=0, metavar="N", help="The newest N.")] = None,
    limit: Annotated[int | None, Option("--limit", min=0, metavar="N", help="At most N.")] = None,
    events: WithEvents = False,
    full: Full = False,
    json: Json = False,
) -> int:
    """Show one run as a transcript; with --json a line for the run, each message and each event."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        info = (await backend.runs.get_run(run_id=run)).info
        if info is None:
            return absent(output, run)
        if json:
            output.document({"run": json_of(info)})
        else:
            output.table(LISTED, [_row(info)])
        kinds = {"messages": info.message_count, "events": info.event_count if events else 0}
        for kind, count in kinds.items():
            first = max(0, count - last) if last is not None else min(start, count)
            end = count if limit is None else min(count, first + limit)
            async for position, entry in entries(backend.runs, run, kind, first, end):
                print_entry(output, position, entry, full=full)
    return Exit.FINE


def print_entry(output: Output, position: int, entry: Message | Event, *, full: bool) -> None:
    """One message or event: as text, or as a line of JSON with its position."""
    kind = "message" if isinstance(entry, Message) else "event"
    if output.json:
        output.document({"position": position, kind: json_of(entry)})
    elif isinstance(entry, Message):
        for line in message_lines(position, entry, full=full):
            output.line(line, lines=True)
    else:
        for line in event_lines(position, entry, full=full):
            output.line(line, lines=True)


@command(commands, "tail", example="runs tail t-7 redis://cache.internal/0 --events")
async def tail(
    run: RunId,
    url: Url = "",
    tenant: Tenant = "",
    last: Annotated[int, Option("--last", min=0, metavar="N", help="Begin with N old ones.")] = 10,
    events: WithEvents = False,
    every: Annotated[
        float, Option("--every", min=0.05, metavar="SECONDS", help="How often to look.")
    ] = 0.5,
    idle: Annotated[
        float, Option("--idle", min=0, metavar="SECONDS", help="End when so long nothing came.")
    ] = 0,
    full: Full = False,
    json: Json = False,
) -> int:
    """Follow a run live: print what is appended, until Ctrl-C. Ends with 1 once it is deleted."""
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        info = (await backend.runs.get_run(run_id=run)).info
        if info is None:
            return absent(output, run)
        seen = {"messages": max(0, info.message_count - last)}
        if events:
            seen["events"] = max(0, info.event_count - last)
        quiet_since = time.monotonic()
        while True:
            for kind, start in seen.items():
                page = await page_of(backend.runs, run, kind, start, PAGE)
                for position, entry in enumerate(page.entries, start):
                    print_entry(output, position, entry, full=full)
                if page.entries:
                    quiet_since = time.monotonic()
                seen[kind] = page.next
            output.flush()
            if idle and time.monotonic() - quiet_since >= idle:
                return Exit.FINE
            await asyncio.sleep(every)
