"""Programs at random: every answer is what an oracle of plain lists and dicts has in its place.

A program takes some fifty steps on the stores, by several clients of one or two tenants, which are
closed and opened again between them; at its end all that is there is compared.
"""

from conformance_tests.lab import Lab
from conformance_tests.proves import proves
from conformance_tests.suite.play.search import explore

LOOK_AT = "the step that the failure names; the program before it is as short as could be found"
PATIENCE = 3_600.0


def how_many(lab: Lab) -> int:
    return 4 if lab.quick else 28


@proves(
    *("RUN-C1", "RUN-C2", "RUN-A1", "RUN-A2", "RUN-A3", "RUN-A5", "RUN-A6", "RUN-A7", "RUN-A8"),
    *("RUN-A9", "RUN-A10", "RUN-A11", "RUN-L1", "RUN-L2", "RUN-L3"),
    *("RUN-F1", "RUN-F2", "RUN-F3", "RUN-F4", "RUN-F5", "RUN-F6", "RUN-F11"),
    *("RUN-Q1", "RUN-Q2", "RUN-Q5", "RUN-U1", "RUN-D1", "RUN-D2", "RUN-D3", "RUN-D5"),
    *("ALL-1", "ALL-4", "ALL-6", "ALL-12"),
    needs=("runs", "clock"),
    look_at=LOOK_AT,
    within=PATIENCE,
)
async def test_runs_do_what_plain_lists_do(lab: Lab) -> None:
    await explore(lab, "runs", examples=how_many(lab))


@proves(
    *("MEM-1", "MEM-2", "MEM-3", "MEM-4", "MEM-5", "MEM-6", "MEM-7", "MEM-8", "MEM-9", "MEM-10"),
    *("MEM-12", "MEM-13", "SUB-1", "SUB-2", "ALL-1", "ALL-6"),
    needs=("memory", "clock"),
    look_at=LOOK_AT,
    within=PATIENCE,
)
async def test_notes_do_what_plain_dicts_do(lab: Lab) -> None:
    await explore(lab, "memory", examples=how_many(lab))


@proves(
    *("EMB-1", "EMB-2", "EMB-3", "EMB-5", "MEM-4", "MEM-7", "MEM-10"),
    needs=("memory", "clock", "embeddings", "tenant"),
    look_at=LOOK_AT,
    within=PATIENCE,
)
async def test_notes_are_recalled_as_their_cosines_say(lab: Lab) -> None:
    await explore(lab, "memory", examples=how_many(lab), embedding=True)


@proves(
    *("TOOL-1", "TOOL-2", "TOOL-3", "TOOL-4", "TOOL-6", "TOOL-7", "ALL-1", "ALL-6"),
    needs=("tool_results", "clock"),
    look_at=LOOK_AT,
    within=PATIENCE,
)
async def test_tool_results_do_what_a_plain_dict_does(lab: Lab) -> None:
    await explore(lab, "tool_results", examples=how_many(lab))


@proves(
    *("ALL-3", "ALL-6", "ALL-10", "ALL-12"),
    needs=("runs", "memory", "tool_results", "clock", "tenant"),
    look_at=LOOK_AT,
    within=PATIENCE,
)
async def test_two_tenants_with_the_same_ids_are_worlds_of_their_own(lab: Lab) -> None:
    await explore(lab, "runs", "memory", "tool_results", examples=how_many(lab) // 2, tenants=2)
