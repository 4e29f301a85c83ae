"""``python -m tests.mutants SUBJECT``: draw mutants of a store and run the suite against each.

It goes on where it was stopped: what has a result is not run again, but for survivors with
``--again``. The exit code is 1 where fewer than nine in ten were killed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tests.mutants import covering, kept
from tests.mutants.mutating import Mutant, mutants, sample
from tests.mutants.subjects import ROOT, SUBJECTS, Subject
from tests.mutants.trying import attempt

AN_HOUR = 3_600.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--count", type=int, default=200, help="mutants to draw (200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    parser.add_argument("--folder", type=Path, help="where to keep what covers what (build)")
    parser.add_argument("--only-cover", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    subject = SUBJECTS[options.subject]
    folder: Path = options.folder or ROOT / "build" / "mutants"
    covered = folder / f"{subject.name}.json"
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        url = subject.url.replace("{folder}", place)
        if options.only_cover:
            folder.mkdir(parents=True, exist_ok=True)
            covering.write(covered, covering.cover(subject, url))
            return 0
        if options.one:
            return _one(options.one, url)
        if not covered.exists():
            _python(subject.name, "--only-cover", "--folder", folder).check_returncode()
        return _all(subject, options, covering.read(covered), Path(place))


def _all(subject: Subject, options: argparse.Namespace, cover: covering.Cover, place: Path) -> int:
    drawn = sample(ROOT, subject.paths, options.count, options.seed)
    draws = kept.read()
    old = draws.get(subject.name, kept.Draw(options.seed, 0)).fates
    there_are = sum(len(mutants(ROOT, path)) for path in subject.paths)
    draw = draws[subject.name] = kept.Draw(options.seed, there_are)
    draw.fates = {one.name: old[one.name] for one in drawn if one.name in old}
    todo = [
        one
        for one in drawn
        if one.name not in old or (options.again and not draw.fates[one.name].by)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        tries = {
            pool.submit(_try, subject, one, cover.picked(one), place, number): one
            for number, one in enumerate(todo)
        }
        for done, future in enumerate(as_completed(tries), 1):
            one, fate = tries[future], future.result()
            fate.why = old[one.name].why if one.name in old and not fate.by else ""
            draw.fates[one.name] = fate
            kept.write(draws)
            print(f"{done}/{len(todo)} {fate.by or 'SURVIVES'} ({fate.how}) {one.name}", flush=True)
    print(f"{draw.killed:.1%} of {len(draw.fates)} mutants of {subject.name} killed")
    return int(draw.killed < kept.LEAST_KILLED)


def _try(
    subject: Subject, mutant: Mutant, picked: list[int], place: Path, number: int
) -> kept.Fate:
    """Run one mutant in a process of its own, which it may hang or end."""
    if not picked:
        return kept.Fate("", "", 0)
    order = place / f"{number}.json"
    order.write_text(json.dumps({"mutant": asdict(mutant), "picked": picked}), encoding="utf-8")
    ended = _python(subject.name, "--one", order)
    if ended.returncode:
        return kept.Fate("the process", "hangs or dies", len(picked))
    by, how = json.loads(ended.stdout.splitlines()[-1])
    return kept.Fate(by, how, len(picked))


def _one(order: Path, url: str) -> int:
    told = json.loads(order.read_text(encoding="utf-8"))
    told["mutant"]["lines"] = tuple(told["mutant"]["lines"])
    print(json.dumps(attempt(Mutant(**told["mutant"]), url, told["picked"])), flush=True)
    os._exit(0)  # a mutant may leave threads that nobody ends


def _python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=AN_HOUR,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
