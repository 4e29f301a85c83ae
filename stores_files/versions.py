"""The stored format: its version, how a folder is recognised, and the steps between versions."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stores_core.codec import decode_json, encode_json
from stores_core.errors import InvalidRequestError, SchemaVersionError
from stores_files.disk import Disk
from stores_files.layout import MARKER, TENANTS

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next: a sentence for people, and the work, which can be repeated."""

    sentence: str
    work: Callable[[Disk, int], None]


STEPS: Mapping[int, Step] = {}
"""The step that leads on from each older version. There is none yet: 1 is the first version."""


def identify(disk: Disk, root: int) -> str:
    """The identity of a storage; one is made in an empty folder. The root's lock is held.

    Raises InvalidRequestError for a folder with other things in it, SchemaVersionError for a format
    that is not ours.
    """
    try:
        marker = read_marker(disk, root)
    except FileNotFoundError:
        return _made(disk, root)
    if marker["format"] != FORMAT:
        raise refusal(marker["format"])
    return marker["identity"]


def read_marker(disk: Disk, root: int) -> dict[str, Any]:
    """What the folder says of itself. Raises FileNotFoundError, SchemaVersionError."""
    with disk.opened(disk.open_file(root, MARKER)) as file:
        text = disk.read(file, 0, 4096)
    try:
        found = decode_json(text)
        return {"format": int(found["format"]), "identity": str(found["identity"])}
    except (ValueError, TypeError, KeyError) as error:
        raise SchemaVersionError(
            f"{MARKER} does not say which format the folder has; it was left as it is"
        ) from error


def _made(disk: Disk, root: int) -> str:
    left = [name for name in disk.names(root) if name not in (TENANTS, _NEW)]
    if left:
        raise InvalidRequestError(
            field="url",
            found="a folder that holds other files",
            allowed="an empty folder, a new one, or one that agent-stores made",
        )
    identity = secrets.token_hex(16)
    if disk.identity_of(root, TENANTS) is None:
        disk.make_folder(root, TENANTS)
    if disk.identity_of(root, _NEW) is not None:
        disk.unlink(root, _NEW)
    with disk.opened(disk.make_file(root, _NEW)) as file:
        disk.write(file, 0, encode_json({"format": FORMAT, "identity": identity}) + b"\n")
        disk.sync(file)
    disk.rename(root, _NEW, root, MARKER)
    disk.sync_folder(root)
    return identity


_NEW = ".new-marker"


def refusal(found: int) -> SchemaVersionError:
    """Why stores do not work on this folder, and what to do."""
    if found > FORMAT:
        return SchemaVersionError(
            f"the folder has the stored format {found}, this code knows {FORMAT}; it was left as "
            "it is; update agent-stores"
        )
    return SchemaVersionError(
        f"the folder has the stored format {found}, this code needs {FORMAT}; copy the folder and "
        "run backend.admin.migrate"
    )
