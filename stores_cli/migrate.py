"""``migrate``: the stored format of a backend, up and down, the plan first."""

from typing import Annotated

from typer import Option

from stores_cli.asking import agreed
from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, Url, Yes
from stores_cli.output import Output
from stores_cli.urls import opened
from stores_core.admin import PlanMigrationResponse
from stores_core.errors import SchemaVersionError

commands = group("migrate", "Bring a backend's stored format to this code's, or back.")

A_DAY = 86_400.0
"""An index on large tables takes its time."""

Target = Annotated[
    str, Option("--to", metavar="REVISION", help="A revision, as 1; default: this code's.")
]


@command(commands, "status", example="migrate status postgresql://app@db.internal/agents")
async def status(url: Url = "", json: Json = False) -> int:
    """Show the stored format, this code's, and the steps between. Ends with 1 if there are any.

    Changes nothing, also where nothing is set up yet.
    """
    output = Output(json=json)
    try:
        async with opened(url) as backend:
            check, plan = await backend.admin.check(), await backend.admin.plan_migration()
    except SchemaVersionError as error:
        if not error.state:
            raise
        return _show_refused(output, error)
    if json:
        versions, state = dict(check.versions), check.schema_state
        output.document({"state": state, "versions": versions, "steps": list(plan.steps)})
    else:
        output.table(("what", "found"), [("state", check.schema_state), *check.versions.items()])
        _show_plan(output, plan)
    fine = check.schema_state == "current" and not plan.steps
    return Exit.FINE if fine else Exit.FOUND


@command(commands, "up", example="migrate up sqlite:agent.db --yes")
async def up(url: Url = "", to: Target = "", yes: Yes = False, json: Json = False) -> int:
    """Take the steps to this code's revision, or to another one, after showing them.

    Any number of processes may do so at once; a step that was cut off can be taken again.
    """
    return await _migrate(url, to, yes=yes, output=Output(json=json), create=True)


@command(commands, "down", example="migrate down sqlite:agent.db --to 1 --yes")
async def down(
    to: Annotated[str, Option("--to", metavar="REVISION", help="The older revision, as 1.")],
    url: Url = "",
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Take the steps back to an older revision, after showing them. The data is kept."""
    return await _migrate(url, to, yes=yes, output=Output(json=json), create=False)


@command(commands, "sql", example="migrate sql postgresql://app@db.internal/agents > steps.sql")
async def sql(url: Url = "", to: Target = "", json: Json = False) -> int:
    """Print the steps as a script, for where only a DBA may change tables. Changes nothing."""
    output = Output(json=json)
    async with opened(url) as backend:
        plan = await backend.admin.plan_migration(target=to, sql=True)
    if json:
        output.document({"steps": list(plan.steps), "advice": list(plan.advice), "sql": plan.sql})
    elif plan.sql:
        output.line(plan.sql, lines=True)
    for step in () if plan.sql else plan.steps:
        output.beside(f"no script does this: {step}")
    if not plan.steps:
        output.beside("there is nothing to do")
    return Exit.FINE if plan.sql or not plan.steps else Exit.FOUND


def _show_refused(output: Output, error: SchemaVersionError) -> int:
    """The state of what cannot be opened, and why."""
    if output.json:
        output.document({"state": error.state, "versions": {}, "steps": [], "why": str(error)})
    else:
        output.table(("what", "found"), [("state", error.state)])
        output.line(str(error))
    return Exit.FOUND


async def _migrate(url: str, target: str, *, yes: bool, output: Output, create: bool) -> int:
    async with opened(url, create=create) as backend:
        plan = await backend.admin.plan_migration(target=target)
        applied: list[str] = []
        if not output.json:
            _show_plan(output, plan)
        if plan.steps:
            if not agreed("Take these steps?", yes=yes):
                return Exit.FOUND
            with output.progress("migrating"):
                applied += (await backend.admin.migrate(target=target, timeout=A_DAY)).applied
    if output.json:
        output.document({"steps": list(plan.steps), "applied": applied})
    elif applied:
        output.line(f"{len(applied)} steps taken")
    return Exit.FINE


def _show_plan(output: Output, plan: PlanMigrationResponse) -> None:
    for advice in plan.advice:
        output.line(f"before: {advice}")
    for step in plan.steps:
        output.line(f"step: {step}")
    if not plan.steps:
        output.line("there is nothing to do")
