"""What a network may do to a client, in twelve ways.

What the client is told has to be what has happened, as in :mod:`conformance_tests.faults.cutting`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from conformance_tests.faults.acting import OPERATIONS, prepare
from conformance_tests.faults.cutting import Lane, Outcome
from conformance_tests.faults.proxy import Fault, Proxy

SHORT = 0.5
"""Seconds of the time-out where an answer comes too late or never."""

ANY: Collection[Outcome] = ("done", "not applied", "unknown")
FAILS: Collection[Outcome] = ("not applied", "unknown")


@dataclass(frozen=True, slots=True)
class Mode:
    """``sets`` has it happen; ``ends`` is what a caller may be told then.

    ``timeout`` is what a client has to be opened with, in seconds.
    """

    sets: Callable[[Proxy], object]
    ends: Collection[Outcome] = ANY
    timeout: float = 30.0

    async def play(self, lane: Lane, name: str) -> None:
        """Do an operation meanwhile, and see what came of it. Raises AssertionError."""
        id = lane.new_id()
        await prepare(lane.straight, id)
        await lane.make(OPERATIONS[name], warm=True)
        self.sets(lane.proxy)
        outcome = await lane.told(name, id, name)
        assert outcome in self.ends, f"{name} was told {outcome}, which cannot be"


def _cut(fault: Fault) -> Callable[[Proxy], None]:
    return lambda proxy: proxy.cut(fault)


def _refuse(proxy: Proxy) -> None:
    proxy.refuse()
    proxy.cut_all()


def _close(proxy: Proxy) -> None:
    proxy.refusing = True
    proxy.cut_all()


def _delay(proxy: Proxy) -> None:
    proxy.delay = 2 * SHORT


def _trickle(proxy: Proxy) -> None:
    proxy.pieces, proxy.delay = 1, 0.01


def _swallow(proxy: Proxy) -> None:
    proxy.silent = True


def _break_under_load(proxy: Proxy) -> None:
    proxy.cut_again(20, every=0.001)


MODES: Mapping[str, Mode] = {
    "connections are refused": Mode(_refuse, FAILS),
    "connections are taken and closed": Mode(_close, FAILS),
    "the request is lost": Mode(_cut(Fault(request=0))),
    "the request is cut": Mode(_cut(Fault(request=7))),
    "the answer is lost": Mode(_cut(Fault(reply=0))),
    "the answer is cut": Mode(_cut(Fault(reply=3))),
    "the connection is reset": Mode(_cut(Fault(reply=0, reset=True))),
    "the answer comes too late": Mode(_delay, FAILS, SHORT),
    "the answer trickles": Mode(_trickle, ANY, SHORT),
    "nothing comes through": Mode(_swallow, FAILS, SHORT),
    "the connection is half open": Mode(Proxy.forget_all, FAILS, SHORT),
    "connections break again and again": Mode(_break_under_load),
}
