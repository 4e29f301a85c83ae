"""``doctor``: whether a backend can be reached and trusted, and what to do where it cannot."""

import time
from typing import Any, cast

from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, Tenant, Url
from stores_cli.output import Output, json_of
from stores_cli.urls import opened, shown, url_or_default
from stores_core.errors import SchemaVersionError
from stores_core.revisions import State

commands = group()

ADVICE = {
    State.BEHIND: "the stored format is older than this code: run `agent-stores migrate up`",
    State.AHEAD: "the stored format is newer than this code: update agent-stores",
    State.ABSENT: "nothing is set up here yet: run `agent-stores migrate up`",
    State.FOREIGN: "something else stands here: name another place",
}


@command(commands, "doctor", example="doctor postgresql://app@db.internal/agents")
async def doctor(url: Url = "", tenant: Tenant = "", json: Json = False) -> int:
    """Reach a backend and say what is wrong with it.

    Shows versions, the state of the stored format, settings, and the durability as found.
    Each warning says what to do about it. Ends with 1 where there is one.
    """
    output, begin = Output(json=json), time.monotonic()
    facts: dict[str, Any] = {"url": shown(url_or_default(url))}
    warnings: list[str] = []
    try:
        async with opened(url, tenant=tenant) as backend:
            facts |= {
                "backend": backend.name,
                "offers": sorted(backend.offered),
                "capabilities": sorted(backend.capabilities),
                "durability": backend.durability,
                "openedInSeconds": round(time.monotonic() - begin, 3),
            }
            if "admin" in backend.offered:
                check = await backend.admin.check()
                facts |= json_of(check)
                if check.schema_state in ADVICE:
                    warnings.append(ADVICE[State(check.schema_state)])
                warnings += check.warnings
            else:
                warnings.append("the backend offers no admin, so nothing more can be checked")
    except SchemaVersionError as error:  # reached, and what stands there cannot be opened
        if not error.state:
            raise
        facts["schemaState"] = error.state
        warnings += [ADVICE[State(error.state)], str(error)]
    facts["warnings"] = warnings
    if json:
        output.document(facts)
    else:
        output.table(("what", "found"), _rows(facts))
        for warning in warnings:
            output.line(f"warning: {warning}")
        if not warnings:
            output.line("nothing to mend")
    return Exit.FOUND if warnings else Exit.FINE


def _rows(facts: dict[str, Any]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in facts.items():
        if name == "warnings":
            continue
        if isinstance(value, dict):
            inner = cast("dict[str, object]", value)
            rows += [(f"{name}: {key}", item) for key, item in inner.items()]
        elif isinstance(value, list):
            rows.append((name, ", ".join(cast("list[str]", value))))
        else:
            rows.append((name, value))
    return rows
