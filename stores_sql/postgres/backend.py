"""Opening a Postgres database."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from stores_core.backend import Backend
from stores_core.capabilities import Capability
from stores_core.embedding import Embedder, NoteEmbedder
from stores_core.errors import InvalidRequestError
from stores_core.retention import Retention
from stores_core.values import Clock
from stores_sql.postgres.admin import PostgresAdmin
from stores_sql.postgres.connections import (
    HostEngine,
    HostPool,
    OwnPool,
    Source,
    address,
    connecting,
)
from stores_sql.postgres.memory import PostgresMemoryStore
from stores_sql.postgres.moving import PostgresMoving
from stores_sql.postgres.runs import PostgresRunStore
from stores_sql.postgres.settings import check_encoding, check_path, durability_of, read_settings
from stores_sql.postgres.storage import IDENTITY, Storage, Tenant
from stores_sql.postgres.tool_results import PostgresToolResultStore
from stores_sql.postgres.versions import prepare

SCHEMA = "agent_stores"
POOL_SIZE = 10
CONNECT_TIMEOUT = 10.0

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    tenant: str = "",
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    schema: str = SCHEMA,
    create: bool = True,
    pool: Any = None,
    engine: Any = None,
    pool_size: int = POOL_SIZE,
    prepared_statements: bool = True,
    connect_timeout: float = CONNECT_TIMEOUT,
    host: str = "",
    port: int = 0,
    sslmode: str = "",
    sslrootcert: str = "",
    sslcert: str = "",
    sslkey: str = "",
    target_session_attrs: str = "",
    notes_per_namespace: int = 0,
    result_max_age: float = 0,
    result_max_count: int = 0,
    result_max_bytes: int = 0,
) -> AsyncGenerator[Backend]:
    """Open ``postgresql://user:password@host:port/database``, each part percent-encoded.

    ``schema`` holds our tables and nobody else's; ``create`` makes them where there are none.
    ``pool`` is an ``asyncpg.Pool``, or ``engine`` an ``AsyncEngine`` with that driver, of the
    host's, used in place of up to ``pool_size`` connections of our own and never closed; of the URL
    then only the scheme counts. ``prepared_statements`` is to be False behind a pooler that hands
    statements of one client to several server processes and does not know prepared ones.
    ``connect_timeout`` is in seconds.

    ``host`` (a folder for a Unix socket), ``port``, ``sslmode``, ``sslrootcert``, ``sslcert``,
    ``sslkey`` and ``target_session_attrs`` are libpq's. The rest are those of ``memory:``.
    """
    if not _SCHEMA_NAME.fullmatch(schema):
        raise InvalidRequestError(
            field="schema",
            found="a name with other characters, or too long",
            allowed="up to 41 of a-z, 0-9 and _, with no digit first",
        )
    if pool_size < 1:
        raise InvalidRequestError(field="pool_size", found=str(pool_size), allowed="1 or more")
    parameters = {
        "host": host, "port": port, "sslmode": sslmode, "sslrootcert": sslrootcert,
        "sslcert": sslcert, "sslkey": sslkey, "target_session_attrs": target_session_attrs,
    }  # fmt: skip
    if pool is not None and engine is not None:
        raise InvalidRequestError(field="pool", found="an engine beside it", allowed="one of them")
    if pool is not None:
        source: Source = HostPool(pool)
    elif engine is not None:
        source = HostEngine(engine)
    else:
        dsn = address(url, parameters)
        connect = connecting(dsn, timeout=connect_timeout, prepare=prepared_statements)
        source = OwnPool(connect, pool_size)
    storage = Storage(source, schema, prepare=prepared_statements)
    try:
        settings = await storage.examine(read_settings)
        check_encoding(settings)
        check_path(settings)
        await storage.examine(partial(prepare, create=create))
        storage.identity = await storage.examine(IDENTITY.value)
        held = Tenant(storage, tenant)
        embeds = None if embedder is None else NoteEmbedder(embedder)
        retention = Retention(result_max_age, result_max_count, result_max_bytes)
        runs = PostgresRunStore(held)
        yield Backend(
            name="postgres",
            runs=runs,
            memory=PostgresMemoryStore(held, embeds, notes_per_namespace),
            tool_results=PostgresToolResultStore(held, retention),
            admin=PostgresAdmin(held, runs, embeds, retention),
            moving=PostgresMoving(held),
            capabilities=frozenset({Capability.SHARED, Capability.EMBEDDINGS, Capability.MOVABLE}),
            durability=durability_of(settings),
            identity=f"{storage.identity}\0{tenant}",
        )
    finally:
        await storage.close()
