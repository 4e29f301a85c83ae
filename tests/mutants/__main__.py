"""``python -m tests.mutants SUBJECT``: draw mutants of a store and run the suite against each.

It goes on where it was stopped: what has a result is not run again, but for survivors with
``--again``. The exit code is 1 where fewer than nine in ten were killed, not counting those that
are the same to everybody.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tests.mutants import covering, kept, trying
from tests.mutants.mutating import Mutant, shuffled
from tests.mutants.subjects import ROOT, SUBJECTS, Subject


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--count", type=int, default=200, help="mutants to draw (200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    parser.add_argument("--named", default="", help="run those with this in their names alone")
    parser.add_argument("--first", action="store_true", help="the first check of each test only")
    parser.add_argument("--short", action="store_true", help="not the checks that take long")
    parser.add_argument("--folder", type=Path, help="where to keep what covers what (build)")
    options = parser.parse_args(arguments)
    subject = SUBJECTS[options.subject]
    folder: Path = options.folder or ROOT / "build" / "mutants"
    covered = folder / f"{subject.name}.json"
    if not covered.exists():
        # In a process where no store has run yet.
        command = [sys.executable, "-m", "tests.mutants.covering", subject.name, str(covered)]
        subprocess.run(command, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        return _all(subject, options, covering.read(covered), place)


def _all(subject: Subject, options: argparse.Namespace, cover: covering.Cover, place: str) -> int:
    every = shuffled(ROOT, subject.paths, options.seed)
    draws = kept.read()
    old = draws.get(subject.name, kept.Draw(options.seed, 0)).fates
    # What was drawn before stays drawn, as long as the code has it.
    drawn = sorted(every, key=lambda one: one.name not in old)[: options.count]
    draw = draws[subject.name] = kept.Draw(options.seed, len(every))
    draw.fates = {one.name: old[one.name] for one in drawn if one.name in old}
    todo = [
        one
        for one in drawn
        if options.named in one.name
        and (one.name not in old or (options.again and not draw.fates[one.name].by))
    ]
    picked = {one: cover.picked(one) for one in todo}
    trying.prepare(subject.package)
    tried = _tries(subject, picked, options, place)
    for done, (one, fate) in enumerate(tried, 1):
        if one.name in old and not fate.by:
            fate.why, fate.same = old[one.name].why, old[one.name].same
        draw.fates[one.name] = fate
        kept.write(draws)
        print(f"{done}/{len(todo)} {fate.by or 'SURVIVES'} ({fate.how}) {one.name}", flush=True)
    print(
        f"{draw.killed:.1%} of {len(draw.fates)} mutants of {subject.name} killed, "
        f"{draw.killed_of_others:.1%} of those that are not the same to everybody"
    )
    return int(draw.killed_of_others < kept.LEAST_KILLED)


def _tries(
    subject: Subject, todo: dict[Mutant, list[str]], options: argparse.Namespace, place: str
) -> Iterator[tuple[Mutant, kept.Fate]]:
    """What becomes of each, in a process of its own that it may hang or end."""
    waiting, running = list(todo.items()), dict[int, tuple[Mutant, int, Path]]()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            mutant, picked = waiting.pop(0)
            told = Path(place) / str(len(waiting))
            pid = os.fork()
            if not pid:
                how = {"first": options.first, "short": options.short}
                _be_one(subject, mutant, picked, told, how)
            running[pid] = mutant, len(picked), told
        if running:
            pid, status = os.wait()
            mutant, tests, told = running.pop(pid)
            by, how = "the process", "hangs or dies"
            if status == 0:
                by, how = json.loads(told.read_text(encoding="utf-8"))
            yield mutant, kept.Fate(by, how, tests)


def _be_one(
    subject: Subject, mutant: Mutant, picked: list[str], told: Path, how: dict[str, bool]
) -> NoReturn:
    """What the forked process does. It ends at once, whatever threads a mutant has left."""
    status = 1
    try:
        url = subject.url.replace("{folder}", str(told.with_suffix(".d")))
        told.with_suffix(".d").mkdir()
        outcome = trying.attempt(mutant, subject.package, url, picked, **how)
        told.write_text(json.dumps(outcome), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
