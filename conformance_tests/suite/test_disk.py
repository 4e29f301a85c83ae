"""A disk that fails, or is full, under a process; one that is killed between two system calls; and
what lies on the disk when the power fails.

Where a server writes there is nothing to break here: it has to be killed itself, or cut off.
"""

from typing import Any

from conformance_tests.faults import full_disk, power_cuts, system_calls
from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.apart import told_by

AMID = "faults"
LEAST = 4
"""Faults met, below which a test says nothing."""


async def _told(lab: Lab, module: str, made: str, count: int, *more: str) -> dict[str, Any]:
    """What came of so many faults, made by processes of their own."""
    if lab.opener.server:
        lab.not_applicable("its server writes, not this process")
    told = await told_by(lab, module, made, count, lab.seed * count, *more)
    if "unproved" in told:
        lab.not_run(told["unproved"])
    if not told[made] and not told["not_run"]:
        lab.not_applicable("the process that asks changes no files")
    if told[made] < LEAST:
        lab.not_run(f"of {count} faults {told[made]} were met")
    return told


@proves(
    *("ALL-6", "ALL-8", "RUN-C4", "RUN-F7", "MEM-8", "TOOL-3"),
    needs=("lasting", "elsewhere", "strace"),
    thorough=True,
    within=300,
    look_at="what is written in several steps, and what finds it when the storage is opened again",
)
async def test_killed_at_a_system_call_it_has_happened_or_has_not(lab: Lab) -> None:
    await _told(lab, system_calls.__name__, "points", 16, "--fault", "kill")


@proves(
    *("ALL-6", "ALL-8", "RUN-C4", "RUN-F7", "TOOL-3"),
    needs=("lasting", "elsewhere", "strace"),
    thorough=True,
    within=300,
    look_at="errors that are swallowed, and what was written before them",
)
async def test_when_a_system_call_fails_it_is_told_what_is_true(lab: Lab) -> None:
    await _told(lab, system_calls.__name__, "points", 32, "--fault", "error")


@proves(
    *("ALL-6", "ALL-8"),
    needs=("lasting", "elsewhere", "strace"),
    thorough=True,
    within=300,
    look_at="writes that are acknowledged before they are synced, or whose sync may fail",
)
async def test_what_cannot_be_synced_is_not_told_done(lab: Lab) -> None:
    if lab.backend.durability.value not in system_calls.SURVIVES_A_CRASH:
        lab.not_applicable(f"durability {lab.backend.durability.value}: it need not wait")
    await _told(lab, system_calls.__name__, "points", 0, "--fault", "unsynced")


@proves(
    *("ALL-6", "ALL-8", "RUN-A4", "RUN-F7", "TOOL-3"),
    needs=("lasting", "elsewhere", "strace"),
    thorough=True,
    within=300,
    look_at="what is taken back when there is no space, and what a client remembers of it",
)
async def test_without_space_nothing_is_applied_and_with_space_all_goes_on(lab: Lab) -> None:
    await _told(lab, system_calls.__name__, "points", 16, "--fault", "full")


@proves(
    *("ALL-6", "ALL-8", "RUN-A4", "RUN-F7", "TOOL-3"),
    needs=("lasting", "elsewhere"),
    thorough=True,
    within=300,
    look_at="writes that are cut short, and what is cut back after one",
)
async def test_where_a_file_may_not_grow_nothing_is_left_in_part(lab: Lab) -> None:
    if not full_disk.possible():
        lab.not_applicable("this system does not tell which files a process has open")
    await _told(lab, full_disk.__name__, "limits", 32)


@proves(
    *("ALL-6", "ALL-8", "RUN-C4", "RUN-A4", "RUN-F7", "MEM-8", "TOOL-3"),
    needs=("lasting", "elsewhere", "strace"),
    thorough=True,
    within=300,
    look_at="files that get their name before they are synced, folders that are not, and the order",
)
async def test_when_the_power_fails_what_was_told_is_there_and_nothing_in_part(lab: Lab) -> None:
    if lab.opener.placed_in is None and not lab.opener.server:
        lab.not_run(power_cuts.NO_PLACE)
    await _told(lab, power_cuts.__name__, "states", 144)
