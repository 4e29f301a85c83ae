"""Reading every record of a tenant, and listing what is damaged."""

from functools import partial

from stores_core.admin import Problem
from stores_core.errors import CorruptRecordError
from stores_core.findings import Findings
from stores_core.limits import PAGE_BYTES
from stores_redis.embedding import DIGEST_BYTES
from stores_redis.generations import Generations, info_of
from stores_redis.keys import Bucket
from stores_redis.namespaces import namespaces_of
from stores_redis.note_reading import NoteReader
from stores_redis.notes import Note
from stores_redis.results import Header, Results, result_of
from stores_redis.run_verifying import verify_runs
from stores_redis.storage import Tenant

_PAGE = 100


async def verify(tenant: Tenant) -> tuple[dict[str, int], list[Problem]]:
    """Counts of what was checked and the problems found. Changes nothing."""
    findings = Findings()
    await verify_runs(tenant, findings)
    notes = NoteReader(tenant, Generations())
    for bucket in tenant.buckets:
        async for namespace in namespaces_of(tenant, bucket):
            await _verify_namespace(notes, bucket, namespace, findings)
        await _verify_results(Results(tenant), bucket, findings)
    return dict(findings.checked), findings.problems


async def _verify_namespace(
    notes: NoteReader, bucket: Bucket, namespace: str, findings: Findings
) -> None:
    about = await notes.active_in(bucket)
    generation = notes.generations.known(bucket).partition(" ")[0]
    dimensions = info_of(about).dimensions if about else 0
    counted = [
        ("HLEN", bucket.notes(namespace)),
        ("ZCARD", bucket.note_order(namespace)),
        ("ZCARD", bucket.note_changes(namespace)),
    ]
    counts = await notes.tenant.read_many(counted)
    if len(set(counts)) > 1 and await notes.tenant.read_many(counted) == counts:
        what = f"it has {counts[0]} notes, {counts[1]} in order and {counts[2]} by change"
        findings.add("memory", namespace, what)
        return
    place, more = b"", True
    while more:
        try:
            page, more = await notes.page_with_vectors(
                namespace, place, _PAGE, PAGE_BYTES, generation
            )
        except CorruptRecordError as error:
            findings.add("memory", error.id, str(error))
            return
        for note, vector in page:
            place = note.place
            findings.checked["notes"] += 1
            findings.check("memory", note.key, note.stored)
            if vector:
                read = partial(_read_vector, note, vector, dimensions)
                findings.check("memory", note.key, read)


def _read_vector(note: Note, data: bytes, dimensions: int) -> None:
    if len(data) < 4 * dimensions or (len(data) - 4 * dimensions) % DIGEST_BYTES:
        raise CorruptRecordError(store="memory", id=note.key)


async def _verify_results(results: Results, bucket: Bucket, findings: Findings) -> None:
    position, more = "", True
    while more:
        try:
            page, position = await results.page(bucket, position, _PAGE, _PAGE)
        except CorruptRecordError as error:
            findings.add("tool_results", error.id, str(error))
            return
        more = bool(position)
        for header in page:
            findings.checked["tool_results"] += 1
            await _verify_result(results, header, findings)


async def _verify_result(results: Results, header: Header, findings: Findings) -> None:
    try:
        found = await results.whole(header.ref)
    except CorruptRecordError as error:
        findings.add("tool_results", header.ref, str(error))
        return
    if found is not None:
        findings.check("tool_results", header.ref, partial(result_of, *found))
