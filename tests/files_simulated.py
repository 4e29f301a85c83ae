"""A disk in memory that keeps a record of what was done to it, and fails where it is told to.

It stands in for stores_files.disk.Disk, call by call. What a crash of the machine may leave is made
of the record by conformance_tests/faults/crash_states.py.
"""

import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Generator
from typing import ClassVar

from conformance_tests.faults.crash_states import (
    ROOT,
    Born,
    Change,
    Cut,
    Names,
    Nodes,
    Renamed,
    Synced,
    Written,
    changed,
    renamed,
)
from stores_files.disk import Disk, NotAFileError


def _error(code: int) -> OSError:
    return OSError(code, errno.errorcode[code])


class SimulatedDisk(Disk):
    """``fail`` is asked before each call, with its name and number: it raises what the call should.

    A write that fails has written half. ``room`` is how many bytes all files may still grow by,
    ``most_links`` how many names a file may have.
    """

    refuses_links: ClassVar[int | None] = None
    """The error with which a disk says that it gives no file a second name."""

    def __init__(
        self, nodes: Nodes | None = None, *, fail: Callable[[str, int], None] | None = None
    ) -> None:
        self.nodes: Nodes = {ROOT: {}} if nodes is None else nodes
        self.record: list[Change] = []
        self.fail = fail
        self.calls = 0
        self.room: int | None = None
        self.most_links: int | None = None
        self.faults: list[str] = []
        """What no caller may do."""
        self._next = max(self.nodes) + 1
        self._files: dict[int, int] = {}
        self._next_file = 10_000
        self._changes: Counter[int] = Counter()
        self._links: Counter[int] | None = None
        self._locks: dict[int, list[bool]] = {}
        self._failed_syncs: set[int] = set()

    def _call(self, name: str) -> None:
        self.calls += 1
        if self.fail is not None:
            self.fail(name, self.calls)

    def open_files(self) -> int:
        """How many files and folders are open."""
        return len(self._files)

    def _opened_as(self, inode: int) -> int:
        self._next_file += 1
        self._files[self._next_file] = inode
        return self._next_file

    def _names(self, folder: int) -> Names:
        names = self.nodes[self._files[folder]]
        assert isinstance(names, dict)
        return names

    def _data(self, file: int) -> bytes:
        data = self.nodes[self._files[file]]
        assert isinstance(data, bytes)
        return data

    def _inode(self, folder: int, name: str) -> int:
        try:
            return self._names(folder)[name]
        except KeyError:
            raise _error(errno.ENOENT) from None

    def _rename(self, *changes: tuple[int, str, int | None]) -> None:
        change = Renamed(tuple(changes))
        renamed(self.nodes, change)
        self._links = None
        self.record.append(change)

    def _born(self, folder: int, name: str, *, is_folder: bool) -> int:
        if name in self._names(folder):
            raise _error(errno.EEXIST)
        inode, self._next = self._next, self._next + 1
        self.nodes[inode] = {} if is_folder else b""
        self.record.append(Born(inode, is_folder))
        self._rename((self._files[folder], name, inode))
        return inode

    # Folders

    def open_root(self, path: str) -> int:
        self._call("open_root")
        return self._opened_as(ROOT)

    def open_folder(self, folder: int, name: str) -> int:
        self._call("open_folder")
        inode = self._files[folder] if name == "." else self._inode(folder, name)
        if not isinstance(self.nodes[inode], dict):
            raise _error(errno.ENOTDIR)
        return self._opened_as(inode)

    def make_folder(self, folder: int, name: str) -> None:
        self._call("make_folder")
        self._born(folder, name, is_folder=True)

    def names(self, folder: int) -> list[str]:
        self._call("names")
        return list(self._names(folder))

    def rename(self, folder: int, name: str, to: int, to_name: str) -> None:
        self._call("rename")
        inode = self._inode(folder, name)
        standing = self._names(to).get(to_name)
        if standing is not None:
            there = self.nodes[standing]
            if isinstance(there, dict) != isinstance(self.nodes[inode], dict):
                raise _error(errno.EISDIR if isinstance(there, dict) else errno.ENOTDIR)
            if isinstance(there, dict) and there:
                raise _error(errno.ENOTEMPTY)
        self._rename((self._files[folder], name, None), (self._files[to], to_name, inode))

    def link(self, folder: int, name: str, to: int, to_name: str) -> None:
        self._call("link")
        if self.refuses_links is not None:
            raise _error(self.refuses_links)
        inode = self._inode(folder, name)
        if to_name in self._names(to):
            raise _error(errno.EEXIST)
        if self.most_links is not None and self._links_of(inode) >= self.most_links:
            raise _error(errno.EMLINK)
        self._rename((self._files[to], to_name, inode))

    def unlink(self, folder: int, name: str) -> None:
        self._call("unlink")
        if isinstance(self.nodes[self._inode(folder, name)], dict):
            raise _error(errno.EISDIR)
        self._rename((self._files[folder], name, None))

    def remove_folder(self, folder: int, name: str) -> None:
        self._call("remove_folder")
        if self.nodes[self._inode(folder, name)]:
            raise _error(errno.ENOTEMPTY)
        self._rename((self._files[folder], name, None))

    def sync_folder(self, folder: int) -> None:
        # A folder may be synced again: file systems keep its changes, or go read-only.
        self._call("sync_folder")
        self.record.append(Synced(self._files[folder]))

    # Files

    def open_file(self, folder: int, name: str) -> int:
        self._call("open_file")
        inode = self._inode(folder, name)
        if not isinstance(self.nodes[inode], bytes):
            raise NotAFileError("no regular file")
        return self._opened_as(inode)

    def make_file(self, folder: int, name: str) -> int:
        self._call("make_file")
        return self._opened_as(self._born(folder, name, is_folder=False))

    def read(self, file: int, offset: int, length: int) -> bytes:
        self._call("read")
        return self._data(file)[offset : offset + length]

    def mapped(self, file: int, length: int) -> bytearray:
        self._call("mapped")
        return bytearray(self._data(file)[:length])

    def write(self, file: int, offset: int, data: bytes) -> None:
        if self.room is not None:
            grown = offset + len(data) - len(self._data(file))
            if grown > self.room:
                self._change(file, Written(0, offset, data[: len(data) - grown + self.room]))
                self.room = 0
                raise _error(errno.ENOSPC)
            self.room -= max(0, grown)
        try:
            self._call("write")
        except OSError:
            self._change(file, Written(0, offset, data[: len(data) // 2]))
            raise
        self._change(file, Written(0, offset, data))

    def truncate(self, file: int, length: int) -> None:
        self._call("truncate")
        self._change(file, Cut(0, length))

    def _change(self, file: int, change: Written | Cut) -> None:
        inode = self._files[file]
        change = change._replace(inode=inode)
        self.nodes[inode] = changed(self._data(file), change)
        self._changes[inode] += 1
        self.record.append(change)

    def sync(self, file: int) -> None:
        inode = self._files[file]
        if inode in self._failed_syncs:
            self.faults.append(f"a file was synced again after a sync of it failed ({inode})")
        try:
            self._call("sync")
        except OSError:
            self._failed_syncs.add(inode)
            self.record.append(Synced(inode, failed=True))
            raise
        self.record.append(Synced(inode))

    def size(self, file: int) -> int:
        self._call("size")
        return len(self._data(file))

    def links(self, file: int) -> int:
        self._call("links")
        return self._links_of(self._files[file])

    def links_of(self, folder: int, name: str) -> int:
        self._call("links_of")
        return self._links_of(self._inode(folder, name))

    def _links_of(self, inode: int) -> int:
        if self._links is None:
            # A folder that a crash took away has taken its names with it.
            self._links, folders = Counter[int](), [ROOT]
            while folders:
                names = self.nodes[folders.pop()]
                assert isinstance(names, dict)
                self._links.update(names.values())
                folders += [to for to in names.values() if isinstance(self.nodes[to], dict)]
        return self._links[inode]

    def mode(self, file: int) -> int:
        return 0o700

    def identity(self, folder: int) -> tuple[int, int, int]:
        return 0, self._files[folder], 0

    def identity_of(self, folder: int, name: str) -> tuple[int, int, int] | None:
        self._call("identity_of")
        inode = self._names(folder).get(name)
        return None if inode is None else (0, inode, self._changes[inode])

    def size_of(self, folder: int, name: str) -> int:
        self._call("size_of")
        node = self.nodes[self._inode(folder, name)]
        return len(node)

    def age(self, folder: int, name: str) -> float:
        """All is old: sweep takes what is left over at once."""
        self._call("age")
        self._inode(folder, name)
        return 1e9

    def close(self, file: int) -> None:
        del self._files[file]

    @contextlib.contextmanager
    def locked(self, file: int, patience: float, *, shared: bool = False) -> Generator[None]:
        """Nobody else is there, so a lock that cannot be had never will be."""
        self._call("locked")
        held = self._locks.setdefault(self._files[file], [])
        if held and not (shared and all(held)):
            raise AssertionError("a task waits for its own lock")
        held.append(shared)
        try:
            yield
        finally:
            held.remove(shared)


class LinklessDisk(SimulatedDisk):
    """One on which a file has one name."""

    refuses_links = errno.EPERM


Kind = type[SimulatedDisk]
