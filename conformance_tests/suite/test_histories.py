"""Histories: many workers at once, every call and answer recorded, and judged exactly."""

import pytest

from conformance_tests.histories.checking import check
from conformance_tests.histories.driving import last_look
from conformance_tests.histories.processes import Work, in_processes, in_threads
from conformance_tests.histories.recording import Record
from conformance_tests.lab import Lab
from conformance_tests.proves import proves

AMID = "others"

TASKS = 16
PROCESSES = 4
SECONDS = 20.0
"""How long the workers of one history may take; then they leave the rest."""


def _work(lab: Lab, operations: int, workers: int, mix: str = "everything", seed: int = 0) -> Work:
    return Work(
        prefix=lab.new_id("history"),
        workers=range(workers),
        of=workers,
        steps=operations // workers,
        seed=lab.seed + seed,
        mix=mix,
        seconds=SECONDS,
    )


async def _judge(lab: Lab, records: list[Record]) -> None:
    verdict = check(records + await last_look([lab.backend, lab.reader], records))
    assert not verdict.faults, str(verdict)
    assert verdict.ran, str(verdict)
    assert not verdict.undecided, str(verdict)


@pytest.mark.parametrize("mix", ["everything", "appends", "forks", "lives"])
@proves(
    "ALL-6",
    "ALL-7",
    "ALL-9",
    "RUN-C3",
    "RUN-A4",
    "RUN-A5",
    "RUN-A6",
    "RUN-A7",
    "RUN-A10",
    "RUN-A11",
    "RUN-L1",
    "RUN-L3",
    "RUN-F8",
    "RUN-F9",
    "RUN-U1",
    "RUN-D4",
    "RUN-D5",
    needs=("runs",),
    look_at="which step of the operations named is not one with the step that writes",
    within=150,
)
async def test_one_order_explains_all_that_many_tasks_were_told(lab: Lab, mix: str) -> None:
    work = _work(lab, 1_000 if lab.quick else 2_000, TASKS, mix)
    await _judge(lab, await work.done([lab.backend, lab.reader]))


@proves(
    "ALL-6",
    "ALL-7",
    "RUN-C3",
    "RUN-A4",
    "RUN-A6",
    "RUN-A7",
    "RUN-F8",
    "RUN-F9",
    "RUN-D4",
    needs=("runs", "elsewhere"),
    look_at="locks and caches that hold for one process alone",
    thorough=True,
    within=400,
)
async def test_one_order_explains_all_that_many_processes_were_told(lab: Lab) -> None:
    source = lab.opener.source
    assert source is not None
    work = _work(lab, 4_000, 8 * PROCESSES)
    records = await in_processes(work, PROCESSES, opener=source.opener, url=source.url)
    await _judge(lab, records)


@proves(
    "ALL-6",
    "ALL-7",
    "RUN-A4",
    "RUN-F8",
    "RUN-D4",
    needs=("runs",),
    look_at="what threads share without a lock",
    thorough=True,
    within=150,
)
async def test_one_order_explains_all_that_many_threads_were_told(lab: Lab) -> None:
    if lab.backend.opened.loop_bound:
        lab.not_applicable("a client of this backend works from one event loop alone")
    work = _work(lab, 2_000, TASKS)
    await _judge(lab, await in_threads(work, 4, [lab.backend, lab.reader]))
