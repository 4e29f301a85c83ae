"""The stored format: its revision, how a folder is recognised, and the way between revisions."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stores_core.codec import decode_json, encode_json
from stores_core.errors import InvalidRequestError, SchemaVersionError
from stores_core.revisions import (
    Change,
    Revision,
    State,
    Step,
    destination,
    state_at,
    steps,
)
from stores_files.disk import Disk
from stores_files.layout import MARKER, TENANT, TENANTS
from stores_files.revisions import r0002_sums

CODE = Revision(2, oldest=2)
"""What this code writes. It works on newer ones too whose ``oldest`` is no newer than this."""

ADVICE = (
    "copy the folder first, with a tool that keeps hard links, while no client has it open",
    "others cannot open the folder until all steps are done",
)

_NEW = ".new-marker"


class Marker(NamedTuple):
    """What a folder says of itself.

    ``is_unfinished`` says that a step to this revision, or back from it, has begun and not ended:
    no code works on such a folder, and the step can be taken in both directions.
    """

    revision: Revision
    identity: str
    is_unfinished: bool = False

    @property
    def state(self) -> State:
        """What the folder is to this code."""
        state = state_at(self.revision, CODE)
        return State.BEHIND if self.is_unfinished and state is State.CURRENT else state


Work = Callable[[Disk, int], None]
"""What a step does in the folder of each tenant; it passes over what was done before a cut."""

_REVISIONS = {1: Revision(1, 1), 2: CODE}
_CHANGES: Mapping[int, Change[Work]] = {2: r0002_sums}


def identify(disk: Disk, root: int, *, create: bool) -> Marker:
    """What a folder is; with ``create`` a storage is made in an empty one. The root's lock is held.

    Raises InvalidRequestError for a folder with other things in it, SchemaVersionError for a format
    that this code does not know and, without ``create``, for one that it does not work on.
    """
    try:
        marker = read_marker(disk, root)
    except FileNotFoundError as error:
        _check_empty(disk, root)
        if not create:
            raise absent() from error
        return _made(disk, root)
    if marker.state is not State.CURRENT and not (marker.state is State.BEHIND and create):
        raise refusal(marker)
    disk.sync_folder(root)  # whoever made it may have been killed before it was there for certain
    return marker


def read_marker(disk: Disk, root: int) -> Marker:
    """What the folder says of itself. Raises FileNotFoundError, SchemaVersionError."""
    with disk.opened(disk.open_file(root, MARKER)) as file:
        text = disk.read(file, 0, 4096)
    try:
        found = decode_json(text)
        return Marker(
            revision=Revision.unpacked(int(found["format"])),
            identity=str(found["identity"]),
            is_unfinished=bool(found.get("unfinished", False)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchemaVersionError(
            f"{MARKER} does not say which format the folder has; it was left as it is"
        ) from error


def _check_empty(disk: Disk, root: int) -> None:
    left = [name for name in disk.names(root) if name not in (TENANTS, _NEW)]
    if left:
        raise InvalidRequestError(
            field="url",
            found="a folder that holds other files",
            allowed="an empty folder, a new one, or one that agent-stores made",
        )


def _made(disk: Disk, root: int) -> Marker:
    if disk.identity_of(root, TENANTS) is None:
        disk.make_folder(root, TENANTS)
    marker = Marker(CODE, secrets.token_hex(16))
    _write(disk, root, marker)
    return marker


def _write(disk: Disk, root: int, marker: Marker) -> None:
    if disk.identity_of(root, _NEW) is not None:
        disk.unlink(root, _NEW)
    fields: dict[str, Any] = {"format": marker.revision.packed, "identity": marker.identity}
    if marker.is_unfinished:
        fields["unfinished"] = True
    with disk.opened(disk.make_file(root, _NEW)) as file:
        disk.write(file, 0, encode_json(fields) + b"\n")
        disk.sync(file)
    disk.rename(root, _NEW, root, MARKER)
    disk.sync_folder(root)


def plan(found: Marker, target: str = "") -> Sequence[Step[Work]]:
    """The steps to the revision that ``target`` names, or to the code's.

    Raises InvalidRequestError.
    """
    start, end = found.revision.number, destination(target, found.revision, CODE)
    if found.is_unfinished and end >= start:
        start -= 1  # the step to it is taken again, from where it was cut off
    return steps(_REVISIONS, _CHANGES, start, end)


def migrate(disk: Disk, root: int, target: str = "", patience: float = 0) -> list[str]:
    """Take the steps that are left; what was done. Nobody else has the folder open.

    For what this client has begun in a tenant it waits up to ``patience`` seconds.
    """
    marker, done = read_marker(disk, root), list[str]()
    for step in plan(marker, target):
        newer = max(step.start, step.end, key=lambda revision: revision.number)
        _write(disk, root, Marker(newer, marker.identity, is_unfinished=True))
        with disk.opened(disk.open_folder(root, TENANTS)) as tenants:
            for name in disk.names(tenants):
                if name.startswith("."):
                    continue  # never finished, or erased
                with disk.opened(disk.open_folder(tenants, name)) as tenant:
                    if disk.identity_of(tenant, TENANT) is not None:
                        with disk.locked(tenant, patience):
                            step.work(disk, tenant)
        _write(disk, root, Marker(step.end, marker.identity))
        done.append(step.sentence)
    return done


def absent() -> SchemaVersionError:
    """Why nothing is read from a folder that is not there, or is empty."""
    return SchemaVersionError(
        "there is no storage of agent-stores at this path; name another folder, or open it with "
        "create=True",
        state=State.ABSENT,
    )


def refusal(found: Marker) -> SchemaVersionError:
    """Why stores do not work on this folder, and what to do."""
    revision = found.revision
    if found.state is State.AHEAD:
        return SchemaVersionError(
            f"the folder has the stored format {revision}, this code knows {CODE}; it was left as "
            "it is; update agent-stores",
            state=found.state,
        )
    has = "a stored format that is being changed, or was half-way" if found.is_unfinished else ""
    return SchemaVersionError(
        f"the folder has {has or f'the stored format {revision}'}, this code needs {CODE}; copy "
        "the folder and run `await backend.admin.migrate()`",
        state=found.state,
    )
