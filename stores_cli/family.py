"""``runs tree | fork | diff``: how runs hang together, what two share and where they part."""

from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from stores_cli.commands import command, group
from stores_cli.exits import Exit
from stores_cli.options import Json, Limit, RunId, Tenant, Url, pairs
from stores_cli.output import Output, json_of
from stores_cli.paging import parting
from stores_cli.reading import entries, length_of, read_run
from stores_cli.runs import Full, absent, print_entry
from stores_cli.urls import opened
from stores_core.backend import Backend
from stores_core.front import RunsFront
from stores_core.runs import RunInfo
from stores_core.walking import pages

commands = group()

DEEPEST = 40
"""So many levels are drawn; those below say how deep they are."""


class Branch(NamedTuple):
    """A run of a family, and where it hangs: each level above says whether more follows there."""

    info: RunInfo
    follows: tuple[bool, ...]


@command(commands, "tree", example="runs tree t-7 sqlite:agent.db")
async def tree(
    run: RunId, url: Url = "", tenant: Tenant = "", limit: Limit = 500, json: Json = False
) -> int:
    """Draw the family of a run: from its oldest ancestor that is still there, with all forks.

    Each fork shows how many messages it took over. JSON lists the runs in that order, with depths.
    """
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        info = (await backend.runs.get_run(run_id=run)).info
        if info is None:
            return absent(output, run)
        root = await ancestor(backend.runs, info)
        family, more = await family_of(backend, root, limit)
    if json:
        runs = [{"depth": len(one.follows), **json_of(one.info)} for one in family]
        output.document({"runs": runs, "more": more})
        return Exit.FINE
    if root.parent_id:
        output.line(f"{root.parent_id} (deleted)")
    for branch in family:
        output.line(_drawn(branch, asked=branch.info.id == run))
    if more:
        output.beside(f"there are more; --limit {limit * 10} shows more of them")
    return Exit.FINE


async def ancestor(runs: RunsFront, info: RunInfo) -> RunInfo:
    """The oldest ancestor of a run that is still there, or the run."""
    seen = {info.id}
    while info.parent_id and info.parent_id not in seen:
        parent = (await runs.get_run(run_id=info.parent_id)).info
        if parent is None:
            break
        info = parent
        seen.add(info.id)
    return info


async def family_of(backend: Backend, root: RunInfo, limit: int) -> tuple[list[Branch], bool]:
    """A run and the forks below it, each run before its forks, the oldest fork first.

    At most ``limit``, and whether there are more.
    """
    family: list[Branch] = []
    # A stack in place of recursion: families are thousands of generations deep.
    left = [Branch(root, ())]
    seen = {root.id}
    while left and len(family) < limit:
        branch = left.pop()
        family.append(branch)
        forks = [
            info
            async for page in pages(backend.runs.list_runs, parent_id=branch.info.id)
            for info in page.runs
            if info.id not in seen
        ]
        seen.update(info.id for info in forks)
        # Newest first: so the newest is pushed first and comes last.
        left += [Branch(info, (*branch.follows, index > 0)) for index, info in enumerate(forks)]
    return family, bool(left)


def _drawn(branch: Branch, *, asked: bool) -> str:
    info, levels = branch
    if len(levels) > DEEPEST:
        lead = f"{'':>{4 * DEEPEST}}({len(levels)} levels deep) "
    else:
        above = "".join("│   " if follows else "    " for follows in levels[:-1])
        lead = above + (("├── " if levels[-1] else "└── ") if levels else "")
    at = f"  forked at message {info.fork_point}" if info.parent_id else ""
    return f"{lead}{info.id}{at}  {info.message_count} messages{'  <-' if asked else ''}"


@command(commands, "fork", example="runs fork t-7 sqlite:agent.db --at 12 --id t-7-again")
async def fork(
    run: RunId,
    url: Url = "",
    tenant: Tenant = "",
    at: Annotated[int, Option("--at", min=0, metavar="N", help="The first N; 0 is all.")] = 0,
    id: Annotated[str, Option("--id", metavar="RUN", help="Default: a generated id.")] = "",
    label: Annotated[
        list[str] | None,
        Option("--label", metavar="KEY=VALUE", help="In place of the run's labels; repeatable."),
    ] = None,
    json: Json = False,
) -> int:
    """Start a new run as a prefix of another and print its id. Nothing is copied.

    Ends with 1 where there is no such run, or another one stands at --id.
    """
    output = Output(json=json)
    labels = pairs(label, "--label") if label else None
    async with opened(url, tenant=tenant) as backend:
        done = await backend.runs.fork_run(run_id=run, new_run_id=id, at_message=at, labels=labels)
    if json:
        output.document(json_of(done))
    elif not done.found:
        return absent(output, run)
    elif not done.created:
        output.beside(f"a run {done.run_id} is there already")
    else:
        output.line(done.run_id)
    return Exit.FINE if done.created else Exit.FOUND


@command(commands, "diff", example="runs diff t-7 t-7-again sqlite:agent.db")
async def diff(
    run: RunId,
    other: Annotated[str, Argument(metavar="OTHER", help="The id of another run.")],
    url: Url = "",
    tenant: Tenant = "",
    show: Annotated[
        int,
        Option("--show", min=0, metavar="N", help="So many messages of each from there on."),
    ] = 3,
    full: Full = False,
    json: Json = False,
) -> int:
    """Say what two runs share and where they part. Ends with 1 where they differ.

    Messages and events are compared by value from the first on; labels key by key.
    """
    output = Output(json=json)
    async with opened(url, tenant=tenant) as backend:
        infos: list[RunInfo] = []
        for id in (run, other):
            info = (await backend.runs.get_run(run_id=id)).info
            if info is None:
                return absent(output, id)
            infos.append(info)
        shared = {kind: await _shared(backend.runs, infos, kind) for kind in ("messages", "events")}
        report = _report(infos, shared)
        if json:
            output.document(report)
            return Exit.FINE if report["equal"] else Exit.FOUND
        rows = [
            (kind, shared[kind], *(length_of(info, kind) - shared[kind] for info in infos))
            for kind in shared
        ]
        output.table(("what", "shared", f"only {run}", f"only {other}"), rows)
        for key, values in report["labels"].items():
            output.line(f"label {key}: {values[0]} here, {values[1]} there")
        begin = shared["messages"]
        for info in infos:
            end = min(info.message_count, begin + show)
            if begin < end:
                output.line(f"{info.id} goes on:")
            async for position, entry in entries(backend.runs, info.id, "messages", begin, end):
                print_entry(output, position, entry, full=full)
    return Exit.FINE if report["equal"] else Exit.FOUND


def _report(infos: list[RunInfo], shared: dict[str, int]) -> dict[str, Any]:
    labels = [info.labels for info in infos]
    different = {
        key: [one.get(key) for one in labels]
        for key in sorted({*labels[0], *labels[1]})
        if labels[0].get(key) != labels[1].get(key)
    }
    parted = any(length_of(info, kind) > shared[kind] for info in infos for kind in shared)
    return {
        "runs": [json_of(info) for info in infos],
        "shared": shared,
        "labels": different,
        "equal": not (different or parted),
    }


async def _shared(runs: RunsFront, infos: list[RunInfo], log: str) -> int:
    """How many first entries are equal."""
    end = min(length_of(info, log) for info in infos)
    first, second = (read_run(runs, info.id, log) for info in infos)
    return await parting(first, second, 0, end)
