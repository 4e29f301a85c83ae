"""One mutant, in this process: the suite's checks against it until one fails."""

import faulthandler
from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest

from conformance_tests.broken.exam import Check, Ending, Findings, checks, examine
from conformance_tests.opener import Opener, UnusableOpenerError, find, from_url
from tests.mutants.elsewhere import named
from tests.mutants.installing import install
from tests.mutants.mutating import Mutant

PATIENCE = 240.0
"""Seconds that a check may take; a busy machine must not kill anything."""

HANGS = 300.0
"""Seconds after which a check that its own time limit did not end counts as one that hangs."""


def prepare(package: str) -> None:
    """Load all that mutants have in common, for processes that are forked from this one."""
    import_module(f"{package}.backend")
    checks()


def attempt(
    mutant: Mutant,
    package: str,
    url: str,
    picked: Sequence[str],
    *,
    first: bool = False,
    short: bool = False,
) -> tuple[str, str]:
    """The test that noticed the mutant and how it ended; ("", "") if none of the picked did.

    Unless only the first or ``short`` ones are wanted, all that are amid faults are picked as well.
    """
    try:
        install(mutant, package)
        opener = from_url(url)
    except Exception:
        return "import", "failed otherwise"
    noticed = _noticed(opener, _in_order(picked, first=first, short=short))
    if noticed is None and not (first or short):
        noticed = _noticed(find(named(mutant, package, url), None), checks(amid_faults=True))
    return noticed or ("", "")


def _noticed(opener: Opener, asked: Sequence[Check]) -> tuple[str, str] | None:
    """The first check that fails twice, so that a slow machine kills nothing, and how it ended."""
    for check in asked:
        findings = Findings()
        for _ in range(2):
            faulthandler.dump_traceback_later(HANGS, exit=True)
            try:
                findings = examine(opener, [check], seconds=PATIENCE)
            except UnusableOpenerError:
                return "opening", "failed otherwise"
            if findings.count(Ending.PASSED) or findings.count(Ending.LEFT_OUT):
                break
        else:
            caught = findings.count(Ending.CAUGHT)
            return check.test, str(Ending.CAUGHT if caught else Ending.FAILED)
    return None


def _in_order(picked: Sequence[str], *, first: bool, short: bool) -> list[Check]:
    """The checks of these tests: the first of each, then the second, and so on.

    Unless only the first are wanted, or ``short`` ones, the tests that take long come at the end.
    """
    by_test: dict[str, list[Check]] = {test: [] for test in picked}
    long: list[Check] = []
    for check in checks():
        if check.proof.thorough:
            long.append(check)
        elif check.test in by_test:
            by_test[check.test].append(check)
    if first:
        return [samples[0] for samples in by_test.values() if samples]
    rounds = zip_longest(*by_test.values())
    return [
        *(check for each in rounds for check in each if check is not None),
        *([] if short else long),
    ]
