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
    """``seconds`` of each test with its first sample; the tests that run each module's lines.

    Lines that no test runs by itself, as those of tables and statements, run on import.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict[str, dict[int, list[str]]])

    def picked(self, mutant: Mutant) -> list[str]:
        """The tests that run a mutant's lines, the quickest first.

        Where the lines run on import, or a first sample does not reach them, it is the tests that
        run any line of the module, or all there are where it has no other line.
        """
        module = self.lines.get(mutant.path, {})
        begin, end = mutant.lines
        found = {test for n in range(begin, end + 1) for test in module.get(n, ())}
        found = found or {test for tests in module.values() for test in tests}
        return sorted(found or self.seconds, key=self.seconds.__getitem__)


def cover(subject: Subject, url: str) -> Cover:
    """Run every test with its first sample, alone, on a storage that is good.

    Tests that take long, or do not end in time here, are left out. Raises where one is not met.
    """
    measured = coverage.Coverage(data_file=None, include=[str(ROOT / subject.folder / "*.py")])
    measured.start()
    # Imported here, so that what runs on import is seen to run.
    from conformance_tests.broken.exam import Ending, checks, examine, first_samples
    from conformance_tests.opener import from_url

    opener, found = from_url(url), Cover()
    for check in first_samples(checks()):
        measured.switch_context(check.test)
        begin = time.monotonic()
        findings = examine(opener, [check], seconds=PATIENCE)
        took = time.monotonic() - begin
        if findings.count(Ending.CAUGHT):
            raise RuntimeError(f"{check.test} {dict(check.values)} fails on a good store")
        if findings.count(Ending.PASSED):
            found.seconds[check.test] = round(took, 4)
    measured.stop()
    data = measured.get_data()
    for path in subject.paths:
        by_line = data.contexts_by_lineno(str(ROOT / path))
        found.lines[path] = {
            line: [test for test in tests if test in found.seconds]
            for line, tests in by_line.items()
        }
    return found


def write(path: Path, cover: Cover) -> None:
    path.write_text(json.dumps(asdict(cover)), encoding="utf-8")


def read(path: Path) -> Cover:
    held = json.loads(path.read_text(encoding="utf-8"))
    lines = {
        module: {int(line): tests for line, tests in lines.items()}
        for module, lines in held["lines"].items()
    }
    return Cover(seconds=held["seconds"], lines=lines)


def main() -> None:
    subject, path = SUBJECTS[sys.argv[1]], Path(sys.argv[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="covering-") as place:
        write(path, cover(subject, subject.url.replace("{folder}", place)))


if __name__ == "__main__":
    main()
