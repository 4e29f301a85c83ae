"""Histories made for real: workers find races in racy stores, and none in good ones."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from conformance_tests.histories.__main__ import main
from conformance_tests.histories.checking import Verdict, check
from conformance_tests.histories.driving import drive, last_look
from conformance_tests.histories.planning import MIXES, plan
from conformance_tests.histories.recording import Record, read, write
from stores_core import Backend
from stores_core.in_memory.backend import open_memory
from tests.racy import RACY, Around, Slow, Unsure


async def history(store: Callable[[Any], Around], seed: int, steps: int = 45) -> list[Record]:
    """The records of 16 tasks over one store that stands before a good one."""
    async with open_memory() as good:
        runs: Any = store(good.runs.store)
        clients = [Backend(name="racy", runs=runs)]
        records = await drive(clients, prefix="h", workers=range(16), of=16, steps=steps, seed=seed)
        return records + await last_look([good], records)


async def verdict(store: Callable[[Any], Around], seed: int) -> Verdict:
    return check(await history(store, seed))


@pytest.mark.parametrize("racy", RACY)
async def test_a_race_is_found(racy: Callable[[Any], Around]) -> None:
    judged = await verdict(racy, 0)
    for seed in range(1, 5):
        if judged.faults:
            break
        judged = await verdict(racy, seed)
    assert judged.ran
    found = {fault.kind for fault in judged.faults}
    assert found & RACY[racy], f"found {found}"


@pytest.mark.parametrize("good", [Around, Slow, Unsure])
@pytest.mark.parametrize("seed", range(2))
async def test_a_good_store_is_sound(good: Callable[[Any], Around], seed: int) -> None:
    judged = await verdict(good, seed)
    assert not judged.faults, str(judged)
    assert judged.ran
    assert not judged.undecided
    assert judged.unclear < judged.operations / 4
    if good is not Around:
        assert judged.overlapping > judged.operations / 2


@pytest.mark.parametrize("mix", MIXES)
def test_what_is_sent_follows_from_the_seed(mix: str) -> None:
    def steps(seed: int, worker: int = 3) -> list[Any]:
        return list(islice(plan(seed, worker, 8, "p", mix), 300))

    assert steps(1) == steps(1)
    assert steps(1) != steps(2)
    assert steps(1) != steps(1, worker=4)
    assert {step.operation for step in steps(1)} >= MIXES[mix].keys()


async def test_no_run_has_more_keyed_batches_than_every_store_remembers() -> None:
    for workers in (1, 8, 32, 100):
        keyed: dict[str, int] = {}
        for worker in range(workers):
            for step in islice(plan(5, worker, workers, "p", "appends"), 2_000 // workers):
                if step.operation.startswith("append") and step.keyed:
                    keyed[step.run_id] = keyed.get(step.run_id, 0) + 1
        assert max(keyed.values()) <= 128


async def test_records_come_back_from_a_file_as_they_went_in(tmp_path: Path) -> None:
    records = await history(Unsure, 1, steps=20)
    write(records, tmp_path / "records.jsonl")
    assert list(read(tmp_path / "records.jsonl")) == records


@pytest.mark.long
def test_the_command_judges_threads_over_a_storage_in_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--url", "memory:", "--threads", "2", "--tasks", "4", "--operations", "20000"]
    assert main(arguments) == 0
    assert "no fault" in capsys.readouterr().out


@pytest.mark.long
def test_the_command_judges_processes_over_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:{tmp_path / 'stores.db'}"
    kept = tmp_path / "records.jsonl"
    arguments = ["--url", url, "--processes", "2", "--tasks", "4", "--operations", "240"]
    assert main([*arguments, "--records", str(kept)]) == 0
    assert "no fault" in capsys.readouterr().out
    assert not check(list(read(kept))).faults


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--url", "memory:", "--tasks", "2", "--operations", "8"], 3),
        (["--url", "memory:", "--processes", "2"], 2),
        (["--url", "nowhere:"], 2),
        ([], 2),
    ],
)
def test_the_command_is_never_green_for_nothing(arguments: list[str], code: int) -> None:
    assert main(arguments) == code
