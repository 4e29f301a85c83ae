"""Reading every run of a tenant, and listing what is damaged."""

from functools import partial

from stores_core.codec import decode_event, decode_message
from stores_core.errors import CorruptRecordError
from stores_core.findings import Findings
from stores_redis.keys import Place
from stores_redis.logs import RunChangedError, read_entries
from stores_redis.places import Places
from stores_redis.run_rows import ALL, NONE, Found, Row, StoredView, find
from stores_redis.storage import Tenant

_IDS_AT_ONCE = 1_000


async def verify_runs(places: Places, findings: Findings) -> None:
    """Check headers, lengths and entries of all runs; adds to ``findings``. Changes nothing.

    Entries that runs share are read once for each of them.
    """
    tenant = places.tenant
    for bucket in tenant.buckets:
        start = 0
        while True:
            ids: list[bytes] = await tenant.read(
                "ZRANGE", bucket.runs(), start, start + _IDS_AT_ONCE - 1
            )
            listed = [Place.of(bucket, id.decode()) for id in ids]
            for place, counts in zip(listed, await places.claimed(listed), strict=True):
                if counts:
                    await _verify_run(tenant, place, findings)
            start += len(ids)
            if len(ids) < _IDS_AT_ONCE:
                break


async def _verify_run(tenant: Tenant, place: Place, findings: Findings) -> None:
    id = place.id
    findings.checked["runs"] += 1
    for wanted in ((ALL, NONE), (NONE, ALL)):
        try:
            found = await find(tenant, place, *wanted)
        except CorruptRecordError as error:
            findings.add("runs", id, str(error))
            return
        if found is None:  # deleted since, or listed without a header
            if await tenant.read("ZSCORE", place.bucket.runs(), place.member) is not None:
                findings.add("runs", id, "it is listed and has no header")
            return
        is_message = wanted[0] == ALL
        view = found.run.messages if is_message else found.run.events
        rows = found.message_rows if is_message else found.event_rows
        await _verify_log(tenant, place, found, view, rows, findings)


async def _verify_log(
    tenant: Tenant,
    place: Place,
    found: Found,
    view: StoredView,
    rows: list[Row],
    findings: Findings,
) -> None:
    run = found.run
    is_message = view is run.messages
    kind, decode = ("messages", decode_message) if is_message else ("events", decode_event)
    held = sum(length for _, length in view.all_ranges())
    if held != view.count:
        findings.add("runs", run.id, f"its ranges hold {held} of {view.count} {kind}")
        return
    position = 0
    for row in rows:
        _, first, stop = row
        try:
            [texts] = await read_entries(tenant, place, run, [row])
        except RunChangedError:
            return
        except CorruptRecordError:
            findings.add("runs", run.id, f"{kind} are missing from here on", position)
            return
        for offset, text in enumerate(texts):
            findings.checked[kind] += 1
            findings.check("runs", run.id, partial(decode, text), position + offset)
        position += stop - first
