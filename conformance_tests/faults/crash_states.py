"""What a crash of the machine may leave of a disk, by the changes that were made to it.

What was synced is there. Of the rest anything may be: names that were made, moved or taken away may
be missing, in any folder from any moment on (a rename is there or not, in both folders at once);
what was written to files may be missing, cut, zero in part, or there while what was written before
it, to this file or another, is not.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import NamedTuple, cast

ROOT = 1
"""The inode of the folder that is looked at."""

FEW = 5
"""Of so many changes of names, all subsets are looked at."""

PARTS = 48
"""A write is cut at the ends of so many parts of it."""

Names = dict[str, int]
Nodes = dict[int, bytes | Names]
"""By inode: a file's bytes, or the names in a folder with their inodes. Values are replaced, never
changed, so that a copy of the outer dict is a copy of the disk."""


class Born(NamedTuple):
    """A file or folder that has no name yet."""

    inode: int
    is_folder: bool


class Renamed(NamedTuple):
    """Names that change in one step: folder, name, and the inode that bears it then, or None."""

    changes: tuple[tuple[int, str, int | None], ...]


class Written(NamedTuple):
    """Bytes of a file; ``through`` to the disk where it is on it as soon as it is done."""

    inode: int
    offset: int
    data: bytes
    through: bool = False


class Cut(NamedTuple):
    inode: int
    length: int


class Synced(NamedTuple):
    """A file or a folder; where it ``failed``, what it was for will not be written any more."""

    inode: int
    failed: bool = False


Change = Born | Renamed | Written | Cut | Synced


def changed(data: bytes, change: Written | Cut) -> bytes:
    """A file's bytes after a change. Holes are zero."""
    if isinstance(change, Cut):
        return data[: change.length].ljust(change.length, b"\0")
    head = data[: change.offset].ljust(change.offset, b"\0")
    return head + change.data + data[change.offset + len(change.data) :]


def renamed(nodes: Nodes, change: Renamed) -> None:
    """Apply a change of names."""
    for folder, name, inode in change.changes:
        names = nodes[folder]
        assert isinstance(names, dict)
        names = {each: to for each, to in names.items() if each != name}
        nodes[folder] = names if inode is None else {**names, name: inode}


def apply(nodes: Nodes, change: Change) -> None:
    """Apply any change, as whoever made it sees the disk then."""
    match change:
        case Born():
            nodes[change.inode] = {} if change.is_folder else b""
        case Renamed():
            renamed(nodes, change)
        case Written() | Cut():
            data = nodes[change.inode]
            assert isinstance(data, bytes)
            nodes[change.inode] = changed(data, change)
        case Synced():
            pass


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
                apply(self.nodes, change)
            case Renamed():
                self._names.append(change)
            case Written(through=True):
                self._write_through(change)
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
                        apply(self.nodes, each)
                else:  # what a failed sync was for stays lost; no caller should be here
                    self._lost[change.inode].extend(pending)

    def _write_through(self, change: Written) -> None:
        # It takes nothing else along; only what it lies upon has to be there before it.
        pending = self._data.get(change.inode, [])
        if any(_meet(each, change) for each in pending):
            self.take(Synced(change.inode))
        apply(self.nodes, change)

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
            renamed(self.nodes, change)
        self._names = kept[::-1]

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
            contained = [content() for content in cast(list[Callable[[], bytes]], held)]
            nodes.update(zip(inodes, contained, strict=True))
            for change in cast(tuple[Renamed, ...], chosen):
                renamed(nodes, change)
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

    def _contents(
        self, inode: int, changes: Sequence[Written | Cut]
    ) -> Sequence[Callable[[], bytes]]:
        """What may be in a file: nothing of the changes first, all of them last.

        Of many writes to a large file this is a great deal, so each is made when it is drawn.
        """
        data, count = self.nodes[inode], len(changes)
        assert isinstance(data, bytes)
        found = [partial(_held, data, changes[:n]) for n in range(count)]
        if count > 1:  # each without one of those before it, and the last without all of them
            found += [
                partial(_held, data, [*changes[:n], *changes[n + 1 :]]) for n in range(count - 1)
            ]
            found.append(partial(_held, data, changes[-1:]))
        for n, change in enumerate(changes):
            if isinstance(change, Written):
                found += [partial(_held, data, changes[:n], part) for part in _parts(change)]
        return [*found, partial(_held, data, changes)]


def _meet(earlier: Written | Cut, later: Written) -> bool:
    if isinstance(earlier, Cut):
        return True
    ends = earlier.offset + len(earlier.data), later.offset + len(later.data)
    return earlier.offset < ends[1] and later.offset < ends[0]


def _held(
    data: bytes, changes: Sequence[Written | Cut], last: Callable[[], Written] | None = None
) -> bytes:
    for change in changes:
        data = changed(data, change)
    return changed(data, last()) if last is not None else data


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


def _parts(change: Written) -> Iterator[Callable[[], Written]]:
    """What a write may leave that was not finished: cut, zero at an end, or with a hole."""
    size = len(change.data)
    cuts = {1, size - 1, *(size * n // PARTS for n in range(1, PARTS))}
    for cut in sorted(cut for cut in cuts if 0 < cut < size):
        yield from (partial(_part, change, cut, how) for how in ("cut", "zero behind", "zero"))
    yield partial(_part, change, 0, "zero behind")


def _part(change: Written, cut: int, how: str) -> Written:
    data, size = change.data, len(change.data)
    if how == "cut":
        return change._replace(data=data[:cut])
    if how == "zero behind":
        return change._replace(data=data[:cut].ljust(size, b"\0"))
    return change._replace(data=data[cut:].rjust(size, b"\0"))


def left_at(
    platter: Platter, changes: Sequence[Change], moments: Mapping[int, int], rng: random.Random
) -> Iterator[tuple[int, Nodes]]:
    """Disks that a crash before the n-th of these changes may leave: for each n up to so many as
    ``moments`` says. Behind them all n is ``len(changes)``. The platter takes the changes."""
    for n in range(len(changes) + 1):
        if n in moments:
            yield from ((n, left) for left in platter.states(rng, moments[n]))
        if n < len(changes):
            platter.take(changes[n])


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
