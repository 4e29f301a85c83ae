"""`@proves`: which guarantees a test shows, what it needs, and where to look when it fails."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from conformance_tests.lab import Lab

Test = Callable[..., Coroutine[Any, Any, None]]

TIERS = {
    "A": "black box",
    "B": "reopened, killed, another process",
    "C": "clock, network, system calls",
}
"""What a test has to be able to do with a storage: open it; open it again, also from elsewhere; put
something of its own between it and its clock, server or kernel."""

NEEDS = {
    **dict.fromkeys(
        ("runs", "memory", "tool_results", "admin", "moving", "embeddings", "shared", "tenant"), "A"
    ),
    **dict.fromkeys(("lasting", "elsewhere"), "B"),
    **dict.fromkeys(("clock", "server", "strace"), "C"),
}
"""What a test may need, and the tier that it belongs to then."""

AMID = ("others", "faults")
TIME_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What a test says about itself. ``look_at`` completes "If this fails, look at …".

    ``thorough`` marks one that takes long and that the quick profile leaves to others. ``amid`` is
    "others" for one in which many write at once, "faults" for one in which something breaks.
    """

    numbers: tuple[str, ...]
    needs: tuple[str, ...]
    look_at: str
    thorough: bool
    amid: str = ""

    @property
    def tier(self) -> str:
        """The highest tier of what it needs."""
        return max((NEEDS.get(need, "A") for need in self.needs), default="A")


def proves(
    *numbers: str,
    needs: tuple[str, ...] = (),
    look_at: str,
    thorough: bool = False,
    within: float = TIME_LIMIT,
) -> Callable[[Test], Callable[..., None]]:
    """Mark a coroutine function as a proof of ``numbers`` and run it on the suite's event loop.

    ``needs`` are words of ``NEEDS`` or "option:NAME"; without one of them the test is skipped and
    the verdict says why. ``within`` is the time limit in seconds. A module whose tests all are amid
    others, or faults, says so once: ``AMID = "others"``.
    """
    if not numbers or not look_at:
        raise ValueError("a proof needs a guarantee's number and a place to look at")
    for need in needs:
        if need not in NEEDS and not need.startswith("option:"):
            raise ValueError(f"{need!r} is no need; there are {sorted(NEEDS)} and option:NAME")

    def decorate(test: Test) -> Callable[..., None]:
        proof = Proof(
            numbers, needs, look_at, thorough, getattr(test, "__globals__", {}).get("AMID", "")
        )
        if not inspect.iscoroutinefunction(test):
            raise TypeError(f"{test.__name__} proves a guarantee, so it has to be `async def`")

        @functools.wraps(test)
        def run(lab: Lab, **values: Any) -> None:
            __tracebackhide__ = True
            lab.run(_in_time(test(lab, **values), within))

        run.__dict__["proof"] = proof
        return run

    return decorate


def proof_of(test: object) -> Proof | None:
    """What ``@proves`` said about a test; None for anything else."""
    proof: object = getattr(test, "proof", None)
    return proof if isinstance(proof, Proof) else None


async def _in_time(test: Coroutine[Any, Any, None], seconds: float) -> None:
    __tracebackhide__ = True
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await test
    except TimeoutError:
        if limit.expired():
            pytest.fail(f"took longer than {seconds:g} seconds")
        raise
