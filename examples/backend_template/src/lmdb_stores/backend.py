"""Opening a storage: ``lmdb:/path/to/folder``."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import unquote

from stores_core import Backend, Capability, Clock, Durability, Embedder, InvalidRequestError

from lmdb_stores.memory import LmdbMemoryStore
from lmdb_stores.runs import LmdbRunStore
from lmdb_stores.storage import name_key, shared
from lmdb_stores.tool_results import LmdbToolResultStore

GIB = 1024**3


@asynccontextmanager
async def open_lmdb(
    url: str, *, tenant: str, embedder: Embedder | None, clock: Clock, max_gib: int = 64
) -> AsyncGenerator[Backend]:
    """Open the storage in a folder, which is made if need be.

    ``max_gib`` is what the storage may grow to; LMDB reserves addresses for it, not disk.
    """
    path = unquote(url.partition(":")[2])
    if not path:
        raise InvalidRequestError(field="url", found="no path", allowed="lmdb:/path/to/folder")
    if embedder is not None:
        raise InvalidRequestError(
            field="embedder", found="one", allowed="none: notes are recalled by substring here"
        )
    with shared(path, max_gib * GIB) as storage:
        mine = name_key(tenant)
        yield Backend(
            name="lmdb",
            runs=LmdbRunStore(storage, mine),
            memory=LmdbMemoryStore(storage, mine),
            tool_results=LmdbToolResultStore(storage, mine),
            capabilities=frozenset({Capability.SHARED}),
            durability=Durability.DISK,
            identity=f"{storage.identity}/{mine.hex()}",
        )
