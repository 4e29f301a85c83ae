"""What a crash of the machine may leave of a simulated disk.

What was synced is there. Of the rest anything may be: names that were made, moved or taken away may
be missing, in any folder from any moment on (a rename is there or not, in both folders at once);
what was written to files may be missing, cut, zero in part, or there while what was written before
it, to this file or another, is not.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import cast

from tests.files_simulated import ROOT, Born, Change, Cut, Nodes, Renamed, Synced, Written, changed
from tests.files_simulated import renamed as rename

FEW = 5
"""Of so many changes of names, all subsets are looked at."""

PARTS = 48
"""A write is cut at the ends of so many parts of it."""


class Platter:
    """What is on the disk for certain, and what is on its way there."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = dict(nodes)
        self._names: list[Renamed] = []
        self._data: dict[int, list[Written | Cut]] = {}
        self._lost: dict[int, list[Written | Cut]] = {}

    def take(self, change: Change) -> None:
        match change:
            case Born():
                self.nodes[change.inode] = {} if change.is_folder else b""
            case Renamed():
                self._names.append(change)
            case Written() | Cut():
                self._data.setdefault(change.inode, []).append(change)
            case Synced() if isinstance(self.nodes[change.inode], dict):
                self._sync_names(change.inode)
            case Synced():
                pending = self._data.pop(change.inode, [])
                if change.failed:
                    self._lost.setdefault(change.inode, []).extend(pending)
                elif change.inode not in self._lost:
                    for each in pending:
                        self._change(self.nodes, each)
                else:  # what a failed sync was for stays lost; no caller should be here
                    self._lost[change.inode].extend(pending)

    def _sync_names(self, folder: int) -> None:
        # What was done before in the same folders is there too.
        touched, kept, synced = {folder}, list[Renamed](), list[Renamed]()
        for change in reversed(self._names):
            folders = {each[0] for each in change.changes}
            if folders & touched:
                touched |= folders
                synced.append(change)
            else:
                kept.append(change)
        for change in reversed(synced):
            rename(self.nodes, change)
        self._names = kept[::-1]

    @staticmethod
    def _change(nodes: Nodes, change: Written | Cut) -> None:
        data = nodes[change.inode]
        assert isinstance(data, bytes)
        nodes[change.inode] = changed(data, change)

    def states(self, rng: random.Random, most: int) -> Iterator[Nodes]:
        """Up to ``most`` disks that a crash now may leave; all of them where they are fewer."""
        pending = {
            inode: self._lost.get(inode, []) + self._data.get(inode, [])
            for inode in {*self._lost, *self._data}
        }
        names = list(self._name_sets(rng))
        inodes = list(pending)
        contents = [self._contents(inode, changes) for inode, changes in pending.items()]
        for chosen, *held in _drawn([names, *contents], rng, most):
            nodes = dict(self.nodes)
            nodes.update(zip(inodes, cast(list[bytes], held), strict=True))
            for change in cast(tuple[Renamed, ...], chosen):
                rename(nodes, change)
            yield nodes

    def _name_sets(self, rng: random.Random) -> Iterator[tuple[Renamed, ...]]:
        """The subsets of the pending changes in which each folder has a beginning of its own."""
        count = len(self._names)
        if count <= FEW:
            masks = range(1 << count)
        else:
            drawn = [
                sum(1 << n for n in range(count) if rng.random() < odds)
                for odds in (0.3, 0.5, 0.7, 0.8, 0.9)
                for _ in range(4)
            ]
            prefixes = [(1 << n) - 1 for n in range(count)]
            masks = dict.fromkeys([0, *prefixes, *drawn, (1 << count) - 1])
        found: dict[tuple[Renamed, ...], None] = {}
        for mask in masks:
            missing: set[int] = set()
            taken: list[Renamed] = []
            for n, change in enumerate(self._names):
                folders = {each[0] for each in change.changes}
                if mask >> n & 1 and not folders & missing:
                    taken.append(change)
                else:
                    missing |= folders
            found[tuple(taken)] = None
        yield from found

    def _contents(self, inode: int, changes: Sequence[Written | Cut]) -> list[bytes]:
        """What may be in a file: nothing of the changes first, all of them last."""
        data = self.nodes[inode]
        assert isinstance(data, bytes)
        steps = [data]
        for change in changes:
            steps.append(changed(steps[-1], change))
        found = dict.fromkeys(steps[:-1])
        if len(changes) > 1:
            found[changed(data, changes[-1])] = None  # the last without those before it
        for before, change in zip(steps, changes, strict=False):
            if isinstance(change, Written):
                found.update(dict.fromkeys(_partly(before, change)))
        found.pop(steps[-1], None)
        return [*found, steps[-1]]


def _drawn(
    axes: Sequence[Sequence[object]], rng: random.Random, most: int
) -> Iterator[Sequence[object]]:
    """One of each axis: all ways if they are few, else the first, the last and some at random."""
    if prod(map(len, axes)) <= most:
        yield from product(*axes)
        return
    yield [axis[0] for axis in axes]
    yield [axis[-1] for axis in axes]
    for _ in range(most - 2):
        yield [rng.choice(axis) for axis in axes]


def _partly(before: bytes, change: Written) -> Iterator[bytes]:
    """What a write may leave that was not finished: cut, zero at an end, or with a hole."""
    size, data = len(change.data), change.data
    cuts = {1, size - 1, *(size * n // PARTS for n in range(1, PARTS))}
    for cut in sorted(cut for cut in cuts if 0 < cut < size):
        yield changed(before, change._replace(data=data[:cut]))
        yield changed(before, change._replace(data=data[:cut].ljust(size, b"\0")))
        yield changed(before, change._replace(data=data[cut:].rjust(size, b"\0")))
    yield changed(before, change._replace(data=bytes(size)))


def reachable(nodes: Nodes) -> frozenset[tuple[str, object]]:
    """Equal for disks on which the same is to be found, whatever the inodes are."""
    found: list[tuple[str, object]] = []
    first: dict[int, str] = {}
    stack: list[tuple[str, int]] = [("", ROOT)]
    while stack:
        path, inode = stack.pop()
        node = nodes[inode]
        if isinstance(node, dict):
            found.append((path, None))
            stack.extend((f"{path}/{name}", each) for name, each in sorted(node.items()))
        elif inode in first:
            found.append((path, first[inode]))
        else:
            first[inode] = path
            found.append((path, node))
    return frozenset(found)
