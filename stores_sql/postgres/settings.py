"""What the server's settings mean: the durability that they give, and what should be changed."""

import json
from collections.abc import Mapping

from stores_core.capabilities import Durability
from stores_core.errors import InvalidRequestError
from stores_sql.postgres.statements import Connection

_NAMES = (
    "server_version", "server_encoding", "fsync", "full_page_writes", "synchronous_commit",
    "synchronous_standby_names", "transaction_read_only", "is_superuser", "jit",
    "statement_timeout", "idle_in_transaction_session_timeout",
)  # fmt: skip
# Names and operators bear their schema: nobody has looked at the search path yet.
_ASKED = (
    "SELECT n, coalesce(pg_catalog.current_setting(n, true), '') "
    "FROM pg_catalog.unnest($1::pg_catalog.text[]) AS t (n) "
    "UNION ALL SELECT pg_catalog.concat('extension ', extname), extversion "
    "FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) "
    "ANY ('{vector,pg_trgm}'::pg_catalog.name[]) "
    "UNION ALL SELECT 'compiles', pg_catalog.pg_jit_available()::pg_catalog.text "
    "UNION ALL SELECT 'path', "
    "pg_catalog.array_to_json(pg_catalog.current_schemas(true))::pg_catalog.text"
)


async def read_settings(connection: Connection) -> dict[str, str]:
    """The settings that matter, as they hold for this role in this database."""
    rows = await connection.driver.fetch(_ASKED, list(_NAMES))
    return {row[0]: row[1] for row in rows}


def check_encoding(settings: Mapping[str, str]) -> None:
    """Refuse a database that could not give every text back."""
    encoding = settings["server_encoding"]
    if encoding != "UTF8":
        raise InvalidRequestError(
            field="url",
            found=f"a database in the encoding {encoding}",
            allowed="one in UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
        )


def check_path(settings: Mapping[str, str]) -> None:
    """Refuse a search path in which another schema's functions win over the server's own."""
    schemas: list[str] = json.loads(settings["path"])
    before = [name for name in schemas[: schemas.index("pg_catalog")] if not _is_temporary(name)]
    if before:
        raise InvalidRequestError(
            field="url",
            found=f"a search path with {before[0]!r} before pg_catalog",
            allowed="pg_catalog first, as where it is not named: ALTER ROLE ... SET search_path",
        )


def _is_temporary(schema: str) -> bool:
    return schema.startswith("pg_temp")  # functions are never looked for there


def durability_of(settings: Mapping[str, str]) -> Durability:
    """What an acknowledged write survives."""
    if not settings.get("fsync") or not settings.get("synchronous_commit"):
        return Durability.UNVERIFIED
    if "off" in (settings["fsync"], settings["full_page_writes"]):
        return Durability.CLIENT
    waits_for = settings["synchronous_commit"]
    if waits_for == "off":
        return Durability.BOUNDED
    if settings["synchronous_standby_names"] and waits_for in ("on", "remote_apply"):
        return Durability.REPLICATED
    return Durability.DISK


def warnings_of(settings: Mapping[str, str]) -> list[str]:
    """What to change, and how."""
    found: list[str] = []
    for name in ("fsync", "full_page_writes"):
        if settings.get(name) == "off":
            found.append(
                f"{name} is off: a crash of the server's machine can damage the whole database; "
                f"set {name} = on in postgresql.conf"
            )
    if settings.get("synchronous_commit") == "off":
        found.append(
            "synchronous_commit is off: a crash of the server loses the last moments; ALTER ROLE "
            "... SET synchronous_commit = on"
        )
    if settings.get("transaction_read_only") == "on":
        found.append("this server is read-only, as a standby is; connect to the primary")
    if settings.get("is_superuser") == "on":
        found.append(
            "the role is a superuser; one with rights on the tables of the schema is enough"
        )
    if settings.get("jit") == "on" and settings.get("compiles") == "true":
        found.append(
            "jit is on: compiling costs more than it saves here; ALTER ROLE ... SET jit = off"
        )
    return found
