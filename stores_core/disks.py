"""Which disk a folder is on: those on a network keep neither locks nor what was synced."""

from pathlib import Path

_ON_NETWORKS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "fuse.s3fs"}


def is_on_network(folder: Path) -> bool:
    """Whether a folder, by its path without links, is on another machine, as far as is known."""
    return file_system_of(folder) in _ON_NETWORKS


def file_system_of(folder: Path) -> str:
    """The type of the file system, where the system tells; else ""."""
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        _, mounted, type_, *_ = line.split(" ")
        where = mounted.replace("\\040", " ")
        if folder.is_relative_to(where) and len(where) >= len(best):
            best, kind = where, type_
    return kind
