"""How a run shares its past: a log is read as ranges, prefixes of append-only logs.

A fork takes over the ranges of its source, cut at the fork point, and writes to a log of its own.
So it costs the number of ranges, and that number is bounded by joining neighbours now and then.
"""

from collections.abc import Sequence

MAX_RANGES = 64


def cut(lengths: Sequence[int], count: int) -> list[int]:
    """The lengths of the ranges that hold the first ``count`` entries."""
    taken: list[int] = []
    for length in lengths:
        if count <= 0:
            break
        taken.append(min(length, count))
        count -= length
    return taken


def join(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Which neighbouring ranges to copy into one: groups as (first, last + 1), in order.

    Nothing is joined below 64 ranges, which leaves one for the log that the run will write. From
    there on, ranges are taken from the left onto a stack, and a range swallows the one before it
    while that one's size class (the bit length of its length) is not the greater. What is left has
    strictly falling size classes, so at most one range for each bit of the run's length.

    Each time an entry is copied because a later range swallowed its own, the size class of its
    range grows; it is copied once more at most, in the range that did the swallowing when that was
    new. Hence, in a line of forks that take all, floor(log2(n)) + 1 copies of an entry over all
    generations, as in the logarithmic method of Bentley and Saxe (1980). A fork that cuts a range
    takes size classes from it, and each of these may be copied back once.
    """
    groups: list[tuple[int, int]] = []
    if len(lengths) < MAX_RANGES:
        return [(index, index + 1) for index in range(len(lengths))]
    sizes: list[int] = []
    for index, length in enumerate(lengths):
        first = index
        while sizes and sizes[-1].bit_length() <= length.bit_length():
            length += sizes.pop()
            first = groups.pop()[0]
        sizes.append(length)
        groups.append((first, index + 1))
    return groups
