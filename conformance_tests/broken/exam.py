"""Runs tests of the suite against a storage, cheaply: no pytest run, one event loop for all."""

import asyncio
import importlib
import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest

from conformance_tests.broken.defect import FAULTS
from conformance_tests.lab import Bench, Lab
from conformance_tests.opener import Opener
from conformance_tests.proves import Proof, proof_of
from stores_core.backend import Backend
from stores_core.interceptors import Call, Proceed
from stores_core.shape import Response

SUITE = Path(__file__).resolve().parent.parent / "suite"

LONG = frozenset({"test_random.py", "test_histories.py"})
"""Not run here: programs and histories at random catch most defects sooner or later, so they tell
them apart badly, and they take minutes."""

STORES = {"runs", "memory", "tool_results"}

PATIENCE = 20.0
"""Seconds that a check may take here."""


@dataclass(frozen=True, slots=True)
class Check:
    """One test with one sample; ``test`` is as "test_fork.py::test_name"."""

    test: str
    proof: Proof
    call: Callable[..., None]
    values: Mapping[str, Any]


class Ending(StrEnum):
    """How a check ended. A failure that is no assertion says little about the test."""

    PASSED = "passed"
    CAUGHT = "caught"
    FAILED = "failed otherwise"
    LEFT_OUT = "left out"


@dataclass(slots=True)
class Findings:
    """What an examination found, by test: how many of its checks ended how."""

    endings: dict[str, dict[Ending, int]] = field(default_factory=dict[str, dict[Ending, int]])

    def note(self, test: str, ending: Ending) -> None:
        self.endings.setdefault(test, dict.fromkeys(Ending, 0))[ending] += 1

    def count(self, ending: Ending) -> int:
        """How many checks ended so."""
        return sum(endings[ending] for endings in self.endings.values())


# The checks that there are


def checks(*, amid_faults: bool = False) -> list[Check]:
    """The checks of the suite, in the order of files and lines; or those that need a fault.

    Without those at random, and those that ask pytest for more than the lab: they start the
    examined storage again by the command line, where no defect is.
    """
    found: list[Check] = []
    for path in sorted(SUITE.glob("test_*.py")):
        if path.name in LONG or (path.name in FAULTS) is not amid_faults:
            continue
        module = importlib.import_module(f"conformance_tests.suite.{path.stem}")
        for name, function in vars(module).items():
            proof = proof_of(function)
            if proof is None or function.__module__ != module.__name__:
                continue
            if "pytestconfig" not in inspect.signature(function).parameters:
                test = f"{path.name}::{name}"
                found += [Check(test, proof, function, values) for values in _samples(function)]
    return found


def first_samples(all_checks: Sequence[Check]) -> list[Check]:
    """One check of each test that does not take long."""
    first: dict[str, Check] = {}
    for check in all_checks:
        if not check.proof.thorough:
            first.setdefault(check.test, check)
    return list(first.values())


def concerning(all_checks: Sequence[Check], store: str) -> list[Check]:
    """The checks that may ask one store; the others say that they need other stores alone."""
    return [
        check
        for check in all_checks
        if store not in STORES or store in check.proof.needs or not STORES & set(check.proof.needs)
    ]


def of_test(all_checks: Sequence[Check], test: str) -> list[Check]:
    """The checks of one test. Raises LookupError for a test that there is not."""
    found = [check for check in all_checks if check.test == test]
    if not found:
        raise LookupError(f"the suite has no test {test}")
    return found


def _samples(function: Any) -> Iterator[dict[str, Any]]:
    marks: list[pytest.Mark] = getattr(function, "pytestmark", [])
    sets = [list(_parametrized(mark)) for mark in marks if mark.name == "parametrize"]
    for parts in itertools.product(*reversed(sets)):
        yield {name: value for part in parts for name, value in part.items()}


def _parametrized(mark: pytest.Mark) -> Iterator[dict[str, Any]]:
    given, samples = cast("tuple[str | Sequence[str], Any]", mark.args)
    names = [given] if isinstance(given, str) else list(given)
    for sample in samples:
        yield dict(zip(names, (sample,) if len(names) == 1 else sample, strict=True))


# Running them


class _TooLongError(BaseException):
    """A check used its time up in a loop of calls that all answer at once."""


class _Watch:
    """Ends a check that takes too long: as an interceptor it sees each call of an operation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until = float("inf")

    async def __call__(self, call: Call, proceed: Proceed) -> Response:
        if time.monotonic() > self.until:
            raise _TooLongError
        return await proceed(call.request)

    def over(self, opener: Opener) -> Opener:
        """The same opener; what it opens is watched."""

        def call(**values: Any) -> AbstractAsyncContextManager[Backend]:
            watched = (self, *values.get("interceptors", ()))
            return opener.call(**values | {"interceptors": watched})

        return replace(opener, call=call)


class _WatchedLab(Lab):
    """A lab whose test ends when its time is over."""

    def __init__(self, bench: Bench, watch: _Watch) -> None:
        super().__init__(bench, [])
        self._watch = watch

    def run(self, work: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(self._watch.seconds):
                await work

        self._watch.until = time.monotonic() + self._watch.seconds + 1
        try:
            super().run(limited())
        finally:
            self._watch.until = float("inf")


def examine(
    opener: Opener,
    some_checks: Sequence[Check],
    *,
    quick: bool = False,
    until_caught: bool = False,
    seconds: float = PATIENCE,
) -> Findings:
    """How the checks end on this storage, all of them or until one of them fails by an assertion.

    Raises UnusableOpenerError for a storage that cannot be opened.
    """
    watch, findings = _Watch(seconds), Findings()
    bench = Bench(watch.over(opener), quick=quick)
    bench.run(_silence())
    try:
        for check in some_checks:
            ending = _ending(bench, watch, check)
            findings.note(check.test, ending)
            if until_caught and ending is Ending.CAUGHT:
                break
    finally:
        bench.close()
    return findings


def _ending(bench: Bench, watch: _Watch, check: Check) -> Ending:
    if any(bench.unmet(need) for need in check.proof.needs):
        return Ending.LEFT_OUT
    lab = _WatchedLab(bench, watch)
    before = bench.run(_tasks())
    ending = Ending.PASSED
    try:
        check.call(lab, **check.values)
    except KeyboardInterrupt:
        raise
    except pytest.skip.Exception:
        ending = Ending.LEFT_OUT
    except BaseException as error:
        ending = Ending.CAUGHT if _is_assertion(error) else Ending.FAILED
    try:
        lab.end()
    except Exception:
        ending = Ending.FAILED if ending is Ending.PASSED else ending
    if ending is not Ending.PASSED:
        bench.run(_end_tasks(before))
    return ending


async def _silence() -> None:
    # A check that fails leaves tasks that nobody waits for; what they raise is of no interest.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


async def _tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks()


async def _end_tasks(before: set[asyncio.Task[Any]]) -> None:
    """End what a check that failed has left running."""
    left = asyncio.all_tasks() - before - {cast("asyncio.Task[Any]", asyncio.current_task())}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _is_assertion(error: BaseException) -> bool:
    """Whether a test said that something is not as promised, be it of several at once."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(_is_assertion(inner) for inner in group.exceptions)
    # pytest.raises asserts too, with an exception of its own.
    did_not_raise = isinstance(error, pytest.fail.Exception) and "DID NOT RAISE" in str(error)
    return isinstance(error, AssertionError) or did_not_raise
