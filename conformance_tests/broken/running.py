"""Running the checks against many defects, in processes of their own."""

import time
from collections.abc import Generator, Mapping, Sequence
from multiprocessing import Pool

from conformance_tests.broken.defect import Defect, defect_named, defects
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

PATIENCE_AMID_FAULTS = 100.0
"""Seconds that a check may take that makes its faults first."""


def chosen(*, first: bool) -> list[Check]:
    """All checks; or the first of each test, and all of each that has to catch a defect."""
    every = checks()
    if not first:
        return every
    kept = {id(check) for check in first_samples(every)}
    for test in {defect.caught_by for defect in defects().values()}:
        kept.update(id(check) for check in of_test(every, test))
    return [check for check in every if id(check) in kept]


def chosen_amid_faults() -> list[Check]:
    """All checks of the tests that have to catch a defect which only a fault shows."""
    tests = {defect.caught_by for defect in defects(amid_faults=True).values()}
    return [check for check in checks(amid_faults=True) if check.test in tests]


def url_amid_faults(defect: Defect, server: str) -> str:
    """A good storage on which the fault can happen: with a server, one that lasts, or in memory.

    ``{name}`` and ``{folder}`` are left in it; "" where a server is needed and none is given.
    """
    needs = of_test(checks(amid_faults=True), defect.caught_by)[0].proof.needs
    if "server" in needs:
        return server
    return "file:{folder}/{name}" if "lasting" in needs else "memory:{name}"


def examined(
    missing: Mapping[str, Sequence[str]], urls: Mapping[str, str], *, first: bool, jobs: int
) -> Generator[tuple[str, Findings, float]]:
    """What was found of each defect. What it leaves in memory goes with a process of its own.

    ``urls`` are the good storages, by the name of the defect.
    """
    work = [(name, urls[name], tests, first) for name, tests in missing.items()]
    with Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_examine, work)


def _examine(work: tuple[str, str, Sequence[str], bool]) -> tuple[str, Findings, float]:
    name, url, tests, first = work
    started, wanted = time.monotonic(), set(tests)
    defect = defect_named(name)
    opener = defect.opener(url.replace("{name}", name))
    if defect.amid_faults:
        asked = [check for check in chosen_amid_faults() if check.test in wanted]
        found = examine(opener, asked, until_caught=True, seconds=PATIENCE_AMID_FAULTS)
        return name, found, time.monotonic() - started
    some = [check for check in chosen(first=first) if check.test in wanted]
    asked = concerning(some, defect.broken.kind)
    findings = examine(opener, asked, quick=first)
    named = [check for check in asked if check.test == defect.caught_by]
    for _ in range(TRIES - 1 if named else 0):
        if findings.endings[defect.caught_by][Ending.CAUGHT]:
            break
        findings.endings |= examine(opener, named).endings
    return name, findings, time.monotonic() - started
