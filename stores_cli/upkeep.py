"""``sweep``, ``verify`` and ``tenants``: what an operator does with one storage, or with two."""

from dataclasses import asdict
from typing import Annotated, Any

from typer import Argument, Option

from stores_cli.asking import agreed
from stores_cli.commands import command, group
from stores_cli.comparing import Comparing, Comparison
from stores_cli.exits import Exit
from stores_cli.moving import Runs, Since, selection_of, tenants_of, wanted_tenants
from stores_cli.options import AllTenants, Json, Tenant, Url, Yes
from stores_cli.output import Output, json_of, printable
from stores_cli.transfer import Selection
from stores_cli.urls import opened
from stores_core.admin import VerifyResponse

commands = group()

BUDGET = 10_000
"""Records that one step of a sweep looks at: a step is short, and Ctrl-C waits for no more."""

A_DAY = 86_400.0


@command(commands, "sweep", example="sweep redis://cache.internal/0 --tenant shop")
async def sweep(url: Url = "", tenant: Tenant = "", json: Json = False) -> int:
    """Free what nothing can reach and what retention gives up.

    It works in small steps beside readers and writers, and may be stopped and repeated.
    """
    output, freed = Output(json=json), dict[str, int]()
    async with opened(url, tenant=tenant) as backend:
        with output.progress("sweeping") as step:
            more = True
            while more:
                done = await backend.admin.sweep(budget=BUDGET)
                for kind, count in done.freed.items():
                    freed[kind] = freed.get(kind, 0) + count
                    step(count)
                more = done.more
    if json:
        output.document({"freed": freed})
    else:
        output.table(("freed", "count"), sorted(freed.items()))
        output.line("nothing is left to free")
    return Exit.FINE


@command(commands, "verify", example="verify sqlite:agent.db postgresql://app@db.internal/agents")
async def verify(
    url: Url = "",
    other: Annotated[str, Argument(metavar="DST", help="Another backend, to compare with.")] = "",
    subset: Annotated[bool, Option("--subset", help="What only DST has is no difference.")] = False,
    tenant: Tenant = "",
    all_tenants: AllTenants = False,
    run: Runs = None,
    since: Since = "",
    json: Json = False,
) -> int:
    """Look for damage in one backend, or for differences of two.

    Every record is read, nothing is changed. Two are equal where their digests are: of headers,
    entries, keys, notes with versions and vectors, results. Ends with 1 where something is damaged
    or differs.
    """
    output, selection = Output(json=json), selection_of(run, since)
    names = await wanted_tenants(url, tenant, every=all_tenants)
    if all_tenants and other and not subset:
        names = sorted({*names, *await tenants_of(other)})
    documents: list[dict[str, Any]] = []
    fine = True
    for name in names:
        if all_tenants:
            output.line(f"tenant {name}" if name else "the tenant without a name")
        if other:
            found = await _compare(url, other, name, selection, subset=subset, output=output)
            document, is_fine = _as_json(found), not found.different
        else:
            async with opened(url, tenant=name) as backend:
                with output.progress("verifying"):
                    report = await backend.admin.verify(timeout=A_DAY)
            _show_report(output, report)
            document, is_fine = json_of(report), not report.problems
        documents.append({"tenant": name, **document} if all_tenants else document)
        fine = fine and is_fine
    if json:
        output.document({"tenants": documents} if all_tenants else documents[0])
    return Exit.FINE if fine else Exit.FOUND


async def _compare(
    url: str, other: str, tenant: str, selection: Selection, *, subset: bool, output: Output
) -> Comparison:
    async with opened(url, tenant=tenant) as first, opened(other, tenant=tenant) as second:
        with output.progress("comparing") as step:
            found = await Comparing(first, second, selection, subset=subset, step=step).all()
    _show_comparison(output, found)
    return found


def _show_report(output: Output, report: VerifyResponse) -> None:
    output.table(("checked", "count"), sorted(report.checked.items()))
    rows = [(p.store, p.id, p.position if p.position >= 0 else "", p.what) for p in report.problems]
    if rows:
        output.table(("store", "id", "position", "problem"), rows)
    output.line(f"{len(rows)} problems" if rows else "no damage")


def _as_json(found: Comparison) -> dict[str, Any]:
    return {
        "equal": not found.different,
        "compared": found.compared,
        "vectors": found.vectors,
        "digests": found.digests,
        "different": found.different,
        "differences": [asdict(one) for one in found.differences],
    }


def _show_comparison(output: Output, found: Comparison) -> None:
    output.table(("compared", "count"), found.compared.items())
    if not found.vectors:
        output.line("vectors were not compared: the embedders differ")
    if found.differences:
        rows = [(one.kind, one.id, one.what) for one in found.differences]
        output.table(("kind", "id", "difference"), rows)
    first, second = found.digests
    if found.different:
        output.line(f"{found.different} differences; digests {first} and {second}")
    else:
        output.line(f"equal, digest {first}")


@command(commands, "tenants", example="tenants postgresql://app@db.internal/agents")
async def tenants(url: Url = "", json: Json = False) -> int:
    """List the tenants that hold data. The tenant "" is the one without a name."""
    output, names = Output(json=json), await tenants_of(url)
    if json:
        output.document({"tenants": names})
    else:
        output.table(("tenant",), [(name or '""',) for name in names])
    return Exit.FINE


@command(commands, "erase-tenant", example="erase-tenant trial-7 sqlite:agent.db --yes")
async def erase_tenant(
    name: Annotated[str, Argument(metavar="NAME", help="The tenant; it has no default.")],
    url: Url = "",
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Remove everything of one tenant: runs, notes and results. This cannot be taken back.

    Ends with 1 where the tenant had nothing.
    """
    output = Output(json=json)
    async with opened(url) as backend:
        if not agreed(f"Erase all data of the tenant {printable(name)}?", yes=yes):
            return Exit.FOUND
        with output.progress("erasing"):
            erased = (await backend.admin.erase_tenant(tenant=name, timeout=A_DAY)).erased
    if json:
        output.document({"erased": erased})
    else:
        output.line("erased" if erased else "there was nothing")
    return Exit.FINE if erased else Exit.FOUND
