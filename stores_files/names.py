"""Names of files and folders for ids: safe on every disk, different for different ids, readable.

Lower-case ASCII letters, digits, ``-``, ``_`` and inner ``.`` stand for themselves; every other
byte of the id's UTF-8 is ``%`` and two digits. So no two ids meet on a disk that folds case or
normalises Unicode, and no name is ``..``, hidden, or one that Windows keeps for devices. What grows
too long ends in a digest; its true id stands in a file inside.
"""

import hashlib
import re
from functools import lru_cache

LONGEST = 150
"""Characters of a name; disks allow 255 bytes, and some of ours get an ending."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]|conin|conout|clock)(\.|$)")
_KEPT = 80
_REMEMBERED = 4096


@lru_cache(_REMEMBERED)
def name_of(id: str) -> str:
    """The name for an id. The empty id's is ``%``."""
    if not id:
        return "%"
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in id.encode())
    if name[0] in ".-" or _DEVICES.match(name):
        name = f"%{ord(name[0]):02x}{name[1:]}"
    if name[-1] == ".":
        name = name[:-1] + "%2e"
    if len(name) > LONGEST:
        # "%~" is in no other name, since two digits follow each other "%".
        name = f"{name[:_KEPT]}%~{hashlib.sha256(id.encode()).hexdigest()}"
    return name


def id_of(name: str) -> str | None:
    """The id of a name, where the name tells it whole; None for a shortened or a strange one."""
    if name == "%":
        return ""
    if "%~" in name or not re.fullmatch(r"(?:[a-z0-9._-]|%[0-9a-f]{2})+", name):
        return None
    raw = re.sub(r"%(..)", lambda match: chr(int(match[1], 16)), name).encode("latin-1")
    try:
        id = raw.decode()
    except UnicodeDecodeError:
        return None
    return id if name_of(id) == name else None
