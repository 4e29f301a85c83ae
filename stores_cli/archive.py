"""The portable archive: JSON lines, compressed with zstd, in the names of the wire.

The first line says what it is, the last how many lines there are and the digest of all before it,
so that a part of an archive is never taken for the whole. Between them each line is one piece, or
names the tenant that all further ones belong to, where there are several:

    {"log": "…", "start": 0, "entries": [{…}, …]}
    {"run": {"info": {…}, "keys": […], "messages": [{"log": "…", "length": 9}], "events": […]}}
    {"notes": [{"namespace": "n", "item": {…}, "vector": "…"}], "embedder": …, "versionFloor": 7}
    {"results": [{"ref": "…", "createdAt": "…", "labels": {…}, "result": {…}}]}
    {"tenant": "…"}

What comes again, as a run that moved between two parts of an export, counts as it came last.
"""

import base64
import hashlib
import io
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar, cast

import zstandard
from pydantic import BaseModel, ValidationError

from stores_cli.transfer import Piece
from stores_core.codec import (
    canonical,
    decode_events,
    decode_json,
    decode_messages,
    decode_tool_result,
    encode,
    encode_json,
)
from stores_core.errors import CorruptRecordError, InvalidRequestError, StoreError
from stores_core.limits import MIB
from stores_core.memory import StoredMemory
from stores_core.moving import (
    EmbedderInfo,
    ImportEntriesRequest,
    ImportMemoriesRequest,
    ImportRunRequest,
    ImportToolResultsRequest,
    MemoryRecord,
    RunRecord,
    ToolResultRecord,
)
from stores_core.shape import replaced

FORMAT, VERSION = "agent-stores", 2
_OLDEST = 1  # which names no tenants
LONGEST_LINE = 512 * MIB
"""A page ends at 16 MiB or with one entry of up to 64; JSON and base64 may make more of it."""

M = TypeVar("M", bound=BaseModel)


def check(path: Path) -> set[str | None]:
    """Read an archive to its end, so that nothing of a damaged one is put; the tenants that it
    names. Raises as `pieces`."""
    return {tenant for tenant, _ in pieces(path)}


def pieces(path: Path) -> Generator[tuple[str | None, Piece]]:
    """All pieces of an archive, each with its tenant; None where the archive names none.

    Raises InvalidRequestError for a file that is no archive, and CorruptRecordError, naming the
    line, for one that is torn or was changed.
    """
    digest, number, whole = hashlib.blake2b(digest_size=32), 0, False
    tenant: str | None = None
    for text in _lines(path):
        before = digest.hexdigest()
        digest.update(text)
        number += 1
        if whole:
            raise _corrupt(path, number, "there is more behind the last line")
        try:
            line = parsed(text)
        except ValueError as error:
            raise _corrupt(path, number, str(error)) from error
        if number == 1:
            _check_header(path, line)
        elif "digest" in line:
            whole = line.get("digest") == before and line.get("lines") == number - 1
            if not whole:
                raise _corrupt(path, number, "the digest is not that of the lines before")
        elif "tenant" in line:
            tenant = str(line["tenant"])
        else:
            try:
                yield tenant, piece_of(line)
            except (StoreError, ValidationError, LookupError, TypeError, ValueError) as error:
                raise _corrupt(path, number, "it is no piece of an archive") from error
    if not whole:
        raise _corrupt(path, number + 1, "the end is missing: it was cut off")


def _lines(path: Path) -> Generator[bytes]:
    with path.open("rb") as raw:
        if raw.read(4) != zstandard.FRAME_HEADER:
            raise _no_archive("a file that is not compressed with zstd")
        raw.seek(0)
        unpacked = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        reader = io.BufferedReader(unpacked, MIB)
        number = 0
        while True:
            number += 1
            try:
                text = reader.readline(LONGEST_LINE)
            except zstandard.ZstdError as error:
                raise _corrupt(path, number, "it cannot be unpacked") from error
            if not text:
                return
            if not text.endswith(b"\n"):
                raise _corrupt(path, number, "the line is cut off, or longer than any can be")
            yield text


def parsed(text: bytes) -> dict[str, Any]:
    """A line. Raises ValueError for what is no JSON object."""
    try:
        line = decode_json(text)
    except ValueError as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(line, dict):
        raise ValueError("it is no JSON object")
    return cast("dict[str, Any]", line)


def _check_header(path: Path, line: dict[str, Any]) -> None:
    if line.get("format") != FORMAT:
        raise _no_archive("a file of another kind")
    if line.get("version") not in range(_OLDEST, VERSION + 1):
        raise InvalidRequestError(
            field="FILE",
            found=f"an archive of version {str(line.get('version'))[:20]}",
            allowed=f"up to version {VERSION}; a newer agent-stores may read it",
        )


def _no_archive(found: str) -> InvalidRequestError:
    return InvalidRequestError(
        field="FILE",
        found=found,
        allowed="an archive of `agent-stores export`; sessions of other tools need --from",
    )


def _corrupt(path: Path, number: int, what: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"the archive {path.name!r} is damaged at line {number}: {what}", id=path.name
    )


def line_of(piece: Piece) -> dict[str, object]:
    """A piece as a line."""
    if isinstance(piece, ImportEntriesRequest):
        return _entries_line(piece)
    if isinstance(piece, ImportRunRequest):
        return {"run": decode_json(canonical(piece.run))}
    if isinstance(piece, ImportMemoriesRequest):
        return _notes_line(piece)
    return {"results": [_result_line(record) for record in piece.results]}


def _entries_line(piece: ImportEntriesRequest) -> dict[str, object]:
    entries: list[object] = []
    for position, text in enumerate(piece.entries, piece.start):
        entry = decode_json(text)
        if encode_json(entry) != text:  # then it would not come back as it is
            raise CorruptRecordError(store="runs", id=piece.log, position=position)
        entries.append(entry)
    return {"log": piece.log, "start": piece.start, "entries": entries}


def _notes_line(piece: ImportMemoriesRequest) -> dict[str, object]:
    notes: list[dict[str, object]] = []
    for record in piece.memories:
        note: dict[str, object] = {
            "namespace": record.namespace,
            "item": decode_json(canonical(record.item)),
        }
        if record.vector is not None:
            note["vector"] = base64.b64encode(record.vector).decode()
        notes.append(note)
    embedder = piece.embedder and decode_json(canonical(piece.embedder))
    return {"notes": notes, "embedder": embedder, "versionFloor": piece.version_floor}


def _result_line(record: ToolResultRecord) -> dict[str, object]:
    rest = {"ref": record.ref, "createdAt": record.created_at, "labels": dict(record.labels)}
    return {**rest, "result": decode_json(encode(record.result))}


def piece_of(line: dict[str, Any]) -> Piece:
    """The piece that a line holds. Raises an error of many kinds where it holds none."""
    if "entries" in line:
        entries = [encode_json(entry) for entry in line["entries"]]
        _check_entries(entries)
        return ImportEntriesRequest(log=line["log"], start=line["start"], entries=entries)
    if "run" in line:
        return ImportRunRequest(run=_model(RunRecord, line["run"]))
    if "notes" in line:
        embedder = line["embedder"] and _model(EmbedderInfo, line["embedder"])
        notes = [_note(note) for note in line["notes"]]
        floor = line["versionFloor"]
        return ImportMemoriesRequest(memories=notes, embedder=embedder, version_floor=floor)
    return ImportToolResultsRequest(results=[_result(result) for result in line["results"]])


def _check_entries(entries: list[bytes]) -> None:
    # A log holds messages or events, and an entry that is neither would be found on reading only.
    try:
        decode_messages(entries)
    except CorruptRecordError:
        decode_events(entries)


def _model(model: type[M], value: object) -> M:
    return model.model_validate_json(encode_json(value), by_alias=True, by_name=False)


def _note(note: dict[str, Any]) -> MemoryRecord:
    vector = note.get("vector")
    return MemoryRecord(
        namespace=note["namespace"],
        item=_model(StoredMemory, note["item"]),
        vector=None if vector is None else base64.b64decode(vector, validate=True),
    )


def _result(result: dict[str, Any]) -> ToolResultRecord:
    empty = _model(ToolResultRecord, {**result, "result": {}})
    return replaced(empty, {"result": decode_tool_result(encode_json(result["result"]))})
