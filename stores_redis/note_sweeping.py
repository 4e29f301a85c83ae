"""Freeing what no note refers to: texts of puts that were cut off, vectors that were given up."""

from collections import Counter
from datetime import datetime
from itertools import compress

from stores_core.moving import STAGED_FOR
from stores_core.values import micros
from stores_redis.keys import Bucket
from stores_redis.note_batches import settle_all
from stores_redis.note_reading import NoteReader
from stores_redis.reembedding import free_retired
from stores_redis.scripts import UNPACKED, Script

_UNSTAGE = Script("notes_unstage")


async def sweep_notes(notes: NoteReader, now: datetime, budget: int) -> Counter[str]:
    """What was freed, by kind, at most ``budget`` texts."""
    freed: Counter[str] = Counter()
    await settle_all(notes.tenant, notes.generations)
    horizon = micros(now - STAGED_FOR)
    buckets = notes.tenant.buckets
    work = [("EXISTS", bucket.staged_notes(), bucket.memory()) for bucket in buckets]
    for bucket in compress(buckets, await notes.tenant.read_many(work)):
        while budget > 0:
            stale = await notes.tenant.read(
                "ZRANGEBYSCORE", bucket.staged_notes(), "-inf", f"({horizon}",
                "LIMIT", 0, min(budget, UNPACKED),
            )  # fmt: skip
            if not stale:
                break
            for entry in stale:
                freed["note_parts"] += await _free(notes, bucket, entry)
            budget -= len(stale)
        retired = await notes.tenant.read("HGET", bucket.memory(), "retired")
        if retired:
            names = retired.decode().split()
            freed["vectors"] += await free_retired(notes, bucket, names)
    return freed


async def _free(notes: NoteReader, bucket: Bucket, entry: bytes) -> int:
    """Free what was sent for one put; how many texts and vectors."""
    token, count, generation, namespace = entry.decode().split(" ", 3)
    keys = [bucket.staged_notes(), bucket.laid_notes(token), bucket.note_bodies(namespace)]
    if generation != "-":
        keys.append(bucket.vectors(namespace, generation))
    ids = [f"{token}-{index}" for index in range(1, int(count) + 1)]
    freed = 0
    for start in range(0, len(ids), UNPACKED):
        args = (entry, *ids[start : start + UNPACKED])
        freed += int((await notes.tenant.run(_UNSTAGE, keys, args, writes=True))[0])
    await notes.tenant.write_many([("ZREM", bucket.staged_notes(), entry)])
    return freed
