"""One file or database to import from, read once, with an account of all that it holds."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from typing import Any, cast

from stores_cli.importing.entries import Spill
from stores_cli.importing.json_values import BAD_UTF8, as_dict, as_list, read_json
from stores_cli.importing.moments import moment
from stores_cli.importing.reports import Damage, FileReport
from stores_cli.importing.sessions import Session
from stores_core import InvalidRequestError
from stores_core.codec import encode_json

_SQLITE = b"SQLite format 3\0"
_SAMPLE = 50
_BOM = b"\xef\xbb\xbf"
_PEEK = 4_096
_LOOK = 1 << 16
_NEVER = datetime.min.replace(tzinfo=UTC)
_POSTGRES, _REDIS = ("postgresql:", "postgres:"), ("redis:", "rediss:")
NOT_UNDERSTOOD = "a record that holds nothing to keep"


class Source:
    """Where sessions are read from: a file, or a database that a URL names.

    ``account`` collects what is said about its records, ``spill`` holds what does not fit in
    memory; close it. ``progress`` hears of each record that is read.
    """

    def __init__(
        self, place: str, shown: str = "", progress: Callable[[int], None] = lambda records: None
    ) -> None:
        self.place = place
        self.is_postgres = place.startswith(_POSTGRES)
        self.is_redis = place.startswith(_REDIS)
        self.is_url = self.is_postgres or self.is_redis
        self.path = Path(place)
        self.account = FileReport(shown or place)
        self.spill = Spill()
        self._progress = progress

    @cached_property
    def is_sqlite(self) -> bool:
        """Whether this is a file of SQLite."""
        if self.is_url:
            return False
        with self.path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value; None for JSON lines, and for what is no JSON."""
        if self.is_url or not self._may_be_json or self._first_line_is_a_record:
            return None
        try:
            return read_json(self.path.read_bytes().removeprefix(_BOM), self.account.changed)
        except ValueError:
            return None

    @cached_property
    def _may_be_json(self) -> bool:
        # Looked at before the rest is read: a folder may hold a film.
        with self.path.open("rb") as file:
            begin = file.read(_PEEK).removeprefix(_BOM).lstrip()
        return begin[:1] in (b"{", b"[", b'"')

    @cached_property
    def _first_line_is_a_record(self) -> bool:
        with self.path.open("rb") as file:
            lines = (line for line in file if line.strip())
            first = next(lines, b"")
            return next(lines, None) is not None and bool(_record(first))

    @cached_property
    def sample(self) -> list[dict[str, Any]]:
        """The objects among the first lines; of a document, itself or the first it lists."""
        if self.is_url or self.is_sqlite:
            return []
        if self.document is not None:
            listed = as_list(self.document) or [self.document]
            return [as_dict(item) for item in listed[:_SAMPLE]]
        with self.path.open("rb") as file:
            return [found for _, line in zip(range(_SAMPLE), file, strict=False)
                    if (found := _record(line))]  # fmt: skip

    @cached_property
    def tables(self) -> dict[str, set[str]]:
        """The tables of a database with the names of their columns."""
        if not self.is_sqlite:
            return {}
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return {
            name: {column for (column,) in self.rows("SELECT name FROM pragma_table_info(?)", name)}
            for (name,) in names
        }

    def rows(self, query: str, *values: Any) -> Iterator[Sequence[Any]]:
        """The rows of a query on a SQLite file, which is opened for reading alone."""
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                yield from connection.execute(query, values)
        except sqlite3.Error as error:
            raise InvalidRequestError(
                field="file", found="a SQLite file that cannot be read", allowed="a whole one"
            ) from error

    def text(self) -> str:
        """The whole file as text."""
        return self._decoded(self.path.read_bytes())

    def begin(self, characters: int) -> str:
        """The first characters of the file."""
        with self.path.open("rb") as file:
            return file.read(4 * characters).decode(errors="replace")[:characters]

    def text_lines(self) -> Iterator[str]:
        """The lines of the file as text, without their ends; the last is what no end follows."""
        line = b"\n"
        with self.path.open("rb") as file:
            for line in file:
                yield self._decoded(line.removesuffix(b"\n"))
        if line.endswith(b"\n"):
            yield ""

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.account.changed[BAD_UTF8] += 1
            return data.decode(errors="replace")

    def lines(self) -> Iterator[tuple[int, Any]]:
        """The values of JSON lines with their line numbers; damaged ones are put on record. Of a
        document the items that it lists, or itself."""
        if self.document is not None:
            yield from enumerate(self.each(as_list(self.document) or [self.document]), 1)
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                before = self._begin()
                try:
                    value = read_json(line.removeprefix(_BOM), self.account.changed)
                except ValueError as error:
                    self.damaged(f"line {number}", _reason(error))
                else:
                    yield number, value
                self._end(before)

    def records(self) -> Iterator[dict[str, Any]]:
        """As :meth:`lines`, the objects alone; anything else is left out."""
        for number, value in self.lines():
            if isinstance(value, dict):
                yield cast("dict[str, Any]", value)
            else:
                at = "line" if self.document is None else "item"
                self.damaged(f"{at} {number}", f"{type(value).__name__}, not an object")

    def glance(self) -> Iterator[dict[str, Any]]:
        """The objects of JSON lines, unaccounted: for a reader that must know what comes later."""
        if self.document is not None:
            yield from filter(None, map(as_dict, as_list(self.document) or [self.document]))
            return
        with self.path.open("rb") as file:
            yield from filter(None, map(_record, file))

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, each one record of the account: one about which nothing was said by the time
        the next is asked for counts as left out."""
        for item in items:
            before = self._begin()
            yield item
            self._end(before)

    def objects(self, items: Any) -> Iterator[dict[str, Any]]:
        """As :meth:`each`, the objects alone; nothing where ``items`` is no list."""
        for number, item in enumerate(self.each(as_list(items)), 1):
            if isinstance(item, dict):
                yield cast("dict[str, Any]", item)
            else:
                self.damaged(f"item {number}", f"{type(item).__name__}, not an object")

    def objects_of(self, document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        """As :meth:`objects`, of a list that a document holds."""
        return self.objects(document.get(name))

    def _begin(self) -> int:
        self.account.records += 1
        self._progress(1)
        return self.account.marks

    def _end(self, before: int) -> None:
        if self.account.marks == before:
            self.leave_out(NOT_UNDERSTOOD)

    def fold(self) -> None:
        """The present record is kept inside an entry that stands already, or as a label."""
        self.account.folded += 1

    def leave_out(self, why: str) -> None:
        self.account.left_out[why] += 1

    def damaged(self, at: str, why: str) -> None:
        self.account.damaged.append(Damage(at, why))

    def session(self, key: str, **labels: Any) -> Session:
        """An empty session of this source."""
        session = Session(key, self.account, self.spill)
        for name, value in labels.items():
            session.label(name, value)
        return session

    def unnamed(self, *begin: Any) -> str:
        """A key for a session that bears no id: the file's name and a digest of how it begins."""
        digest = hashlib.blake2b(encode_json([*begin]), digest_size=4).hexdigest()
        return f"{self.path.name.split('.')[0]}-{digest}"


def age(place: str) -> tuple[datetime, datetime]:
    """What sorts places such that a session comes before one that began with a copy of it: the
    first and the last time in a file of JSON lines. All other places come first."""
    source = Source(place)
    try:
        if not source.is_url:
            with source.path.open("rb") as file:
                begun = _first_time(file.read(_LOOK).split(b"\n"))
                file.seek(max(0, source.path.stat().st_size - _LOOK))
                ended = _first_time(reversed(file.read().split(b"\n")))
            return begun, ended
    except OSError:  # the import says so, in its turn
        pass
    return _NEVER, _NEVER


def _first_time(lines: Iterable[bytes]) -> datetime:
    times = (moment(_record(line).get("timestamp")) for line in lines)
    return next(filter(None, times), _NEVER)


def _record(line: bytes) -> dict[str, Any]:
    try:
        return as_dict(read_json(line.removeprefix(_BOM), FileReport("").changed))
    except ValueError:
        return {}


def _reason(error: ValueError) -> str:
    # Of a decoder only the place in the line: its message may quote what it met.
    if isinstance(error, JSONDecodeError):
        return f"no JSON from column {error.colno} on"
    return str(error).partition(":")[0]
