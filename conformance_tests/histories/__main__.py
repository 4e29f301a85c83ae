"""``python -m conformance_tests.histories (MODULE:OPENER | --url URL) [options]``.

The exit code is 0 where nothing was found, 1 where the history has a fault, 2 where the storage
could not be examined, 3 where too little was answered to say anything.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex

from conformance_tests.histories.checking import Verdict, check
from conformance_tests.histories.driving import last_look
from conformance_tests.histories.planning import MIXES
from conformance_tests.histories.processes import ChildError, Work, in_processes, in_threads
from conformance_tests.histories.recording import write
from conformance_tests.opener import UnusableOpenerError, find
from stores_core import Capability


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one history, judge it, print the verdict; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance_tests.histories",
        description="Many writers and readers at once, every answer recorded and judged.",
        allow_abbrev=False,
    )
    parser.add_argument("opener", nargs="?", metavar="MODULE:OPENER")
    parser.add_argument("--url", help="open by URL, as sqlite:PATH")
    parser.add_argument("--processes", type=int, default=0, help="0: all work in this process")
    parser.add_argument("--threads", type=int, default=0, help="with in-memory storages: so many")
    parser.add_argument("--tasks", type=int, default=8, help="in each process or thread")
    parser.add_argument("--operations", type=int, default=10_000, help="in all")
    parser.add_argument("--seconds", type=float, default=3_600, help="end early after so many")
    parser.add_argument("--mix", choices=sorted(MIXES), default="everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, metavar="FILE", help="keep the records, as JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the verdict as JSON")
    options = parser.parse_args(arguments)
    try:
        verdict = asyncio.run(_history(options))
    except (UnusableOpenerError, ChildError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return 2
    print(verdict)
    if options.json is not None:
        options.json.write_text(json.dumps(verdict.told(), indent=2) + "\n", encoding="utf-8")
    if verdict.faults:
        return 1
    return 0 if verdict.ran and not verdict.undecided else 3


async def _history(options: argparse.Namespace) -> Verdict:
    groups = options.processes or options.threads or 1
    workers = groups * options.tasks
    work = Work(
        prefix=f"history-{token_hex(6)}",
        workers=range(workers),
        of=workers,
        steps=-(-options.operations // workers),
        seed=options.seed,
        mix=options.mix,
        seconds=options.seconds,
    )
    opener = find(options.opener, options.url)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(opener.open())]
        shared = Capability.SHARED in clients[0].capabilities
        if options.processes and not shared:
            raise UnusableOpenerError("--processes needs a backend that declares SHARED")
        if options.threads and clients[0].opened.loop_bound:
            raise UnusableOpenerError("--threads needs a backend that works from any event loop")
        if shared:
            clients.append(await stack.enter_async_context(opener.open()))
        started = time.monotonic()
        if options.processes:
            records = await in_processes(
                work, options.processes, opener=options.opener, url=options.url
            )
        elif options.threads:
            records = await in_threads(work, options.threads, clients)
        else:
            records = await work.done(clients)
        records += await last_look(clients, records)
    driven = time.monotonic()
    if options.records is not None:
        write(records, options.records)
    verdict = check(records)
    print(
        f"{workers} workers, seed {options.seed}: {driven - started:.1f} s to make the history, "
        f"{time.monotonic() - driven:.1f} s to judge it"
    )
    return verdict


if __name__ == "__main__":
    sys.exit(main())
