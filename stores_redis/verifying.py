"""Reading every record of a tenant, and listing what is damaged."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from stores_core.admin import Problem
from stores_core.errors import CorruptRecordError
from stores_core.findings import Findings
from stores_redis.embedding import DIGEST_BYTES
from stores_redis.generations import Generations, info_of
from stores_redis.keys import Bucket
from stores_redis.namespaces import namespaces_of
from stores_redis.note_reading import NoteReader
from stores_redis.notes import Note
from stores_redis.places import Places
from stores_redis.results import Header, Results, result_of
from stores_redis.run_verifying import verify_runs
from stores_redis.storage import Tenant

_AT_ONCE = 100


async def verify(tenant: Tenant) -> tuple[dict[str, int], list[Problem]]:
    """Counts of what was checked and the problems found. Changes nothing."""
    findings = Findings()
    await verify_runs(Places(tenant), findings)
    notes = NoteReader(tenant, Generations())
    for bucket in tenant.buckets:
        async for namespace in namespaces_of(tenant, bucket):
            await _verify_namespace(notes, bucket, namespace, findings)
        await _verify_results(Results(tenant), bucket, findings)
    return dict(findings.checked), findings.problems


async def _verify_namespace(
    reader: NoteReader, bucket: Bucket, namespace: str, findings: Findings
) -> None:
    about = await reader.active_in(bucket)
    generation = reader.generations.known(bucket).partition(" ")[0]
    counted = [
        ("HLEN", bucket.notes(namespace)),
        ("ZCARD", bucket.note_order(namespace)),
        ("ZCARD", bucket.note_changes(namespace)),
    ]
    counts = await reader.tenant.read_many(counted)
    if len(set(counts)) > 1 and await reader.tenant.read_many(counted) == counts:
        what = f"it has {counts[0]} notes, {counts[1]} in order and {counts[2]} by change"
        findings.add("memory", namespace, what)
    async for records in _all_of(reader.tenant, bucket.notes(namespace)):
        notes: list[Note] = []
        for key, record in records:
            findings.checked["notes"] += 1
            try:
                notes.append(Note.read(key, record))
            except CorruptRecordError as error:
                findings.add("memory", key.decode(), str(error))
        filled = await reader.fill(namespace, notes)
        await _verify_missing(reader, namespace, notes, filled, findings)
        for note in filled:
            findings.check("memory", note.key, note.stored)
        if about and notes:
            vectors = bucket.vectors(namespace, generation)
            found = await reader.tenant.read("HMGET", vectors, *(note.id for note in notes))
            for note, vector in zip(notes, found, strict=True):
                read = partial(_read_vector, note, vector, info_of(about).dimensions)
                findings.check("memory", note.key, read)


async def _verify_missing(
    reader: NoteReader,
    namespace: str,
    notes: Sequence[Note],
    filled: Sequence[Note],
    findings: Findings,
) -> None:
    """Notes whose texts were not there: put again meanwhile, or lost."""
    there = {note.key for note in filled}
    for note in notes:
        if note.key not in there:
            try:
                await reader.get(namespace, [note.key.encode()])
            except CorruptRecordError as error:
                findings.add("memory", note.key, str(error))


def _read_vector(note: Note, data: bytes | None, dimensions: int) -> None:
    rest = len(data) - 4 * dimensions if data else 0
    if rest < 0 or rest % DIGEST_BYTES:
        raise CorruptRecordError(store="memory", id=note.key)


async def _verify_results(results: Results, bucket: Bucket, findings: Findings) -> None:
    async for headers in _all_of(results.tenant, bucket.results()):
        for name, header in headers:
            findings.checked["tool_results"] += 1
            ref = name.decode()
            try:
                Header.read(ref, header)
                found = await results.whole(ref)
            except CorruptRecordError as error:
                findings.add("tool_results", ref, str(error))
                continue
            if found is not None:
                findings.check("tool_results", ref, partial(result_of, *found))


async def _all_of(tenant: Tenant, key: bytes) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """All fields of a hash with their values, some at a time."""
    cursor = b"0"
    while True:
        cursor, flat = await tenant.read("HSCAN", key, cursor, "COUNT", _AT_ONCE)
        yield list(zip(flat[::2], flat[1::2], strict=True))
        if cursor == b"0":
            return
