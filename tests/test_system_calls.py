"""What breaks system calls: which it chooses, and what it says without its tool."""

import random
from pathlib import Path

import pytest

from conformance_tests.faults import full_disk, system_calls
from conformance_tests.faults.command import COULD_NOT_RUN
from conformance_tests.faults.system_calls import Point, halved, in_turn
from conformance_tests.lab import Bench
from conformance_tests.opener import from_url


def points(operation: str, count: int) -> list[Point]:
    return [Point("kill", operation, cold=False, call="write", n=n) for n in range(count)]


def test_the_middle_comes_first_and_every_point_once() -> None:
    order = [point.n for point in halved(points("append", 7))]
    assert order == [3, 1, 5, 0, 2, 4, 6]
    assert halved([]) == []


def test_a_few_points_meet_every_operation() -> None:
    every = [*points("append", 9), *points("fork", 2), *points("clear", 5)]
    order = in_turn(every)
    assert [point.operation for point in order[:3]] == ["append", "fork", "clear"]
    assert sorted(map(str, order)) == sorted(map(str, every))


@pytest.mark.parametrize("seed", [0, 1, 5, 77, 10_571_216_864])
def test_with_any_seed_few_points_are_of_all_operations(seed: int) -> None:
    every = [*points("append", 3), *points("put result", 200), *points("fork", 4)]
    order = in_turn(every, seed)
    assert sorted(map(str, order)) == sorted(map(str, every))
    assert {point.operation for point in order[:3]} == {"append", "put result", "fork"}


def test_limits_lie_where_a_file_grew_or_where_a_new_one_may() -> None:
    rng, before, after = random.Random(0), {(1, 1): 100, (1, 2): 7}, {(1, 1): 150, (1, 2): 7}
    limits = [full_disk.limit_for(before, after, rng) for _ in range(200)]
    assert sum(100 <= limit < 150 for limit in limits) >= 50
    assert all(0 <= limit < full_disk.NEW_FILE for limit in limits)


def test_without_strace_the_verdict_and_the_command_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system_calls.missing.cache_clear()
    monkeypatch.setattr(system_calls, "STRACE", "")
    url = f"file:{tmp_path}/store"
    try:
        bench = Bench(from_url(url))
        unmet = bench.unmet("strace")
        bench.close()
        assert unmet is not None
        assert unmet.why.startswith("strace is not installed")
        assert system_calls.main(["--url", url, "--points", "1"]) == COULD_NOT_RUN
        assert "strace is not installed" in capsys.readouterr().err
    finally:
        system_calls.missing.cache_clear()
