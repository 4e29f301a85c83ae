"""One LMDB environment: its tables, and transactions that run in threads.

A key of LMDB has at most 511 bytes and an id up to 512, so keys are made of digests of ids, and the
ids themselves stand in the values.
"""

import asyncio
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import RLock, Semaphore
from typing import Any, TypeVar

import lmdb
from stores_core import (
    CorruptRecordError,
    OutcomeUnknownError,
    SchemaVersionError,
    StoreUnavailableError,
    nothing_sent,
)

T = TypeVar("T")

FORMAT, READERS = b"1", 4
TABLES = (
    "meta", "runs", "run_order", "keys", "entries", "readers", "floors",
    "namespaces", "notes", "note_order", "results", "result_order", "texts", "rests",
)  # fmt: skip


def name_key(*names: str) -> bytes:
    """A key for these names: a digest of 128 bits for each."""
    return b"".join(hashlib.blake2b(name.encode(), digest_size=16).digest() for name in names)


class Transaction:
    """What one transaction reads and writes. Values that are no entries or texts are JSON."""

    def __init__(self, handle: Any, tables: dict[str, Any]) -> None:
        self._handle, self._tables = handle, tables

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._handle.get(key, db=self._tables[table])

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._handle.put(key, value, db=self._tables[table])

    def delete(self, table: str, key: bytes) -> bool:
        return self._handle.delete(key, db=self._tables[table])

    def record(self, table: str, key: bytes, store: str, id: str) -> Any:
        """The JSON at a key, None where there is none. Names ``store`` and ``id`` if damaged."""
        held = self.get(table, key)
        try:
            return None if held is None else json.loads(held)
        except ValueError as error:
            raise CorruptRecordError(store=store, id=id) from error

    def put_record(self, table: str, key: bytes, value: object) -> None:
        self.put(table, key, json.dumps(value).encode())

    def walk(self, table: str, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin with ``prefix``, without it, from ``start`` on, with their values."""
        cursor = self._handle.cursor(db=self._tables[table])
        if cursor.set_range(prefix + start):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key[len(prefix) :], value

    def clear(self, table: str, prefix: bytes, start: bytes = b"") -> None:
        """Delete the keys that begin with ``prefix``, from ``start`` on."""
        cursor = self._handle.cursor(db=self._tables[table])
        cursor.set_range(prefix + start)
        while cursor.key() and cursor.key().startswith(prefix):
            cursor.delete()  # and so is at the next key


def _sync_names(path: Path) -> None:
    # LMDB syncs its files and not their names, which the power may take with all that they hold.
    for folder in (path, path.parent) if os.name == "posix" else ():
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


class Storage:
    """An open environment. Reads run side by side; there is one thread for writes."""

    def __init__(self, path: Path, map_size: int) -> None:
        self._path, self._map_size = path, map_size
        self._readers, self._writer = ThreadPoolExecutor(READERS), ThreadPoolExecutor(1)
        self._reading, self._writing = Semaphore(READERS), RLock()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._open()
            _sync_names(path)
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailableError("LMDB could not open the folder") from error

    def _open(self) -> None:
        # With its defaults LMDB syncs on each commit, so an acknowledged write is on disk.
        self._environment: Any = lmdb.open(
            str(self._path), map_size=self._map_size, max_dbs=len(TABLES)
        )
        self._tables = {name: self._environment.open_db(name.encode()) for name in TABLES}
        with self._environment.begin(write=True) as handle:
            meta = self._tables["meta"]
            handle.put(b"format", FORMAT, db=meta, overwrite=False)
            handle.put(b"identity", secrets.token_hex(16).encode(), db=meta, overwrite=False)
            found = handle.get(b"format", db=meta)
            self.identity: str = handle.get(b"identity", db=meta).decode()
        if found != FORMAT:
            self.close()
            raise SchemaVersionError(
                f"the storage has format {found.decode()}, this code {FORMAT.decode()}: use its own"
            )

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Do some work on one instant of the storage."""
        return await _finished(self._readers, lambda: self._read(work))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Do some work wholly or not at all, after all writes before it."""
        return await _finished(self._writer, lambda: self._write(work))

    def _reopen(self, environment: Any) -> None:
        """Once LMDB could not write the end of a commit it begins no transaction more, be there
        space again or not: it has to be opened anew."""
        with self._writing:
            if environment is not self._environment:
                return  # somebody else has done it
            for _ in range(READERS):
                self._reading.acquire()
            try:
                environment.close()
                self._open()
            finally:
                self._reading.release(READERS)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        environment = self._environment
        try:
            try:
                return self._read_once(work)
            except lmdb.Error:
                self._reopen(environment)
                return self._read_once(work)
        except lmdb.Error as error:
            raise StoreUnavailableError("LMDB could not read") from error

    def _read_once(self, work: Callable[[Transaction], T]) -> T:
        with self._reading, self._environment.begin() as handle:
            return work(Transaction(handle, self._tables))

    def _write(self, work: Callable[[Transaction], T]) -> T:
        with self._writing:
            try:
                handle = self._begun()
                try:
                    answer = work(Transaction(handle, self._tables))
                except BaseException:
                    handle.abort()
                    raise
            except lmdb.MapFullError as error:
                raise StoreUnavailableError("the storage is full; max_gib raises that") from error
            except lmdb.Error as error:
                raise StoreUnavailableError("LMDB could not write; nothing was applied") from error
            try:
                handle.commit()
            except lmdb.Error as error:
                raise OutcomeUnknownError("LMDB failed while it committed") from error
            return answer

    def _begun(self) -> Any:
        try:
            return self._environment.begin(write=True)
        except lmdb.Error:
            self._reopen(self._environment)
            return self._environment.begin(write=True)

    def close(self) -> None:
        self._readers.shutdown()
        self._writer.shutdown()
        self._environment.close()


async def _finished(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """What the work answers, in a thread of the pool.

    A thread cannot be stopped, so a caller that is cancelled waits for the end of a transaction
    that has begun: nobody is left with one that is open.
    """
    job = pool.submit(work)
    answer = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        if job.cancel():
            with nothing_sent():
                raise
        while not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                continue
        answer.exception()  # seen; the caller is gone
        raise


_shared: dict[tuple[int, Path], tuple[Storage, int]] = {}


@contextmanager
def shared(path: str, map_size: int) -> Generator[Storage]:
    """The storage of a folder. LMDB forbids a process to open one twice, so clients share it."""
    place = os.getpid(), Path(path).resolve()
    storage, users = _shared.get(place, (None, 0))
    storage = storage or Storage(place[1], map_size)
    _shared[place] = storage, users + 1
    try:
        yield storage
    finally:
        storage, users = _shared[place]
        if users > 1:
            _shared[place] = storage, users - 1
        else:
            del _shared[place]
            storage.close()
