"""Running the checks against many defects, in processes of their own."""

import time
from collections.abc import Generator, Mapping, Sequence
from multiprocessing import Pool

from conformance_tests.broken.defect import defects
from conformance_tests.broken.exam import (
    Check,
    Ending,
    Findings,
    checks,
    concerning,
    examine,
    first_samples,
    of_test,
)

TRIES = 5
"""A race is not lost every time, on a backend that really works at once."""


def chosen(*, first: bool) -> list[Check]:
    """All checks; or the first of each test, and all of each that has to catch a defect."""
    every = checks()
    if not first:
        return every
    kept = {id(check) for check in first_samples(every)}
    for test in {defect.caught_by for defect in defects().values()}:
        kept.update(id(check) for check in of_test(every, test))
    return [check for check in every if id(check) in kept]


def examined(
    missing: Mapping[str, Sequence[str]], url: str, *, first: bool, jobs: int
) -> Generator[tuple[str, Findings, float]]:
    """What was found of each defect. What it leaves in memory goes with a process of its own."""
    work = [(name, url, tests, first) for name, tests in missing.items()]
    with Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_examine, work)


def _examine(work: tuple[str, str, Sequence[str], bool]) -> tuple[str, Findings, float]:
    name, url, tests, first = work
    started, wanted = time.monotonic(), set(tests)
    defect = defects()[name]
    some = [check for check in chosen(first=first) if check.test in wanted]
    asked = concerning(some, defect.broken.kind)
    opener = defect.opener(url.replace("{name}", name))
    findings = examine(opener, asked, quick=first)
    named = [check for check in asked if check.test == defect.caught_by]
    for _ in range(TRIES - 1 if named else 0):
        if findings.endings[defect.caught_by][Ending.CAUGHT]:
            break
        findings.endings |= examine(opener, named).endings
    return name, findings, time.monotonic() - started
