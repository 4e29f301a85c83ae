"""Rows of notes and namespaces, and reading them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    FromClause,
    LargeBinary,
    Select,
    column,
    func,
    select,
    true,
    tuple_,
)
from sqlalchemy.sql.selectable import LateralFromClause

from stores_core.codec import decode_json
from stores_core.errors import CorruptRecordError
from stores_core.limits import PAGE_BYTES
from stores_core.memory import StoredMemory
from stores_core.shape import EPOCH, replaced
from stores_core.values import filter_digest, filter_digests, from_micros
from stores_sql.parameters import fixed, given
from stores_sql.postgres.statements import Connection, Row, Statement
from stores_sql.postgres.storage import TENANT
from stores_sql.postgres.tables import namespaces, note_filters, notes
from stores_sql.postgres.trigrams import may_contain, pattern_of

SEARCHED_BYTES = 64
"""So much of a query the server looks for. Its search takes the product of both lengths at worst,
so the rest of a longer query is compared here, where the search is linear."""

Place = tuple[int, int]
"""Where a note stands in listings: microseconds of creation, then its number."""

BEFORE_ALL: Place = (-(1 << 63), 0)

COLUMNS = (
    notes.c.number, notes.c.key, notes.c.created, notes.c.updated, notes.c.version,
    notes.c.metadata, notes.c.value,
)  # fmt: skip

HERE = (
    select(namespaces.c.number)
    .where(namespaces.c.tenant == TENANT, namespaces.c.name == given("namespace"))
    .scalar_subquery()
)
"""The number of the namespace ``namespace`` of the tenant ``name``, for statements that stand
alone."""

_BETWEEN = b"\xff"

CHANGES = (
    select(namespaces.c.changes)
    .where(namespaces.c.tenant == TENANT, namespaces.c.name == given("namespace"))
    .scalar_subquery()
)
"""How often the notes of that namespace were changed."""

in_namespace = (notes.c.tenant == TENANT, notes.c.namespace == HERE)
_FIND = Statement(select(*COLUMNS).where(*in_namespace, notes.c.key == given("key")))
_AT = Statement(
    select(CHANGES, *COLUMNS)
    .where(*in_namespace, notes.c.number == func.any(given("numbers", ARRAY(BigInteger))))
    .order_by(notes.c.created, notes.c.number)
)
_FOLDED = Statement(
    select(notes.c.number, notes.c.folded).where(
        *in_namespace, notes.c.number == func.any(given("numbers", ARRAY(BigInteger)))
    )
)
_named = select(namespaces.c.name).where(namespaces.c.tenant == TENANT)
_from_prefix = (
    _named.where(namespaces.c.name >= given("prefix"))
    .order_by(namespaces.c.name)
    .limit(given("most", BigInteger))
)
_NAMES = Statement(_from_prefix)
_NAMES_AFTER = Statement(_from_prefix.where(namespaces.c.name > given("after")))


class Note(NamedTuple):
    """A note's row, without its namespace and folded text."""

    number: int
    key: str
    created: int
    updated: int
    version: int
    metadata: str
    value: bytes

    @property
    def place(self) -> Place:
        return self.created, self.number

    @property
    def size(self) -> int:
        """Bytes of its texts, for the ends of pages."""
        return len(self.key.encode()) + len(self.value) + len(self.metadata.encode())

    def decoded(self) -> dict[str, Any]:
        """The metadata."""
        if self.metadata == "{}":
            return {}
        try:
            return decode_json(self.metadata)
        except ValueError as error:
            raise CorruptRecordError(store="memory", id=self.key) from error

    def stored(self) -> StoredMemory:
        """The note as it is handed out."""
        try:
            value = self.value.decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(store="memory", id=self.key) from error
        # Not checked again: a long listing would spend most of its time on that.
        fields = {
            "key": self.key,
            "value": value,
            "metadata": self.decoded(),
            "created_at": from_micros(self.created),
            "updated_at": from_micros(self.updated),
            "version": self.version,
        }
        return replaced(_NO_NOTE, fields)


_NO_NOTE = StoredMemory(key="-", value="", created_at=EPOCH, updated_at=EPOCH, version=0)


class Spot(NamedTuple):
    """A namespace of a tenant, by their names."""

    tenant: str
    namespace: str

    @property
    def given(self) -> dict[str, str]:
        """The parameters of TENANT and HERE."""
        return {"name": self.tenant, "namespace": self.namespace}


async def find(connection: Connection, spot: Spot, key: str) -> Note | None:
    row = await _FIND.one(connection, key=key, **spot.given)
    return None if row is None else Note._make(row)


async def notes_at(
    connection: Connection, spot: Spot, numbers: Iterable[int]
) -> tuple[list[Note], int]:
    """Those of the notes with these numbers that are there, oldest first, and the changes of the
    namespace up to now (0 where no such note is there)."""
    rows = await _AT.all(connection, numbers=list(numbers), **spot.given)
    return [Note._make(row[1:]) for row in rows], rows[0][0] if rows else 0


async def names_from(
    connection: Connection, tenant: str, prefix: str, most: int, after: str | None = None
) -> list[str]:
    """Up to ``most`` namespaces, in code-point order, from ``prefix`` on and behind ``after``."""
    along: dict[str, Any] = {"name": tenant, "prefix": prefix, "most": most}
    if after is None:
        rows = await _NAMES.all(connection, **along)
    else:
        rows = await _NAMES_AFTER.all(connection, after=after, **along)
    return [name for (name,) in rows]


async def listed(
    connection: Connection,
    spot: Spot,
    after: Place = BEFORE_ALL,
    wanted: Sequence[bytes] = (),
    query: str = "",
    most: int = 0,
    *,
    in_pages: bool = False,
    trigrams: bool = False,
) -> list[Note]:
    """Notes behind a place, oldest first, that have all digests ``wanted`` and contain ``query``.

    At most ``most``, where 0 is no cap; ``in_pages`` they end early, with the first note that
    begins beyond the bytes of a page. ``trigrams`` says that there is an index of them. One
    statement, but for a long query.
    """
    part = folded(query)
    values: dict[str, Any] = {**spot.given, "created": after[0], "number": after[1]}
    pattern = pattern_of(part[:SEARCHED_BYTES]) if trigrams and not wanted else None
    if pattern is not None:
        values["pattern"] = pattern
    if wanted:
        values |= filters_given(wanted)
    if is_long(query):
        candidates = _candidates(bool(wanted), pattern is not None)
        numbers = await _containing(connection, spot, part, candidates, values, most)
        return (await notes_at(connection, spot, numbers))[0]
    if part:
        values["part"] = part
    if most:
        values["most"] = most
    statement = _listing(bool(wanted), bool(part), pattern is not None, bool(most), in_pages)
    return [Note._make(row) for row in await statement.all(connection, **values)]


async def _containing(
    connection: Connection,
    spot: Spot,
    part: bytes,
    candidates: Statement,
    values: dict[str, Any],
    most: int,
) -> list[int]:
    """Numbers of the oldest notes that contain a long query, where the server knows its start."""
    rows = await candidates.all(connection, part=part[:SEARCHED_BYTES], **values)
    found: list[int] = []
    for numbers in _pieces(rows):
        texts = await _FOLDED.all(connection, numbers=numbers, **spot.given)
        matching = {number for number, text in texts if part in text}
        found += [number for number in numbers if number in matching]
        if most and len(found) >= most:
            return found[:most]
    return found


def _pieces(rows: Iterable[Row]) -> Iterator[list[int]]:
    """The numbers, so many at a time as fit into the bytes of a page."""
    piece, total = list[int](), 0
    for number, size in rows:
        if piece and total + size > PAGE_BYTES:
            yield piece
            piece, total = [], 0
        piece.append(number)
        total += size
    if piece:
        yield piece


async def numbers_with(connection: Connection, spot: Spot, wanted: Sequence[bytes]) -> list[int]:
    """The numbers of the notes that have all of these digests."""
    rows = await _NUMBERS_WITH.all(connection, **spot.given, **filters_given(wanted))
    return [number for (number,) in rows]


def filters_given(wanted: Sequence[bytes]) -> dict[str, Any]:
    """The parameters of :data:`has_filters`."""
    return {"digest": wanted[0], "others": list(wanted[1:])}


def _has_all() -> tuple[ColumnElement[bool], ...]:
    others = (
        func.unnest(given("others", ARRAY(LargeBinary)))
        .table_valued(column("digest", LargeBinary))
        .render_derived()
    )
    also = note_filters.alias("also")
    has_it = select(fixed(1)).where(
        also.c.tenant == note_filters.c.tenant,
        also.c.namespace == note_filters.c.namespace,
        also.c.digest == others.c.digest,
        also.c.created == note_filters.c.created,
        also.c.note == note_filters.c.note,
    )
    lacks = (
        select(fixed(1)).select_from(others).where(~has_it.correlate(others, note_filters).exists())
    )
    return (
        note_filters.c.tenant == TENANT,
        note_filters.c.namespace == HERE,
        note_filters.c.digest == given("digest"),
        ~lacks.correlate(note_filters).exists(),
    )


has_filters = _has_all()
"""Holds for the rows of ``note_filters`` with the first digest whose notes have the others too."""

_NUMBERS_WITH = Statement(select(note_filters.c.note).where(*has_filters))


def _rows(
    columns: Sequence[ColumnElement[Any]], *, filtered: bool, containing: bool, patterned: bool
) -> Select[Any]:
    order: tuple[ColumnElement[Any], ...] = (notes.c.created, notes.c.number)
    rows = select(*columns).where(*in_namespace)
    if containing:
        place = func.pg_catalog.position(notes.c.folded, given("part", LargeBinary))
        rows = rows.where(place > fixed(0))
    if patterned:
        rows = rows.where(may_contain())
    if filtered:
        order = (note_filters.c.created, note_filters.c.note)
        fitting = one_each(rows.where(notes.c.number == note_filters.c.note), note_filters)
        rows = (
            select(*fitting.c).select_from(note_filters.join(fitting, true())).where(*has_filters)
        )
    return rows.where(tuple_(*order) > tuple_(given("created"), given("number"))).order_by(*order)


def one_each(row: Select[Any], of: FromClause) -> LateralFromClause:
    """The one row that belongs to each of ``of``.

    With a limit it stays one look-up in an index for each. A join may, as long as the tables are
    not analysed, go through all rows of the namespace for each.
    """
    return row.correlate(of).limit(fixed(1)).lateral()


_SIZE = func.octet_length(notes.c.folded).label("size")


@cache
def _candidates(filtered: bool, patterned: bool) -> Statement:
    columns = (notes.c.number, _SIZE)
    return Statement(_rows(columns, filtered=filtered, containing=True, patterned=patterned))


@cache
def _listing(
    filtered: bool, containing: bool, patterned: bool, capped: bool, in_pages: bool
) -> Statement:
    rows = _rows(COLUMNS, filtered=filtered, containing=containing, patterned=patterned)
    if capped:
        rows = rows.limit(given("most", BigInteger))
    if not in_pages:
        return Statement(rows)
    # The values stay where they are until it is known which of them fit.
    taken = rows.subquery("taken")
    texts = (taken.c.key, taken.c.metadata, taken.c.value)
    size = sum((func.octet_length(text) for text in texts), fixed(0))
    order = (taken.c.created, taken.c.number)
    before = func.sum(size).over(order_by=order, rows=(None, 0)) - size
    summed = select(*taken.c, before.label("before")).subquery("summed")
    return Statement(
        select(*[summed.c[column.name] for column in COLUMNS])
        .where(summed.c.before <= fixed(PAGE_BYTES))
        .order_by(summed.c.created, summed.c.number)
    )


def digests_of(metadata: Mapping[str, object]) -> list[bytes]:
    """The digests by which a note is found."""
    return [bytes.fromhex(digest) for digest in filter_digests(metadata)]


def digests_wanted(where: Mapping[str, Any]) -> list[bytes]:
    """The digests that a note must have to be found by ``where``."""
    return [bytes.fromhex(filter_digest(key, value)) for key, value in where.items()]


def is_long(query: str) -> bool:
    """Whether the server looks for the start of a query only, which takes several statements."""
    return len(folded(query)) > SEARCHED_BYTES


def folded(text: str) -> bytes:
    return text.casefold().encode()


def folded_note(key: str, value: str) -> bytes:
    """What of a note is searched."""
    return folded(key) + _BETWEEN + folded(value)
