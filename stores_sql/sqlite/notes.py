"""Rows of notes and namespaces: what every operation on notes reads and writes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import delete, func, insert, select, tuple_, update

from stores_core.codec import decode_json, encode_json
from stores_core.errors import CorruptRecordError
from stores_core.memory import StoredMemory
from stores_core.shape import EPOCH, replaced
from stores_core.values import filter_digests, from_micros
from stores_sql.parameters import fixed, given
from stores_sql.sqlite.statements import Connection, Statement, inserting
from stores_sql.sqlite.storage import raise_version_floor
from stores_sql.sqlite.tables import namespaces, note_filters, notes, tenants, vectors

INSTR_BYTES = 64
"""So much of a query SQLite looks for. Its search takes the product of both lengths at worst, so
the rest of a longer query is compared here, where the search is linear."""

Place = tuple[int, int]
"""Where a note stands in listings: microseconds of creation, then its number."""

BEFORE_ALL: Place = (-(1 << 63), 0)

_BETWEEN = b"\xff"

_COLUMNS = (
    notes.c.number, notes.c.key, notes.c.created, notes.c.updated, notes.c.version,
    notes.c.metadata, notes.c.value,
)  # fmt: skip
_NAMESPACE = Statement(
    select(
        namespaces.c.number, namespaces.c.note_count, namespaces.c.changes, namespaces.c.removed_at
    ).where(namespaces.c.tenant == given("tenant"), namespaces.c.name == given("name"))
)
_INSERT_NAMESPACE = inserting(namespaces, numbered=True)
_SET_NAMESPACE = Statement(
    update(namespaces)
    .values(
        note_count=given("note_count"), changes=given("changes"), removed_at=given("removed_at")
    )
    .where(namespaces.c.number == given("namespace"))
)
_DELETE_NAMESPACE = Statement(delete(namespaces).where(namespaces.c.number == given("namespace")))
_named = (notes.c.namespace == given("namespace"), notes.c.key == given("key"))
_FIND = Statement(select(*_COLUMNS).where(*_named))
_AT = Statement(select(*_COLUMNS).where(notes.c.number == given("note")))
_in_order = (
    notes.c.namespace == given("namespace"),
    tuple_(notes.c.created, notes.c.number) > tuple_(given("created"), given("number")),
)
_ALL = Statement(select(*_COLUMNS).where(*_in_order).order_by(notes.c.created, notes.c.number))
_CONTAINING = Statement(
    select(*_COLUMNS, notes.c.folded)
    .where(*_in_order, func.instr(notes.c.folded, given("part")) > fixed(0))
    .order_by(notes.c.created, notes.c.number)
)
_FOLDED = Statement(select(notes.c.folded).where(notes.c.number == given("note")))
_INSERT = inserting(notes, numbered=True)
_UPDATE = Statement(
    update(notes)
    .values({name: given(name) for name in ("updated", "version", "folded", "metadata", "value")})
    .where(notes.c.number == given("note"))
)
_DELETE = Statement(delete(notes).where(notes.c.number == given("note")))
_INSERT_FILTER = Statement(insert(note_filters), ["namespace", "digest", "created", "note"])
_filter = (
    note_filters.c.namespace == given("namespace"),
    note_filters.c.digest == given("digest"),
)
_DELETE_FILTER = Statement(
    delete(note_filters).where(
        *_filter, note_filters.c.created == given("created"), note_filters.c.note == given("note")
    )
)
_FILTERED = Statement(
    select(note_filters.c.created, note_filters.c.note)
    .where(
        *_filter,
        tuple_(note_filters.c.created, note_filters.c.note)
        > tuple_(given("created"), given("number")),
    )
    .order_by(note_filters.c.created, note_filters.c.note)
)
_HAS_FILTER = Statement(
    select(fixed(1))
    .select_from(note_filters)
    .where(
        *_filter, note_filters.c.created == given("created"), note_filters.c.note == given("note")
    )
)
_VERSION_FLOOR = Statement(
    select(tenants.c.version_floor).where(tenants.c.number == given("tenant"))
)
_HIGHEST_VERSION = Statement(
    select(func.max(notes.c.version)).where(notes.c.namespace == given("namespace"))
)
_DELETE_VECTORS = Statement(delete(vectors).where(vectors.c.note == given("note")))
_CLEAR = tuple(
    Statement(delete(table).where(table.c.namespace == given("namespace")))
    for table in (vectors, note_filters, notes)
)


@dataclass(slots=True)
class Namespace:
    """A namespace's row. Whoever changes it calls :meth:`save` at the end."""

    tenant: int
    number: int
    note_count: int
    changes: int
    removed_at: int

    def save(self, connection: Connection) -> None:
        if not self.note_count:
            _DELETE_NAMESPACE.run(connection, namespace=self.number)
            return
        _SET_NAMESPACE.run(
            connection, namespace=self.number, note_count=self.note_count, changes=self.changes,
            removed_at=self.removed_at,
        )  # fmt: skip


class Note(NamedTuple):
    """A note's row, without its namespace and folded text."""

    number: int
    key: str
    created: int
    updated: int
    version: int
    metadata: bytes
    value: str

    @property
    def place(self) -> Place:
        return self.created, self.number

    @property
    def size(self) -> int:
        """Bytes of its texts, for the ends of pages."""
        return len(self.key.encode()) + len(self.value.encode()) + len(self.metadata)

    def decoded(self) -> dict[str, Any]:
        """The metadata."""
        if self.metadata == b"{}":
            return {}
        try:
            return decode_json(self.metadata)
        except ValueError as error:
            raise CorruptRecordError(store="memory", id=self.key) from error

    def stored(self) -> StoredMemory:
        """The note as it is handed out."""
        # Not checked again: a long listing would spend most of its time on that.
        fields = {
            "key": self.key,
            "value": self.value,
            "metadata": self.decoded(),
            "created_at": from_micros(self.created),
            "updated_at": from_micros(self.updated),
            "version": self.version,
        }
        return replaced(_NO_NOTE, fields)


_NO_NOTE = StoredMemory(key="-", value="", created_at=EPOCH, updated_at=EPOCH, version=0)


def find_namespace(connection: Connection, tenant: int, name: str) -> Namespace | None:
    row = _NAMESPACE.one(connection, tenant=tenant, name=name)
    return None if row is None else Namespace(tenant, *row)


def enter_namespace(connection: Connection, tenant: int, name: str) -> Namespace:
    """The namespace, which is made if it is not there."""
    found = find_namespace(connection, tenant, name)
    if found is not None:
        return found
    number = _INSERT_NAMESPACE.number(
        connection, tenant=tenant, name=name, note_count=0, changes=0, removed_at=0
    )
    return Namespace(tenant, number, 0, 0, 0)


def find(connection: Connection, namespace: Namespace | None, key: str) -> Note | None:
    if namespace is None:
        return None
    row = _FIND.one(connection, namespace=namespace.number, key=key)
    return None if row is None else Note._make(row)


def note_at(connection: Connection, number: int) -> Note:
    """The note with this number, which is there."""
    return Note._make(_AT.one(connection, note=number) or ())


def put(
    connection: Connection,
    namespace: Namespace,
    old: Note | None,
    item: StoredMemory,
    created: int,
    updated: int,
) -> int:
    """Write a note in place of ``old`` or as a new one; its number.

    Its vectors are gone then. ``created`` counts for a new note only; the metadata is ``item``'s.
    """
    written = {
        "updated": updated,
        "version": item.version,
        "folded": _folded(item.key) + _BETWEEN + _folded(item.value),
        "metadata": encode_json(item.metadata),
        "value": item.value,
    }
    if old is not None:
        number, created = old.number, old.created
        _remove_filters(connection, namespace, old)
        drop_vectors(connection, namespace, number)
        _UPDATE.run(connection, note=number, **written)
    else:
        namespace.note_count += 1
        number = _INSERT.number(
            connection, namespace=namespace.number, key=item.key, created=created, **written
        )
    _INSERT_FILTER.many(
        connection,
        [(namespace.number, digest, created, number) for digest in _digests(item.metadata)],
    )
    return number


def remove(connection: Connection, namespace: Namespace, note: Note) -> None:
    """Take a note away; no note starts at a version that it had."""
    namespace.note_count -= 1
    _remove_filters(connection, namespace, note)
    drop_vectors(connection, namespace, note.number)
    _DELETE.run(connection, note=note.number)
    raise_version_floor(connection, namespace.tenant, note.version)


def clear(connection: Connection, namespace: Namespace) -> int:
    """Take all notes of a namespace away, and itself; how many there were."""
    highest = _HIGHEST_VERSION.value(connection, namespace=namespace.number)
    raise_version_floor(connection, namespace.tenant, highest or 0)
    for statement in _CLEAR:
        statement.run(connection, namespace=namespace.number)
    _DELETE_NAMESPACE.run(connection, namespace=namespace.number)
    return namespace.note_count


def drop_vectors(connection: Connection, namespace: Namespace, note: int) -> None:
    """A note was changed or removed: no vector of it is right any more."""
    if _DELETE_VECTORS.run(connection, note=note).rowcount:
        namespace.changes += 1
        namespace.removed_at = namespace.changes


def version_floor(connection: Connection, tenant: int) -> int:
    """The highest version that a deleted note had."""
    return _VERSION_FLOOR.value(connection, tenant=tenant) or 0


def listed(
    connection: Connection,
    namespace: Namespace,
    after: Place = BEFORE_ALL,
    digests: Iterable[bytes] = (),
    query: str = "",
) -> Iterator[Note]:
    """Notes behind a place, oldest first, that have all of ``digests`` and contain ``query``."""
    part = _folded(query)
    at = {"namespace": namespace.number, "created": after[0], "number": after[1]}
    wanted = sorted(digests)
    if wanted:
        for _, number in places(connection, namespace, wanted, after):
            if not part or part in _FOLDED.value(connection, note=number):
                yield note_at(connection, number)
    elif part:
        for *row, folded in _CONTAINING.run(connection, part=part[:INSTR_BYTES], **at):
            if len(part) <= INSTR_BYTES or part in folded:
                yield Note._make(row)
    else:
        for row in _ALL.run(connection, **at):
            yield Note._make(row)


def places(
    connection: Connection,
    namespace: Namespace,
    digests: Iterable[bytes],
    after: Place = BEFORE_ALL,
) -> Iterator[Place]:
    """Where the notes that have all of these digests stand, oldest first."""
    first, *others = digests
    number = namespace.number
    rows = _FILTERED.run(
        connection, namespace=number, digest=first, created=after[0], number=after[1]
    )
    for created, note in rows:
        if all(
            _HAS_FILTER.one(connection, namespace=number, digest=other, created=created, note=note)
            for other in others
        ):
            yield created, note


def _remove_filters(connection: Connection, namespace: Namespace, note: Note) -> None:
    for digest in _digests(note.decoded()):
        _DELETE_FILTER.run(
            connection,
            namespace=namespace.number, digest=digest, created=note.created, note=note.number,
        )  # fmt: skip


def _digests(metadata: Mapping[str, object]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in filter_digests(metadata)]


def _folded(text: str) -> bytes:
    return text.casefold().encode()
