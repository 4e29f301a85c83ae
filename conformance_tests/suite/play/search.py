"""The search for a program that fails, and for the shortest of its kind."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from hypothesis import HealthCheck, Phase, Verbosity, configuration, given, seed, settings

from conformance_tests.lab import Lab
from conformance_tests.suite.play.programs import LENGTH, Failure, Program, Step, programs

SHORTER = 300
"""So many times a program is played at most to make a failing one shorter."""


async def explore(
    lab: Lab, *stores: str, examples: int, length: int = LENGTH, **setting: Any
) -> None:
    """Play so many programs at random, as ``--seed`` has them, or as many as ``--examples`` asks.

    Fails as the first one does that fails, once that has been made short.
    """
    search = _Search(lab)
    try:
        await search.run(lab.examples or examples, programs(stores, length, setting))
        await search.shorten()
    finally:
        if search.found is not None:  # also where the time is over
            raise search.found.told(lab.seed)


class _EnoughError(BaseException):
    """Ends Hypothesis, which goes on after exceptions of other kinds."""


class _Search:
    """Plays programs on the loop; Hypothesis, which draws them, runs in a thread.

    It draws only. To make a program shorter it would take thousands of others, since it does not
    know what a step is.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._loop = asyncio.get_running_loop()
        self._playing: Future[Failure | None] | None = None
        self._stopped = False
        self._left = SHORTER
        self.found: Failure | None = None

    async def run(self, examples: int, drawn: Any) -> None:
        """Play programs until one fails."""
        chosen = settings(
            max_examples=examples,
            phases=(Phase.generate,),
            database=None,
            deadline=None,
            suppress_health_check=_UNASKED,
            verbosity=Verbosity.quiet,
        )
        draw = seed(self._lab.seed)(chosen(given(drawn)(self._play)))
        with tempfile.TemporaryDirectory() as home:
            configuration.set_hypothesis_home_dir(home)  # or it writes into the working directory
            thread = asyncio.ensure_future(asyncio.to_thread(_to_the_end, draw))
            try:
                await asyncio.shield(thread)
            finally:
                self._stopped = True
                if self._playing is not None:
                    self._playing.cancel()
                await asyncio.wait([thread])
                configuration.set_hypothesis_home_dir(None)

    def _play(self, program: Program) -> None:
        if self._stopped:
            raise _EnoughError
        self._playing = asyncio.run_coroutine_threadsafe(program.play(self._lab), self._loop)
        try:
            self.found = self._playing.result()
        except CancelledError:
            raise _EnoughError from None
        if self.found is not None:
            raise _EnoughError

    async def shorten(self) -> None:
        """Leave out of the failing program what it fails without."""
        if self.found is not None:
            await self._leave_steps_out(self.found)
            await self._leave_arguments_out(self.found)
            await self._leave_steps_out(self.found, at_once=1)

    async def _leave_steps_out(self, found: Failure, at_once: int = 0) -> None:
        size = at_once or max(1, found.at // 2)
        while size:
            start = 0
            while start < len(found.program.steps):
                steps = found.program.steps
                shorter = replace(found.program, steps=steps[:start] + steps[start + size :])
                found, was = await self._fails_too(shorter, found), found
                start += size if found is was else 0
            size //= 2

    async def _leave_arguments_out(self, found: Failure) -> None:
        for name in ("tenants", "clients"):
            setting = {**found.program.setting, name: 1}
            found = await self._fails_too(replace(found.program, setting=setting), found)
        at = 0
        while at < len(found.program.steps):
            for field in list(found.program.steps[at][2]):
                found = await self._leave_argument_out(found, at, field)
            at += 1

    async def _leave_argument_out(self, found: Failure, at: int, field: str) -> Failure:
        if at < len(found.program.steps):
            for step in _simpler(found.program.steps[at], field):
                steps = [*found.program.steps]
                steps[at] = step
                failure = await self._fails_too(replace(found.program, steps=steps), found)
                if failure is not found:
                    return failure
        return found

    async def _fails_too(self, program: Program, found: Failure) -> Failure:
        """The failure of this program, if it fails and in the same way, else what was found."""
        if self._left and program != found.program:
            self._left -= 1
            failure = await program.play(self._lab)
            if failure is not None and type(failure.error) is type(found.error):
                self.found = failure
                return failure
        return found


def _simpler(step: Step, field: str) -> Iterator[Step]:
    """The step without an argument, or with a smaller one."""
    part, name, fields = step
    yield part, name, {name: value for name, value in fields.items() if name != field}
    value = fields[field]
    if isinstance(value, tuple):
        smaller: list[Any] = [(), cast("tuple[Any, ...]", value)[:1]]
    else:
        smaller = [0, 1, 2] if type(value) is int and value > 0 else []
    for one in smaller:
        yield part, name, {**fields, field: one}


_UNASKED = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.filter_too_much,
)


def _to_the_end(draw: Callable[[], None]) -> None:
    with suppress(_EnoughError):
        draw()
