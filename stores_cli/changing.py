"""``runs label | delete | prune``: what changes runs or takes them away."""

from typing import Annotated

from typer import Option

from stores_cli.asking import agreed
from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, LabelFilter, RunId, Tenant, Url, Yes, pairs
from stores_cli.output import Output, moment, printable
from stores_cli.runs import absent, filtered
from stores_cli.urls import opened
from stores_core.errors import InvalidRequestError

commands = group()

SHOWN = 20


@command(commands, "label", example="runs label t-7 sqlite:agent.db --set kept=yes --remove draft")
async def label(
    run: RunId,
    url: Url = "",
    tenant: Tenant = "",
    set: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a label; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, Option("--remove", metavar="KEY", help="Remove a label; repeatable.")
    ] = None,
    json: Json = False,
) -> int:
    """Set and remove labels of a run. Others stay, whoever changes them at the same time."""
    output = Output(json=json)
    labels: dict[str, str | None] = {**pairs(set, "--set"), **dict.fromkeys(remove or ())}
    if not labels:
        raise InvalidRequestError(
            field="--set", found="nothing to change", allowed="--set KEY=VALUE or --remove KEY"
        )
    async with opened(url, tenant=tenant) as backend:
        found = (await backend.runs.update_run(run_id=run, labels=labels)).found
    if json:
        output.document({"found": found})
    elif not found:
        return absent(output, run)
    return Exit.FINE if found else Exit.FOUND


@command(commands, "delete", example="runs delete t-7 sqlite:agent.db --yes")
async def delete(
    run: RunId, url: Url = "", tenant: Tenant = "", yes: Yes = False, json: Json = False
) -> int:
    """Delete a run. Its forks stay whole; `sweep` frees what nobody refers to any more.

    Ends with 1 where there is no such run.
    """
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        if not agreed(f"Delete the run {printable(run)}?", yes=yes):
            return Exit.FOUND
        deleted = (await backend.runs.delete_run(run_id=run)).deleted
    if json:
        output.document({"deleted": deleted})
    elif not deleted:
        return absent(output, run)
    return Exit.FINE if deleted else Exit.FOUND


@command(commands, "prune", example="runs prune sqlite:agent.db --idle-for 90d --label kind=test")
async def prune(
    url: Url = "",
    tenant: Tenant = "",
    label: LabelFilter = None,
    idle_for: Annotated[
        str, Option("--idle-for", metavar="AGE", help="Those not written to for so long, as 90d.")
    ] = "",
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Delete runs by labels and age. Without --yes this shows which, and deletes nothing.

    A run that is written to meanwhile stays. Forks of what is deleted stay whole.
    """
    output = Output(json=json)
    if not label and not idle_for:
        raise InvalidRequestError(
            field="--label",
            found="neither labels nor an age, which would be every run",
            allowed="--label KEY=VALUE or --idle-for AGE",
        )
    found = deleted = kept = messages = 0
    first: list[tuple[str, str, int]] = []
    async with opened(url, tenant=tenant) as backend:
        with output.progress("pruning") as step:
            async for info in filtered(backend, label, "", idle_for):
                found += 1
                messages += info.message_count
                if len(first) < SHOWN:
                    first.append((info.id, moment(info.updated_at), info.message_count))
                if yes:
                    done = await backend.runs.delete_run(
                        run_id=info.id,
                        expected_messages=info.message_count,
                        expected_events=info.event_count,
                    )
                    deleted += done.deleted
                    kept += done.conflict
                step(1)
    if json:
        counts = {"found": found, "messages": messages, "deleted": deleted, "kept": kept}
        output.document({**counts, "first": [id for id, _, _ in first]})
        return Exit.FINE
    output.table(("run", "updated", "messages"), first)
    if found > len(first):
        output.line(f"and {found - len(first)} more")
    if yes:
        output.line(
            f"{deleted} of {found} deleted" + (f", {kept} written to meanwhile" if kept else "")
        )
    else:
        output.line(f"{found} runs with {messages} messages; --yes deletes them")
    return Exit.FINE
