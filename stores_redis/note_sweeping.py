"""Freeing what no note refers to: texts of puts that were cut off, vectors that were given up."""

from collections import Counter
from datetime import datetime

from stores_core.moving import STAGED_FOR
from stores_core.values import micros
from stores_redis.note_reading import NoteReader
from stores_redis.reembedding import free_retired
from stores_redis.scripts import UNPACKED, Script

_UNSTAGE = Script("notes_unstage")


async def sweep_notes(notes: NoteReader, now: datetime, budget: int) -> Counter[str]:
    """What was freed, by kind, at most ``budget`` texts."""
    freed: Counter[str] = Counter()
    horizon = micros(now - STAGED_FOR)
    for bucket in notes.tenant.buckets:
        while budget > 0:
            stale = await notes.tenant.read(
                "ZRANGEBYSCORE", bucket.staged_notes(), "-inf", f"({horizon}",
                "LIMIT", 0, min(budget, UNPACKED),
            )  # fmt: skip
            if not stale:
                break
            for entry in stale:
                field, _, namespace = entry.decode().partition(" ")
                keys = bucket.staged_notes(), bucket.note_bodies(namespace)
                reply = await notes.tenant.run(_UNSTAGE, keys, (entry, field), writes=True)
                freed["note_texts"] += int(reply[0])
            budget -= len(stale)
        retired = await notes.tenant.read("HGET", bucket.memory(), "retired")
        if retired:
            names = retired.decode().split()
            freed["vectors"] += await free_retired(notes, bucket, names)
    return freed
