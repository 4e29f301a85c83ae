"""The folder of one tool result: what is known of it, its text, and the rest."""

import contextlib
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stores_core.codec import encode
from stores_core.errors import CorruptRecordError
from stores_core.tool_results import ToolResult
from stores_core.tool_text import join, split
from stores_core.values import from_micros, micros
from stores_files import contents
from stores_files.failures import perhaps_applied
from stores_files.layout import REST, RESULT, RESULTS, STAGING, TEXT, TRASH
from stores_files.listing import line_of
from stores_files.names import name_of
from stores_files.places import Place, read_json, remove_folder, replace, write_new
from stores_files.storage import Tenant

MARK_CHARACTERS = 1 << 16
"""So many code points of a text that is not ASCII lie between two offsets that are kept."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What result.json says. Times are microseconds since 1970; ``size`` is bytes of JSON.

    ``marks`` are the offsets in bytes of every MARK_CHARACTERS-th code point of the text, none
    where each is one byte. ``text`` and ``rest`` are digests, and the names of the files follow.
    """

    ref: str
    generation: str
    created: int
    labels: Mapping[str, str]
    size: int
    characters: int
    marks: tuple[int, ...]
    text: str
    rest: str

    def names(self) -> tuple[str, str]:
        return f"{self.generation}-{TEXT}", f"{self.generation}-{REST}"

    def line(self) -> bytes:
        """The line of the listing."""
        return line_of(self.ref, self.generation, self.created, self.labels, size=self.size)

    def as_json(self) -> dict[str, Any]:
        return {
            "ref": self.ref,
            "generation": self.generation,
            "createdAt": from_micros(self.created).isoformat(timespec="microseconds"),
            "labels": dict(self.labels),
            "bytes": self.size,
            "characters": self.characters,
            "marks": list(self.marks),
            "text": self.text,
            "rest": self.rest,
        }

    @classmethod
    def read(cls, place: Place, folder: int) -> "StoredResult":
        """Raises CorruptRecordError, FileNotFoundError."""
        try:
            fields = read_json(place.disk, folder, RESULT)
            return cls(
                ref=str(fields["ref"]),
                generation=str(fields["generation"]),
                created=micros(datetime.fromisoformat(fields["createdAt"])),
                labels={str(key): str(value) for key, value in fields["labels"].items()},
                size=int(fields["bytes"]),
                characters=int(fields["characters"]),
                marks=tuple(map(int, fields["marks"])),
                text=str(fields["text"]),
                rest=str(fields["rest"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptRecordError(
                "a result.json does not say what it should; `verify` names it"
            ) from error


@dataclass(frozen=True, slots=True)
class NewResult:
    """A result before it is stored."""

    stored: StoredResult
    text: bytes
    rest: bytes

    @classmethod
    def of(
        cls, ref: str, created: datetime, labels: Mapping[str, str], result: ToolResult
    ) -> "NewResult":
        text, rest = split(result)
        body = text.encode()
        stored = StoredResult(
            ref=ref,
            generation=secrets.token_hex(8),
            created=micros(created),
            labels=labels,
            size=len(encode(result)),
            characters=len(text),
            marks=() if len(body) == len(text) else _marks(text),
            text=contents.digest_of(body),
            rest=contents.digest_of(rest),
        )
        return cls(stored, body, rest)


def _marks(text: str) -> tuple[int, ...]:
    marks, offset = [0], 0
    for start in range(0, len(text) - MARK_CHARACTERS, MARK_CHARACTERS):
        offset += len(text[start : start + MARK_CHARACTERS].encode())
        marks.append(offset)
    return tuple(marks)


@contextlib.contextmanager
def entered(
    place: Place, tenant: Tenant, ref: str, *, alone: bool = False
) -> Generator[tuple[StoredResult, int] | None]:
    """A result and its folder, None where there is none; it stays so meanwhile."""
    with contextlib.ExitStack() as stack:
        yield _enter(stack, place, tenant, ref, alone=alone)


def _enter(
    stack: contextlib.ExitStack, place: Place, tenant: Tenant, ref: str, *, alone: bool
) -> tuple[StoredResult, int] | None:
    disk, results, name = place.disk, place[RESULTS], name_of(ref)
    while True:
        with contextlib.ExitStack() as tried:
            try:
                folder = tried.enter_context(disk.opened(disk.open_folder(results, name)))
            except FileNotFoundError:
                return None
            patience = tenant.storage.lock_timeout
            tried.enter_context(disk.locked(folder, patience, shared=not alone))
            if disk.identity_of(results, name) != disk.identity(folder):
                continue  # deleted while we waited
            stored = StoredResult.read(place, folder)
            if stored.ref != ref:
                raise CorruptRecordError(store="tool_results", id=ref)
            stack.enter_context(tried.pop_all())
            return stored, folder


def put(place: Place, tenant: Tenant, new: NewResult) -> StoredResult | None:
    """Store a result, in place of one of its ref; what it took the place of.

    The line of the listing comes first. The file that says which text and which rest belong
    together is replaced in one step, so a reader sees the old or the new.
    """
    stored = new.stored
    tenant.result_listing.add(place.folder, stored.line())
    while True:
        with entered(place, tenant, stored.ref, alone=True) as found:
            if found is not None:
                old, folder = found
                _bring(place, new, folder)
                place.disk.sync_folder(folder)  # before the file that speaks of them
                replace(place.disk, folder, RESULT, stored.as_json())
                with perhaps_applied():
                    place.disk.sync_folder(place[RESULTS])  # its maker may have been killed
                _drop(place, tenant, old, folder)
                return old
        if _claimed(place, new):
            return None


def _claimed(place: Place, new: NewResult) -> bool:
    """Make the folder of a new ref; False where somebody else just made it."""
    disk, staged, name = place.disk, secrets.token_hex(8), name_of(new.stored.ref)
    disk.make_folder(place[STAGING], staged)
    try:
        with disk.opened(disk.open_folder(place[STAGING], staged)) as folder:
            _bring(place, new, folder)
            write_new(disk, folder, RESULT, new.stored.as_json())
            disk.sync_folder(folder)
        disk.rename(place[STAGING], staged, place[RESULTS], name)
    except OSError:
        with contextlib.suppress(OSError):
            remove_folder(disk, place[STAGING], staged)
        if disk.identity_of(place[RESULTS], name) is not None:
            return False
        raise
    with perhaps_applied():
        disk.sync_folder(place[RESULTS])
    return True


def _bring(place: Place, new: NewResult, folder: int) -> None:
    text, rest = new.stored.names()
    contents.keep(place, new.text, new.stored.text, folder, text)
    contents.keep(place, new.rest, new.stored.rest, folder, rest)


def _drop(place: Place, tenant: Tenant, old: StoredResult, folder: int) -> None:
    # What is left now is only space: sweep finishes what fails here.
    with contextlib.suppress(OSError):
        for name in old.names():
            place.disk.unlink(folder, name)
        for digest in (old.text, old.rest):
            contents.free(place, digest)
        tenant.result_listing.strike(place.folder, old.ref, old.generation)


def remove(place: Place, tenant: Tenant, stored: StoredResult) -> None:
    """Take a result, which is held alone, away."""
    disk, name = place.disk, secrets.token_hex(8)
    disk.rename(place[RESULTS], name_of(stored.ref), place[TRASH], name)
    with perhaps_applied():
        disk.sync_folder(place[RESULTS])
    with contextlib.suppress(OSError):
        tenant.result_listing.strike(place.folder, stored.ref, stored.generation)
        remove_folder(disk, place[TRASH], name)
        for digest in (stored.text, stored.rest):
            contents.free(place, digest)


def read_result(place: Place, stored: StoredResult, folder: int) -> ToolResult:
    """A whole result. Raises CorruptRecordError where it is not what was put."""
    text, rest = stored.names()
    body = _body(place, stored, folder, text, stored.text)
    return join(body.decode(), _body(place, stored, folder, rest, stored.rest), ref=stored.ref)


def _body(place: Place, stored: StoredResult, folder: int, name: str, digest: str) -> bytes:
    disk = place.disk
    try:
        with disk.opened(disk.open_file(folder, name)) as file:
            body = disk.read(file, 0, disk.size(file))
    except FileNotFoundError:
        body = b""
    if contents.digest_of(body) != digest:
        raise CorruptRecordError(store="tool_results", id=stored.ref)
    return body


def read_text(place: Place, stored: StoredResult, folder: int, offset: int, limit: int) -> str:
    """A slice of the text in code points; of a long one, no more than is near is read."""
    disk, name = place.disk, stored.names()[0]
    end = min(stored.characters, offset + limit)
    if offset >= end:
        return ""
    try:
        with disk.opened(disk.open_file(folder, name)) as file:
            if not stored.marks:
                return disk.read(file, offset, end - offset).decode("ascii")
            first, last = offset // MARK_CHARACTERS, (end - 1) // MARK_CHARACTERS + 1
            start = stored.marks[first]
            stop = stored.marks[last] if last < len(stored.marks) else disk.size(file)
            text = disk.read(file, start, stop - start).decode()
            return text[offset - first * MARK_CHARACTERS : end - first * MARK_CHARACTERS]
    except (FileNotFoundError, ValueError) as error:
        raise CorruptRecordError(store="tool_results", id=stored.ref) from error
