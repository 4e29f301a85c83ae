"""Sharing prefixes: forks of forks stay within 64 ranges, whatever is appended and cut."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores_core.ranges import MAX_RANGES, cut, join

lengths = st.lists(st.integers(1, 300) | st.sampled_from([1, 2**10, 2**20]), max_size=90)


class Lineage:
    """A run, its fork, the fork of that and so on, as a store keeps them by ``ranges``.

    Each entry is a number that no other has. For each, ``copies`` counts how often it was copied,
    and ``lost`` how many size classes its range lost by cuts.
    """

    def __init__(self) -> None:
        self.ranges: list[list[int]] = []
        self.entries: list[int] = []
        self.copies: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.lost: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.longest = 0
        self.joins: list[int] = []
        self._made = self._forks = 0

    def fork(self, keep: int | None = None) -> None:
        """Go on with a fork that takes over the first ``keep`` entries, or all."""
        self._forks += 1
        if len(self.ranges) >= MAX_RANGES:
            self._join()
        if keep is not None:
            self._cut(keep)

    def append(self, count: int) -> None:
        """Write to the log of the run's own."""
        new = list(range(self._made, self._made + count))
        self._made += count
        self.entries += new
        if new:
            self.ranges.append(new)
        self.copies = np.append(self.copies, np.zeros(count, np.int64))
        self.lost = np.append(self.lost, np.zeros(count, np.int64))
        self.longest = max(self.longest, len(self.entries))

    def _join(self) -> None:
        joined: list[list[int]] = []
        position = 0
        for first, last in join([len(part) for part in self.ranges]):
            parts = self.ranges[first:last]
            joined.append([entry for part in parts for entry in part])
            end = position + len(joined[-1])
            if len(parts) > 1:
                self.copies[position:end] += 1
            position = end
        self.ranges = joined
        self.joins.append(self._forks)

    def _cut(self, keep: int) -> None:
        taken = cut([len(part) for part in self.ranges], keep)
        if taken:
            before = len(self.ranges[len(taken) - 1]).bit_length()
            self.lost[sum(taken[:-1]) : sum(taken)] += before - taken[-1].bit_length()
        self.ranges = [part[:length] for part, length in zip(self.ranges, taken, strict=False)]
        self.entries = self.entries[:keep]
        self.copies, self.lost = self.copies[:keep], self.lost[:keep]


@given(lengths, st.integers(-5, 20_000))
def test_a_cut_takes_exactly_the_first_entries(sizes: list[int], count: int) -> None:
    taken = cut(sizes, count)
    assert sum(taken) == max(0, min(count, sum(sizes)))
    assert all(taken)
    assert taken[:-1] == sizes[: len(taken)][:-1]
    assert all(part <= whole for part, whole in zip(taken, sizes, strict=False))


@given(lengths)
def test_joining_keeps_every_range_once_and_in_order(sizes: list[int]) -> None:
    groups = join(sizes)
    assert [index for first, last in groups for index in range(first, last)] == [*range(len(sizes))]


@given(lengths)
def test_nothing_is_joined_while_there_is_room_for_one_more(sizes: list[int]) -> None:
    few = sizes[: MAX_RANGES - 1]
    assert join(few) == [(index, index + 1) for index in range(len(few))]


@given(lengths, st.lists(st.integers(1, 9), min_size=MAX_RANGES, max_size=MAX_RANGES))
def test_joined_ranges_have_strictly_falling_size_classes(
    sizes: list[int], more: list[int]
) -> None:
    sizes += more
    joined = [sum(sizes[first:last]) for first, last in join(sizes)]
    classes = [length.bit_length() for length in joined]
    assert all(left > right for left, right in pairwise(classes))
    assert len(joined) <= sum(sizes).bit_length()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 300)), max_size=400))
def test_forks_of_forks_read_their_entries_in_order_from_at_most_64_ranges(
    steps: list[tuple[int, int | None]],
) -> None:
    run = Lineage()
    for count, keep in steps:
        expected = run.entries if keep is None else run.entries[:keep]
        run.fork(keep)
        assert [entry for part in run.ranges for entry in part] == expected
        run.append(count)
        assert [entry for part in run.ranges for entry in part] == run.entries
        assert len(run.ranges) <= MAX_RANGES


def sawtooth(generation: int) -> int:
    return 1 << (generation % 8)


def falling(generation: int) -> int:
    return max(1, 1_000 >> (generation % 128))


def just_as_long(generation: int) -> int:
    """As many as there are, whenever a join is due: each join then copies as much as it can."""
    return 1 if generation % 60 else min(2_000, 1 << (generation // 60))


SIZES: dict[str, Callable[[int], int]] = {
    "one entry": lambda generation: 1,
    "a turn of five": lambda generation: 5,
    "none, often": lambda generation: int(generation % 3 == 0),
    "a long start": lambda generation: 1 if generation else 50_000,
    "a sawtooth of powers": sawtooth,
    "falling sizes": falling,
    "as long as the run": just_as_long,
    "growing": lambda generation: 1 + generation // 100,
}


def may_be_copied(run: Lineage) -> int:
    """floor(log2(n)) + 1 for the greatest length n that the lineage had."""
    return run.longest.bit_length()


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_over_thousands_of_generations_no_entry_is_copied_more_than_log_n_plus_one_times(
    sizes: Callable[[int], int],
) -> None:
    run = Lineage()
    for generation in range(3_000):
        run.append(sizes(generation))
        run.fork()
    assert run.joins
    assert run.copies.max() <= may_be_copied(run)


@settings(max_examples=12, deadline=None)
@given(st.integers(), st.sampled_from([1, 2, 10, 100]))
def test_random_sizes_do_not_change_that_bound(seed: int, most: int) -> None:
    random, run = Random(seed), Lineage()
    for _ in range(1_000):
        run.append(random.choice([1, random.randint(0, most), most]))
        run.fork()
    assert run.copies.max() <= may_be_copied(run)


def back_to_the_start(random: Random, run: Lineage) -> int | None:
    return 1 if len(run.ranges) < 20 and run.joins and random.random() < 0.1 else None


def half(random: Random, run: Lineage) -> int | None:
    return len(run.entries) // 2 if random.random() < 0.02 else None


def anywhere(random: Random, run: Lineage) -> int | None:
    return random.randint(0, len(run.entries)) if random.random() < 0.02 else None


def a_little(random: Random, run: Lineage) -> int | None:
    return len(run.entries) - 1 if random.random() < 0.5 else None


CUTS: Sequence[Callable[[Random, Lineage], int | None]] = (
    back_to_the_start,
    half,
    anywhere,
    a_little,
)


@pytest.mark.parametrize("choose", CUTS)
@pytest.mark.parametrize("most", [1, 30])
def test_a_cut_allows_as_many_more_copies_as_the_size_classes_it_took(
    choose: Callable[[Random, Lineage], int | None], most: int
) -> None:
    random, run = Random(most), Lineage()
    for _ in range(3_000):
        run.append(random.randint(1, most))
        run.fork(choose(random, run))
        assert (run.copies <= may_be_copied(run) + run.lost).all()
    assert len(run.joins) > 5


@pytest.mark.parametrize("choose", CUTS)
def test_a_lineage_joins_no_more_often_than_every_64_less_log_n_forks(
    choose: Callable[[Random, Lineage], int | None],
) -> None:
    random, run = Random(7), Lineage()
    for generation in range(3_000):
        run.append(1 + generation % 4)
        run.fork(choose(random, run))
    assert len(run.joins) > 5
    apart = [after - before for before, after in pairwise(run.joins)]
    assert all(count >= MAX_RANGES - may_be_copied(run) for count in apart)
