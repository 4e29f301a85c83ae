"""Which checks of the suite run which line of a store, and how long each check takes.

``python -m tests.mutants.covering SUBJECT FILE`` finds out, and writes it into a file.
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import coverage

from tests.mutants.mutating import Mutant
from tests.mutants.subjects import ROOT, SUBJECTS, Subject

PATIENCE = 120.0
"""Seconds that a check may take here: to see which lines run costs time."""


@dataclass(slots=True)
class Cover:
    """``seconds`` of the first check of each test, by its number in the suite; the numbers of the
    other checks of that test; the checks of each module's lines.

    Lines that no check runs by itself, as those of tables and statements, run on import.
    """

    seconds: dict[int, float] = field(default_factory=dict[int, float])
    others: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    lines: dict[str, dict[int, list[int]]] = field(default_factory=dict[str, dict[int, list[int]]])

    def picked(self, mutant: Mutant, *, first: bool = False) -> list[int]:
        """The tests that run a mutant's lines: the first check of each, the quickest first, and
        then their other checks unless only the ``first`` ones are wanted.

        Where the lines run on import, these are all that run any line of the module, or all there
        are where it has no other line.
        """
        module = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        run = [module[n] for n in range(first, last + 1) if n in module]
        found = {number for numbers in run for number in numbers}
        if run and not found:
            found = {number for numbers in module.values() for number in numbers}
            found = found or set(self.seconds)
        first_ones = sorted(found, key=self.seconds.__getitem__)
        if first:
            return first_ones
        return first_ones + [other for number in first_ones for other in self.others[number]]


def cover(subject: Subject, url: str) -> Cover:
    """Run the first check of every test alone, on a storage that is good.

    Tests that take long, or do not end in time here, are left out. Raises where one is not met.
    """
    measured = coverage.Coverage(data_file=None, include=[str(ROOT / subject.folder / "*.py")])
    measured.start()
    # Imported here, so that what runs on import is seen to run.
    from conformance_tests.broken.exam import Ending, checks, examine, first_samples
    from conformance_tests.opener import from_url

    opener, found, every = from_url(url), Cover(), checks()
    numbers = {id(check): number for number, check in enumerate(every)}
    for check in first_samples(every):
        number = numbers[id(check)]
        measured.switch_context(str(number))
        begin = time.monotonic()
        findings = examine(opener, [check], seconds=PATIENCE)
        took = time.monotonic() - begin
        if findings.count(Ending.CAUGHT):
            raise RuntimeError(f"{check.test} {dict(check.values)} fails on a good store")
        if findings.count(Ending.PASSED):
            found.seconds[number] = round(took, 4)
            found.others[number] = [
                other
                for other, one in enumerate(every)
                if one.test == check.test and other != number and not one.proof.thorough
            ]
    measured.stop()
    data = measured.get_data()
    for path in subject.paths:
        by_line = data.contexts_by_lineno(str(ROOT / path))
        found.lines[path] = {
            line: [int(n) for n in contexts if n and int(n) in found.seconds]
            for line, contexts in by_line.items()
        }
    return found


def write(path: Path, cover: Cover) -> None:
    path.write_text(json.dumps(asdict(cover)), encoding="utf-8")


def read(path: Path) -> Cover:
    held = json.loads(path.read_text(encoding="utf-8"))
    return Cover(
        seconds={int(number): took for number, took in held["seconds"].items()},
        others={int(number): others for number, others in held["others"].items()},
        lines={
            module: {int(line): numbers for line, numbers in lines.items()}
            for module, lines in held["lines"].items()
        },
    )


def main() -> None:
    subject, path = SUBJECTS[sys.argv[1]], Path(sys.argv[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="covering-") as place:
        write(path, cover(subject, subject.url.replace("{folder}", place)))


if __name__ == "__main__":
    main()
