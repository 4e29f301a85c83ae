"""Vector sets: an index of a large namespace's vectors, on servers that have them (Redis 8).

A set proposes and no more. It is begun by ``admin.reembed``; from then on whoever puts a note adds
its vector, in short steps of their own, since adding one takes the server some time.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple

import numpy as np

from stores_core.embedding import Vector
from stores_core.moving import EmbedderInfo
from stores_redis.generations import Generations, info_of
from stores_redis.keys import Bucket
from stores_redis.note_batches import run_settled
from stores_redis.note_reading import NoteReader
from stores_redis.scripts import Script
from stores_redis.storage import Tenant

LARGE_BYTES = 32 * 1024 * 1024
"""Vectors of a namespace that are worth a set: up to there a client ranks them as quickly."""

MOST_PROPOSED = 100
"""For more than that many notes a set is not asked."""

_UNKNOWN = 100
"""So many vectors that a set does not know yet a query looks at."""

_FLOATS_AT_ONCE = 4_096
"""Floats of the vectors that one step adds: at 256 dimensions some 6 ms of the server's time."""

_LISTED = 100

_NAMED = 5
"""So many namespaces without a set are named."""

_INDEX = Script("vectors_index")
_NEAR = Script("notes_near")


class Near(NamedTuple):
    """What was proposed at one instant: key, record without texts and vector as stored of each, b""
    where there is none."""

    embedder: EmbedderInfo | None
    seen: int
    notes: int
    vectors: int
    proposed: Sequence[tuple[bytes, bytes, bytes]]


class VectorIndexes:
    """The vector sets of a tenant."""

    def __init__(self, tenant: Tenant, generations: Generations) -> None:
        self._tenant = tenant
        self._generations = generations

    @property
    def are_there(self) -> bool:
        """Whether this server has vector sets."""
        return self._tenant.storage.has_vector_sets

    async def near(
        self, namespace: str, info: EmbedderInfo, query: Vector, limit: int, wanted: Iterable[bytes]
    ) -> Near | None:
        """Candidates for the ``limit`` nearest notes; None where no set is there and up to date."""
        bucket = self._tenant.home(namespace)
        generation = self._generations.of(bucket, info)
        keys = (
            bucket.memory(), bucket.note_state(namespace), bucket.note_changes(namespace),
            bucket.notes(namespace), *bucket.vector_keys(namespace, generation),
        )  # fmt: skip
        count = 2 * limit + 20
        tests = " and ".join(f'"{digest.hex()}" in .where' for digest in wanted)
        length = float(np.linalg.norm(query.astype(np.float64))) or 1.0
        data = (query.astype(np.float64) / length).astype("<f4").tobytes()
        args = (generation, data, count, max(200, 2 * count), tests, _UNKNOWN)
        for _ in range(2):
            reply = await run_settled(
                self._tenant, self._generations, namespace, _NEAR, keys, args, writes=False
            )
            if reply[0] == b"ok":
                break
            if reply[0] == b"none":
                return None
            await self.catch_up(namespace, info, 2 * _UNKNOWN)
        else:
            return None
        self._generations.learn(bucket, reply[1])
        return Near(
            embedder=info_of(reply[2]) if reply[2] else None,
            seen=int(reply[3]),
            notes=int(reply[4]),
            vectors=int(reply[5]),
            proposed=list(zip(reply[6::3], reply[7::3], reply[8::3], strict=True)),
        )

    async def catch_up(
        self,
        namespace: str,
        info: EmbedderInfo,
        most: int,
        *,
        begin: bool = False,
        dead: Sequence[bytes] = (),
    ) -> tuple[int, bool]:
        """Add up to about ``most`` vectors: how many, and whether there are more to add.

        ``begin`` makes the set where there is none; ``dead`` are keys to take out.
        """
        bucket = self._tenant.home(namespace)
        generation = self._generations.of(bucket, info)
        keys = (
            bucket.note_state(namespace), bucket.note_changes(namespace),
            bucket.notes_gone(namespace), bucket.notes(namespace),
            *bucket.vector_keys(namespace, generation),
        )  # fmt: skip
        step = max(1, min(16, _FLOATS_AT_ONCE // info.dimensions))
        added, more, how = 0, True, "begin" if begin else ""
        while more and added < most:
            args = (generation, 4 * info.dimensions, step, how, *dead)
            reply = await run_settled(
                self._tenant, self._generations, namespace, _INDEX, keys, args, writes=True
            )
            more, dead = reply[0] == b"more", ()
            how = "on" if begin else ""
            added += int(reply[1])
        return added, more

    async def large(self, bucket: Bucket, info: EmbedderInfo) -> AsyncGenerator[str]:
        """The namespaces of a bucket whose notes are so many that their vectors are worth a set,
        the largest first."""
        least, start = f"({LARGE_BYTES // (4 * info.dimensions)}", 0
        while True:
            page = await self._tenant.read(
                "ZREVRANGEBYSCORE", bucket.note_counts(), "+inf", least, "LIMIT", start, _LISTED
            )
            for name in page:
                yield name.decode()
            if len(page) < _LISTED:
                return
            start += _LISTED

    async def lacking(self, bucket: Bucket, info: EmbedderInfo, most: int) -> list[str]:
        """Up to ``most`` such namespaces that have none."""
        generation = self._generations.of(bucket, info)
        found: list[str] = []
        async with aclosing(self.large(bucket, info)) as all_large:
            async for namespace in all_large:
                index = bucket.vector_index(namespace, generation)
                if len(found) < most and not await self._tenant.read("EXISTS", index):
                    found.append(namespace)
        return found


async def unindexed(notes: NoteReader) -> str:
    """What to do where recall in large namespaces reads all vectors for want of a set; or ""."""
    indexes = VectorIndexes(notes.tenant, notes.generations)
    if not indexes.are_there:
        return ""
    found: list[str] = []
    for bucket in notes.tenant.buckets:
        active = await notes.active_in(bucket)
        if active and len(found) < _NAMED:
            found += await indexes.lacking(bucket, info_of(active), _NAMED - len(found))
    if not found:
        return ""
    return (
        f"large namespaces have no vector set, so that recall there reads all of their vectors: "
        f"{', '.join(map(repr, found))}{', ...' if len(found) == _NAMED else ''}; run reembed"
    )
