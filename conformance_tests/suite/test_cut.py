"""Connections to the server that are cut, delayed or swallowed: what is told has happened."""

import random

import pytest

from conformance_tests.faults.acting import OPERATIONS
from conformance_tests.faults.cutting import Point, lane_to
from conformance_tests.faults.modes import MODES
from conformance_tests.faults.proxy import Fault
from conformance_tests.lab import Lab
from conformance_tests.proves import proves

AMID = "faults"
CUTS = 10


@pytest.mark.parametrize("name", OPERATIONS)
@proves(
    "ALL-8",
    "ALL-9",
    "RUN-A7",
    needs=("server",),
    within=120,
    look_at="what a lost connection is taken for, and what a driver sends again by itself",
)
async def test_cut_at_a_byte_of_a_reply_it_is_told_what_is_true(lab: Lab, name: str) -> None:
    operation = OPERATIONS[name]
    if operation.store not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{operation.store}`")
    rng, met = random.Random(f"{lab.seed} {name}"), 0
    async with lane_to(lab.opener) as lane:
        for warm in (True, False):
            sizes = await lane.replies(operation, warm=warm)
            if not sizes:
                lab.not_run("the operation did not ask the server by way of the proxy")
            every = [
                Fault(reply=byte, after=after, reset=byte % 2 > 0)
                for after, size in enumerate(sizes)
                for byte in range(size)
            ]
            # At the first byte of the last reply all is done, and nothing of it known.
            some = [Fault(reply=0, after=len(sizes) - 1)]
            some += rng.sample(every, min(len(every), CUTS - 1))
            for fault in some:
                met += await lane.cut(Point(name, fault, warm))
    if met < CUTS:
        lab.not_run(f"of {2 * CUTS} cuts {met} met a reply: the client goes around the proxy")


@pytest.mark.parametrize("mode", MODES)
@proves(
    "ALL-8",
    needs=("server",),
    within=120,
    look_at="what a client takes for an answer, and how long it waits for one",
)
async def test_whatever_a_network_does_it_is_told_what_is_true(lab: Lab, mode: str) -> None:
    async with lane_to(lab.opener, timeout=MODES[mode].timeout) as lane:
        for name in ("append", "create", "fork", "put note", "put result", "delete"):
            if OPERATIONS[name].store in lab.backend.offered:
                await MODES[mode].play(lane, name)
