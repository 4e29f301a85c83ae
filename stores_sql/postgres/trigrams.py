"""An index for substrings, with the extension pg_trgm: it leaves out the notes that lack three
letters in a row of the query, and the literal search looks at the rest.

``admin.migrate`` makes it where a namespace is large, as it makes each put slower. It is of the
folded bytes in the notation ``escape``, since texts of Postgres have no NUL; that writes each byte
beyond ASCII as four characters that tell little, so it helps queries with ASCII letters.
"""

import re

from sqlalchemy import ColumnElement, Text, func, literal_column, select

from stores_sql.parameters import fixed, given
from stores_sql.postgres.extension import quoted, schema_and_version
from stores_sql.postgres.indexes import build, is_usable, may_index
from stores_sql.postgres.statements import Connection, Statement
from stores_sql.postgres.storage import Storage
from stores_sql.postgres.tables import namespaces, notes
from stores_sql.postgres.vector_indexes import LARGE

EXTENSION, INDEX = "pg_trgm", "notes_trigrams"

_WORD = re.compile(rb"[0-9a-z]{3}")
_SPECIAL = re.compile(r"[\\%_]")

_IS_LARGE = Statement(
    select(namespaces.c.number).where(namespaces.c.note_count >= given("least")).limit(fixed(1))
)


def may_contain() -> ColumnElement[bool]:
    """Holds for every note that contains what the pattern ``pattern`` was made of, and for few
    others."""
    escaped = func.encode(notes.c.folded, literal_column("'escape'"), type_=Text)
    return escaped.op("LIKE", is_comparison=True)(given("pattern", Text))


def pattern_of(part: bytes) -> str | None:
    """The pattern for ``may_contain``; None for a query that gives the index nothing to go by."""
    if not _WORD.search(part):
        return None
    escaped = "".join(_escaped(byte) for byte in part)
    return "%" + _SPECIAL.sub(r"\\\g<0>", escaped) + "%"


def _escaped(byte: int) -> str:
    """As the server's ``encode(..., 'escape')`` writes it."""
    if byte == 0 or byte >= 128:
        return f"\\{byte:03o}"
    return "\\\\" if byte == ord("\\") else chr(byte)


async def has_trigrams(connection: Connection) -> bool:
    return await is_usable(connection, INDEX)


async def make_trigrams(storage: Storage) -> None:
    """Make the index where there is the extension and a large namespace, and the role may."""

    async def work(connection: Connection) -> None:
        found = await schema_and_version(connection, EXTENSION)
        if found is None or await _IS_LARGE.value(connection, least=LARGE) is None:
            return
        if await may_index(connection, "notes"):
            form = f"USING gin (encode(folded, 'escape') {quoted(found[0])}.gin_trgm_ops)"
            await build(connection, INDEX, "notes", form)

    await storage.examine(work)


async def without_trigrams(storage: Storage) -> str:
    """What to do where a large namespace is searched note by note for want of the index; or ""."""

    async def work(connection: Connection) -> bool:
        large = await _IS_LARGE.value(connection, least=LARGE) is not None
        there = await schema_and_version(connection, EXTENSION) is not None
        return large and there and not await has_trigrams(connection)

    if not await storage.examine(work):
        return ""
    return (
        f"pg_trgm is there, a namespace has {LARGE} notes or more, and its text no index; run "
        "migrate as the owner of the tables"
    )
