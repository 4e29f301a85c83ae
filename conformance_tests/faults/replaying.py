"""From the calls of one process to what they did to one folder, which was empty before.

A call that may change a file there and is not known here ends it: NotUnderstoodError. What is
written through a mapping of a file that is shared is no call, so such a file is ``unseen``. Modes,
owners and times are no part of it. Calls count in the order in which they ended.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conformance_tests.faults.calls import Call, calls_of, in_numbers
from conformance_tests.faults.crash_states import Cut, Renamed, Written
from conformance_tests.faults.folder import Place, RecordedFolder, Said

HARMLESS = frozenset(
    (
        *("stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "access"),
        *("faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd"),
        *("pread64", "preadv", "preadv2", "readahead", "fadvise64", "flock", "munmap", "msync"),
        *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
        *("utime", "utimes", "futimesat", "utimensat", "getxattr", "lgetxattr", "fgetxattr"),
        *("listxattr", "llistxattr", "flistxattr", "execve", "sync_file_range", "poll", "ppoll"),
        *("select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl"),
        *("inotify_add_watch", "name_to_handle_at"),
    )
)
"""What changes neither bytes nor names; a sync of a range says nothing of what is on the disk."""

HARMLESS_IOCTLS = frozenset(
    {"TCGETS", "FIOCLEX", "FIONCLEX", "FIONREAD", "FS_IOC_GETFLAGS", "FS_IOC_GETVERSION"}
)


@dataclass(eq=False)
class Opened:
    """A file or folder as it is open, for all descriptors that share the position."""

    inode: int
    position: int = 0
    appends: bool = False
    through: bool = False
    writable: bool = False


class Replay:
    """The calls of the process ``pid`` on a ``folder``.

    It is in the folder ``cwd`` and tells by the socket with the inode ``ear``.
    """

    def __init__(self, folder: RecordedFolder, pid: int, ear: int, cwd: str) -> None:
        self.folder, self.unseen = folder, set[int]()
        self._cwd, self._ear = cwd, f"socket:[{ear}]"
        self._threads, self._files = {pid}, dict[int, Opened]()
        self._mapped: list[tuple[int, int, int]] = []
        self._mark = in_numbers(folder.path)

    def play(self, log: str) -> None:
        """Take in all calls of a log. Raises NotUnderstoodError."""
        events = list(calls_of(log))
        begun = [call for event, call in events if event == "ends" and "clone" in call.name]
        self._threads |= {call.result or 0 for call in begun if "CLONE_THREAD" in call.arguments}
        for event, call in events:
            if call.thread not in self._threads:
                if call.name != "close" and self._concerns(call):
                    raise call.not_understood()
            elif event == "begins":
                call.began = self.folder.count
                if call.name == "close":  # from now on another thread may be given its number
                    self._files.pop(call.descriptor(0), None)
            elif call.name in _CALLS:
                if call.done or (call.name in SYNCS and call.error):
                    _CALLS[call.name](self, call)
            elif call.done and (self._concerns(call) or call.name.startswith("io_uring")):
                raise call.not_understood()

    def _concerns(self, call: Call) -> bool:
        """Whether it may change what is in the folder, by all that its name and paths tell."""
        return call.name not in HARMLESS and self._mark in call.arguments

    def _place(self, call: Call, n: int, folder: int | None = None) -> Place | None:
        """What the n-th argument names, from a folder that another one is; None if elsewhere."""
        path = call.text(n)
        if open_file := re.fullmatch(r"/proc/self/fd/(\d+)", path):
            opened = self._files.get(int(open_file[1]))
            return Place(0, "", opened.inode) if opened else None
        opened = None if folder is None else self._files.get(call.descriptor(folder))
        try:
            if opened is not None and not path.startswith("/"):
                return self.folder.place(path, opened.inode)
            base = self._cwd if folder is None else call.path_of(folder) or self._cwd
            return self.folder.place(path if path.startswith("/") else f"{base}/{path}", None)
        except LookupError:
            raise call.not_understood() from None

    # Descriptors

    def opens(self, call: Call) -> None:
        path, flags = _OPENS[call.name]
        place = self._place(call, path, path - 1 if path else None)
        fd, how = call.result or 0, call.each[flags] if flags else "O_WRONLY|O_CREAT|O_TRUNC"
        self._files.pop(fd, None)
        if place is None:
            return
        if "O_TMPFILE" in how:
            inode = self.folder.born(Place(0, "", None), is_folder=False)
        elif place.inode is not None:
            inode = place.inode
        elif "O_CREAT" in how:
            inode = self.folder.born(place, is_folder=False)
        else:
            raise call.not_understood()
        if "O_TRUNC" in how and self.folder.nodes[inode]:
            self.folder.add(Cut(inode, 0))
        self._files[fd] = Opened(
            inode,
            appends="O_APPEND" in how,
            through="SYNC" in how.replace("O_ASYNC", ""),
            writable="O_RDWR" in how,
        )

    def closes(self, call: Call) -> None:
        pass  # when it began

    def closes_range(self, call: Call) -> None:
        if "CLOEXEC" not in call.each[2]:
            low, high = call.number(0), call.number(1)
            self._files = {fd: of for fd, of in self._files.items() if not low <= fd <= high}

    def duplicates(self, call: Call) -> None:
        opened = self._files.get(call.descriptor(0))
        self._files.pop(call.result or 0, None)
        if opened is not None:
            self._files[call.result or 0] = opened

    def controls(self, call: Call) -> None:
        if call.each[1].startswith("F_DUPFD"):
            self.duplicates(call)
        elif call.each[1] == "F_SETFL" and (opened := self._files.get(call.descriptor(0))):
            opened.appends = "O_APPEND" in call.each[2]

    def controls_device(self, call: Call) -> None:
        if self._files.get(call.descriptor(0)) and call.each[1] not in HARMLESS_IOCTLS:
            raise call.not_understood()

    def moves_to(self, call: Call) -> None:
        if opened := self._files.get(call.descriptor(0)):
            opened.position = call.result or 0

    def reads(self, call: Call) -> None:
        if opened := self._files.get(call.descriptor(0)):
            opened.position += call.result or 0

    def changes_folder(self, call: Call) -> None:
        if call.name == "chdir":
            path = call.text(0)
            self._cwd = path if path.startswith("/") else f"{self._cwd}/{path}"
        else:
            self._cwd = call.path_of(0)

    def maps(self, call: Call) -> None:
        opened = self._files.get(call.descriptor(4))
        if opened is None or "MAP_SHARED" not in call.each[3]:
            return
        if "PROT_WRITE" in call.each[2]:
            self.unseen.add(opened.inode)
        elif opened.writable:
            self._mapped.append((call.result or 0, call.number(1), opened.inode))

    def protects(self, call: Call) -> None:
        if "PROT_WRITE" in call.each[2]:
            begin, end = call.number(0), call.number(0) + call.number(1)
            self.unseen |= {of for at, size, of in self._mapped if at < end and begin < at + size}

    # Contents

    def writes(self, call: Call) -> None:
        if call.name in ("write", "sendto") and call.path_of(0) == self._ear:
            self.folder.add(Said(call.data(1)))
        if opened := self._files.get(call.descriptor(0)):
            data, length, at = call.data(1), call.result or 0, opened.position
            flags = call.each[4] if call.name == "pwritev2" else ""
            positioned = call.name.startswith("pwrite") and call.each[3] != "-1"
            if positioned:
                at = call.number(3)
            if opened.appends or "RWF_APPEND" in flags:  # wherever one asks it to be written
                at = len(self.folder.data(opened.inode))
            if not positioned:
                opened.position = at + length
            through = opened.through or "SYNC" in flags
            if length:
                self.folder.add(Written(opened.inode, at, data[:length], through))

    def copies(self, call: Call) -> None:
        if call.name == "sendfile":
            source, source_at, target, target_at = 1, 2, 0, None
        else:
            source, source_at, target, target_at = 0, 1, 2, 3
        read, written = (self._files.get(call.descriptor(n)) for n in (source, target))
        length = call.result or 0
        offsets = [None if n is None else _offset(call.each[n]) for n in (source_at, target_at)]
        begin, at = offsets
        if read is not None:
            begin = read.position if begin is None else begin
            read.position = begin + length if offsets[0] is None else read.position
        if written is None:
            return
        if read is None or begin is None:
            raise call.not_understood()
        data = self.folder.data(read.inode)[begin : begin + length]
        at = written.position if at is None else at
        written.position = at + length if offsets[1] is None else written.position
        if data:
            self.folder.add(Written(written.inode, at, data, written.through))

    def truncates(self, call: Call) -> None:
        if call.name == "truncate":
            place = self._place(call, 0)
            inode = place and place.inode
        else:
            opened = self._files.get(call.descriptor(0))
            inode = opened and opened.inode
        if inode is not None:
            self.folder.cut(inode, call.number(1))

    def allocates(self, call: Call) -> None:
        opened = self._files.get(call.descriptor(0))
        if opened is None:
            return
        how, at, length = set(call.each[1].split("|")), call.number(2), call.number(3)
        size, keeps = len(self.folder.data(opened.inode)), "FALLOC_FL_KEEP_SIZE" in how
        how -= {"0", "FALLOC_FL_KEEP_SIZE"}
        if how - {"FALLOC_FL_PUNCH_HOLE", "FALLOC_FL_ZERO_RANGE"}:
            raise call.not_understood()
        if how and (zero := min(size, at + length) - at) > 0:
            self.folder.add(Written(opened.inode, at, bytes(zero)))
        if not keeps:
            self.folder.cut(opened.inode, max(size, at + length))

    def syncs(self, call: Call) -> None:
        if call.name in ("sync", "syncfs"):
            inodes = list(self.folder.nodes) if call.done else []
        else:
            opened = self._files.get(call.descriptor(0))
            inodes = [opened.inode] if opened else []
        for inode in inodes:
            self.folder.synced(inode, call.began, failed=not call.done)

    # Names

    def makes_folder(self, call: Call) -> None:
        at = call.name.endswith("at")
        if place := self._place(call, 1 if at else 0, 0 if at else None):
            self.folder.born(place, is_folder=True)

    def removes(self, call: Call) -> None:
        at = call.name.endswith("at")
        if place := self._place(call, 1 if at else 0, 0 if at else None):
            if place.inode is None:
                raise call.not_understood()
            self.folder.add(Renamed(((place.folder, place.name, None),)))

    def renames(self, call: Call) -> None:
        old, new = self._both(call)
        flags = call.each[4] if call.name == "renameat2" else ""
        if (old is None and new is not None) or "WHITEOUT" in flags:
            raise call.not_understood()
        if old is None:
            return
        if old.inode is None:
            raise call.not_understood()
        gone = old.folder, old.name, None
        if new is None:
            self.folder.add(Renamed((gone,)))
        elif "EXCHANGE" in flags:
            back = old.folder, old.name, new.inode
            self.folder.add(Renamed((back, (new.folder, new.name, old.inode))))
        elif old.inode != new.inode:  # two names of one file stay as they are
            self.folder.add(Renamed((gone, (new.folder, new.name, old.inode))))

    def links(self, call: Call) -> None:
        old, new = self._both(call)
        if new is None:
            return
        if old is None or old.inode is None:
            raise call.not_understood()
        self.folder.add(Renamed(((new.folder, new.name, old.inode),)))

    def _both(self, call: Call) -> tuple[Place | None, Place | None]:
        if call.name in ("rename", "link"):
            return self._place(call, 0), self._place(call, 1)
        return self._place(call, 1, 0), self._place(call, 3, 2)


def _offset(text: str) -> int | None:
    """Where a copy begins, None for the position of the file."""
    found = text.partition(" ")[0].strip("[]")
    return None if found == "NULL" else int(found)


SYNCS = ("fsync", "fdatasync", "sync", "syncfs")

_OPENS = {"open": (0, 1), "openat": (1, 2), "openat2": (1, 2), "creat": (0, 0)}
"""At which argument the path stands, and the flags."""

_KNOWN: Mapping[Callable[[Replay, Call], None], tuple[str, ...]] = {
    Replay.opens: tuple(_OPENS),
    Replay.closes: ("close",),
    Replay.closes_range: ("close_range",),
    Replay.duplicates: ("dup", "dup2", "dup3"),
    Replay.controls: ("fcntl",),
    Replay.controls_device: ("ioctl",),
    Replay.moves_to: ("lseek",),
    Replay.reads: ("read", "readv"),
    Replay.changes_folder: ("chdir", "fchdir"),
    Replay.maps: ("mmap",),
    Replay.protects: ("mprotect",),
    Replay.writes: ("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto"),
    Replay.copies: ("sendfile", "copy_file_range"),
    Replay.truncates: ("truncate", "ftruncate"),
    Replay.allocates: ("fallocate",),
    Replay.syncs: SYNCS,
    Replay.makes_folder: ("mkdir", "mkdirat"),
    Replay.removes: ("unlink", "unlinkat", "rmdir"),
    Replay.renames: ("rename", "renameat", "renameat2"),
    Replay.links: ("link", "linkat"),
}
_CALLS = {name: method for method, names in _KNOWN.items() for name in names}
