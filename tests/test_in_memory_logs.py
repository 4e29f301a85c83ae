"""How runs in memory share logs: what a fork copies and what it does not."""

from stores_core.in_memory.logs import Logs, View
from stores_core.ranges import MAX_RANGES


def chain(generations: int) -> tuple[Logs, View]:
    """A line of forks, each with one entry of its own."""
    logs = Logs()
    view = View(logs)
    for generation in range(generations):
        view = view.fork(view.count)
        view.append([b"%d" % generation])
    return logs, view


def test_a_fork_shares_every_entry_with_its_source() -> None:
    logs, source = chain(3)
    before = sum(len(log.entries) for log in logs.by_id.values())
    fork = source.fork(2)
    assert fork.read(0, 2) == [b"0", b"1"]
    assert sum(len(log.entries) for log in logs.by_id.values()) == before


def test_a_long_line_of_forks_stays_within_its_ranges_and_reads_in_order() -> None:
    _, view = chain(1_000)
    assert len(view.ranges) <= MAX_RANGES
    assert view.read(0, 1_000) == [b"%d" % number for number in range(1_000)]


def test_a_fork_that_cuts_most_ranges_off_copies_nothing() -> None:
    logs, source = chain(MAX_RANGES)
    assert len(source.ranges) == MAX_RANGES
    before = set(logs.by_id)
    source.fork(1)
    source.fork(0)
    assert set(logs.by_id) == before


def test_forks_of_one_run_join_its_ranges_once() -> None:
    logs, source = chain(MAX_RANGES)
    source.fork(source.count)
    joined = set(logs.by_id)
    for at in (source.count, source.count - 1, 5):
        source.fork(at)
    assert set(logs.by_id) == joined


def test_a_log_that_nobody_reads_any_more_goes_at_once() -> None:
    logs, view = chain(1)
    fork = view.fork(1)
    view.release()
    assert fork.read(0, 1) == [b"0"]
    fork.release()
    assert logs.by_id == {}
