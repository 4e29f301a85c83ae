"""A folder, and a record of what was done to it.

What is synced is what had been done when the sync began: what was done while it was under way comes
behind it, as it need not have been taken along.
"""

import os.path
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from conformance_tests.faults.crash_states import (
    ROOT,
    Born,
    Change,
    Cut,
    Nodes,
    Renamed,
    Synced,
    Written,
    apply,
    reachable,
)


class Said(NamedTuple):
    """What the process told at this moment."""

    line: bytes


class Place(NamedTuple):
    """A name in a folder, and what bears it now. The name is "" for the folder itself."""

    folder: int
    name: str
    inode: int | None


class RecordedFolder:
    """The folder at ``path``, a real one, which was empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.nodes: Nodes = {ROOT: {}}
        self.count = 0
        """How much was recorded so far."""
        self._record: list[tuple[int, Change | Said]] = []
        self._next = ROOT + 1

    @property
    def record(self) -> list[Change | Said]:
        return [each for _, each in self._record]

    def add(self, change: Change | Said) -> None:
        self.count += 1
        self._record.append((self.count, change))
        if not isinstance(change, Said):
            apply(self.nodes, change)

    def data(self, inode: int) -> bytes:
        """What a file holds now."""
        data = self.nodes[inode]
        assert isinstance(data, bytes)
        return data

    def place(self, path: str, at: int | None) -> Place | None:
        """What a path names that begins in a folder of this one, or is absolute where that is None.

        None for one that lies elsewhere. Raises LookupError where its folder is not known.
        """
        path = os.path.normpath(path)
        if at is None:
            if path != self.path and not path.startswith(f"{self.path}/"):
                return None
            at, path = ROOT, os.path.relpath(path, self.path)
        if path == ".":
            return Place(0, "", at)
        *folders, name = path.split("/")
        for each in folders:
            at = self._names(at)[each]
        if name == "..":
            raise LookupError(path)
        return Place(at, name, self._names(at).get(name))

    def _names(self, folder: int) -> dict[str, int]:
        names = self.nodes[folder]
        if not isinstance(names, dict):
            raise LookupError("no folder")
        return names

    def born(self, place: Place, *, is_folder: bool) -> int:
        """A new file or folder, at a place or without a name; its inode."""
        inode, self._next = self._next, self._next + 1
        self.add(Born(inode, is_folder))
        if place.name:
            self.add(Renamed(((place.folder, place.name, inode),)))
        return inode

    def cut(self, inode: int, length: int) -> None:
        if len(self.data(inode)) != length:
            self.add(Cut(inode, length))

    def synced(self, inode: int, began: int, *, failed: bool) -> None:
        """A sync of a file or a folder that began when so much had been recorded."""
        late: list[tuple[int, Change | Said]] = []
        if began < self.count:
            kind = Renamed if isinstance(self.nodes[inode], dict) else Written | Cut
            for n, change in self._record:
                if n > began and isinstance(change, kind):
                    late += [(n, change)] if _is_of(change, inode) else []
            gone = {n for n, _ in late}
            self._record = [each for each in self._record if each[0] not in gone]
        self.add(Synced(inode, failed=failed))
        for _, change in late:
            self.count += 1
            self._record.append((self.count, change))


def _is_of(change: Renamed | Written | Cut, inode: int) -> bool:
    # Names may hang together over several folders, so none is told from another.
    return isinstance(change, Renamed) or change.inode == inode


def lay_out(nodes: Nodes, folder: Path) -> None:
    """Make a disk in a folder that is not there yet."""
    made: dict[int, Path] = {}
    stack = [(folder, ROOT)]
    while stack:
        path, inode = stack.pop()
        node = nodes[inode]
        if isinstance(node, dict):
            path.mkdir(0o700)
            stack += [(path / name, each) for name, each in node.items()]
        elif inode in made:
            path.hardlink_to(made[inode])
        else:
            path.write_bytes(node)
            path.chmod(0o600)
            made[inode] = path


def found_in(folder: Path) -> Nodes:
    """The disk that a folder is. Raises ValueError for what is neither a file nor a folder."""
    nodes: Nodes = {}
    numbers: dict[int, int] = {}

    def take(path: Path) -> int:
        inode = numbers.setdefault(path.lstat().st_ino, ROOT + len(numbers))
        if inode not in nodes:
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ValueError(f"{path.name} is neither a file nor a folder")
            if path.is_file():
                nodes[inode] = path.read_bytes()
            else:
                nodes[inode] = {}
                nodes[inode] = {each.name: take(each) for each in path.iterdir()}
        return inode

    take(folder)
    return nodes


def paths_of(nodes: Nodes) -> dict[str, int]:
    """All paths of files, from the folder on, with their inodes."""
    found: dict[str, int] = {}
    stack = [("", ROOT)]
    while stack:
        path, inode = stack.pop()
        node = nodes[inode]
        if isinstance(node, dict):
            stack += [(f"{path}/{name}", each) for name, each in node.items()]
        else:
            found[path.removeprefix("/")] = inode
    return found


def differences(seen: Nodes, there: Nodes, unseen: Collection[int]) -> list[str]:
    """The paths at which two disks differ; of the ``unseen`` files of the first, by their size."""
    seen, there, others = dict(seen), dict(there), paths_of(there)
    for path, inode in paths_of(seen).items():
        if inode in unseen and path in others:
            seen[inode] = bytes(len(seen[inode]))
            there[others[path]] = bytes(len(there[others[path]]))
    ours, theirs = dict(reachable(seen)), dict(reachable(there))
    every = sorted({*ours, *theirs})
    return [path.removeprefix("/") for path in every if ours.get(path, "") != theirs.get(path, "")]
