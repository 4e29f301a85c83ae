"""Reading notes by their keys, and a page of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from stores_core.errors import CorruptRecordError
from stores_core.limits import MIB
from stores_redis.generations import Generations
from stores_redis.keys import Bucket
from stores_redis.note_batches import run_settled
from stores_redis.notes import Note
from stores_redis.scripts import UNPACKED, Arg, Script
from stores_redis.storage import Tenant

PIECE_BYTES = 2 * MIB
"""So much a script that reads notes gives at once."""

_PAGE = Script("notes_page")
_GET = Script("notes_get")


class NoteReader:
    """Reads the notes of a tenant."""

    def __init__(self, tenant: Tenant, generations: Generations) -> None:
        self.tenant = tenant
        self.generations = generations

    async def get(self, namespace: str, keys: Sequence[bytes]) -> list[Note | None]:
        """Notes by their keys, each as it is when it is read; None where there is none."""
        bucket = self.tenant.home(namespace)
        found: list[Note | None] = []
        for start in range(0, len(keys), UNPACKED):
            part = keys[start : start + UNPACKED]
            places = bucket.notes(namespace), bucket.note_bodies(namespace)
            reply = await self._run(_GET, namespace, places, (PIECE_BYTES, *part))
            records = zip(part, reply[::2], reply[1::2], strict=True)
            found += [
                Note.read(key, record, texts) if record else None for key, record, texts in records
            ]
        apart = [note for note in found if note is not None and note.texts is None]
        if not apart:
            return found
        filled = {note.key: note for note in await self.fill(namespace, apart)}
        lost = [note.key for note in apart if note.key not in filled]
        again: dict[str, Note | None] = {}
        for key in lost:  # put again, or removed, since its record was read
            again[key] = await self._get_apart(namespace, key)
        return [
            note
            if note is None or note.texts is not None
            else filled.get(note.key, again.get(note.key))
            for note in found
        ]

    async def _run(
        self, script: Script, namespace: str, keys: Sequence[bytes], args: Sequence[Arg]
    ) -> list[Any]:
        return await run_settled(
            self.tenant, self.generations, namespace, script, keys, args, writes=False
        )

    async def _get_apart(self, namespace: str, key: str) -> Note | None:
        bucket, last = self.tenant.home(namespace), b""
        places = bucket.notes(namespace), bucket.note_bodies(namespace)
        while True:
            record, texts = await self._run(_GET, namespace, places, (0, key))
            if not record:
                return None
            note = Note.read(key.encode(), record, texts)
            if note.texts is not None:
                return note
            if note.id == last:
                raise CorruptRecordError(store="memory", id=key)
            last = note.id
            for filled in await self.fill(namespace, [note]):
                return filled

    async def fill(self, namespace: str, notes: Iterable[Note]) -> list[Note]:
        """Notes with texts that were apart; those that were changed meanwhile are left out."""
        bodies = self.tenant.home(namespace).note_bodies(namespace)
        filled: list[Note] = []
        for group in _in_groups(notes):
            apart = [note.id for note in group if note.texts is None]
            texts: Any = await self.tenant.read("HMGET", bodies, *apart) if apart else ()
            held: dict[bytes, bytes | None] = dict(zip(apart, texts, strict=True))
            for note in group:
                text = note.texts if note.texts is not None else held[note.id]
                if text is not None:
                    filled.append(note._replace(texts=text))
        return filled

    async def page(
        self, namespace: str, after: bytes, limit: int, budget: int
    ) -> tuple[list[Note], bool]:
        """Up to ``limit`` notes behind a place, oldest first, and whether there are more."""
        notes, more = await self.page_with_vectors(namespace, after, limit, budget, "")
        return [note for note, _ in notes], more

    async def page_with_vectors(
        self, namespace: str, after: bytes, limit: int, budget: int, generation: str
    ) -> tuple[list[tuple[Note, bytes]], bool]:
        """The same, each note with its vector of a generation as it is stored, b"" without one."""
        bucket = self.tenant.home(namespace)
        keys = [bucket.note_order(namespace), bucket.notes(namespace)]
        if generation:
            keys.append(bucket.vectors(namespace, generation))
        missed: set[bytes] = set()
        while True:
            reply = await self._run(_PAGE, namespace, keys, (after, limit, budget))
            read = zip(reply[1::3], reply[2::3], strict=True)
            notes = [Note.read(key, record) for key, record in read]
            filled = await self.fill(namespace, notes)
            lost = {note.id for note in notes} - {note.id for note in filled}
            if not lost:
                pairs = list(zip(filled, reply[3::3], strict=True))
                return pairs, reply[0] == b"more"
            if lost <= missed:
                names = [note.key for note in notes if note.id in lost]
                raise CorruptRecordError(store="memory", id=names[0])
            missed |= lost

    async def active_in(self, bucket: Bucket) -> bytes:
        """The embedder whose vectors a bucket uses, as it is stored; b"" where there is none.

        Learns the bucket's generations.
        """
        names = await self.tenant.read("HGET", bucket.memory(), "generations") or b""
        self.generations.learn(bucket, names)
        if not names:
            return b""
        active = names.partition(b" ")[0]
        return await self.tenant.read("HGET", bucket.memory(), b"embedder:" + active) or b""


def _in_groups(notes: Iterable[Note]) -> Iterable[list[Note]]:
    """Notes in groups whose texts apart are some MiB together."""
    group: list[Note] = []
    size = 0
    for note in notes:
        group.append(note)
        size += 0 if note.texts is not None else note.size
        if size > PIECE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
