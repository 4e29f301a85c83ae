"""The memory store: notes in namespaces, recalled by substring."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from stores_core import (
    ClearNamespaceRequest,
    ClearNamespaceResponse,
    DeleteMemoryRequest,
    DeleteMemoryResponse,
    GetMemoryRequest,
    GetMemoryResponse,
    ListMemoriesRequest,
    ListMemoriesResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    MemoryItem,
    PutMemoriesRequest,
    PutMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
    ScoredMemory,
    StoredMemory,
)
from stores_core.codec import decode_json, encode_json
from stores_core.limits import page_length
from stores_core.pages import last_name, names_page
from stores_core.values import filter_digest, filter_digests, from_micros, micros

from lmdb_stores.storage import Storage, Transaction, name_key

_MIDDLE = 2**63
"""Times before 1970 are negative; keys sort by bytes, so all are shifted up."""


@dataclass
class Note:
    """A note as it is stored: ``metadata`` is the JSON text, ``place`` where it stands in lists."""

    key: str
    value: str
    metadata: str
    created: int
    updated: int
    version: int
    arrival: int

    @property
    def place(self) -> bytes:
        return (self.created + _MIDDLE).to_bytes(8) + self.arrival.to_bytes(8)

    @property
    def size(self) -> int:
        return len(f"{self.key}{self.value}{self.metadata}".encode())

    def stored(self) -> StoredMemory:
        return StoredMemory(
            key=self.key,
            value=self.value,
            metadata=decode_json(self.metadata),
            created_at=from_micros(self.created),
            updated_at=from_micros(self.updated),
            version=self.version,
        )


class LmdbMemoryStore:
    """A MemoryStore. Requests come from the front: valid, complete, with limits filled in."""

    def __init__(self, storage: Storage, tenant: bytes) -> None:
        self._storage, self._tenant = storage, tenant

    def _find(self, t: Transaction, namespace: str, key: str) -> Note | None:
        return self._at(t, self._tenant + name_key(namespace, key), key)

    def _at(self, t: Transaction, place: bytes, key: str = "") -> Note | None:
        held = t.record("notes", place, "memory", key)
        return held and Note(**held)

    def _notes(self, t: Transaction, namespace: str, after: bytes = b"") -> Iterator[Note]:
        """The notes of a namespace behind a place, oldest first."""
        home = self._tenant + name_key(namespace)
        for place, key in t.walk("note_order", home, after):
            note = self._at(t, home + key) if place != after else None
            if note is not None:
                yield note

    def _put(self, t: Transaction, request: Any, item: MemoryItem) -> tuple[bool, int]:
        """Whether the note is new, and its version."""
        namespace: str = request.namespace
        home = self._tenant + name_key(namespace)
        old, now = self._find(t, namespace, item.key), micros(request.at)
        if old is None:
            _, count, arrivals = t.record("namespaces", home, "memory", namespace) or ("", 0, 0)
            created = micros(item.created_at or request.at)
            floor = int.from_bytes(t.get("floors", self._tenant) or b"")
            old = Note(item.key, "", "", created, now, floor, arrivals)
            t.put_record("namespaces", home, [namespace, count + 1, arrivals + 1])
            t.put("note_order", home + old.place, name_key(item.key))
            is_new = True
        else:
            is_new = False
        old.value, old.metadata = item.value, encode_json(item.metadata).decode()
        old.updated, old.version = now, old.version + 1
        t.put_record("notes", home + name_key(item.key), asdict(old))
        return is_new, old.version

    def _remove(self, t: Transaction, namespace: str, key: str) -> bool:
        note = self._find(t, namespace, key)
        if note is None:
            return False
        home = self._tenant + name_key(namespace)
        t.delete("notes", home + name_key(key))
        t.delete("note_order", home + note.place)
        _, count, arrivals = t.record("namespaces", home, "memory", namespace)
        if count > 1:
            t.put_record("namespaces", home, [namespace, count - 1, arrivals])
        else:
            t.delete("namespaces", home)
        # A later note of this key must have a version above this one's (MEM-6).
        floor = int.from_bytes(t.get("floors", self._tenant) or b"")
        t.put("floors", self._tenant, max(floor, note.version).to_bytes(8))
        return True

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        def put(t: Transaction) -> PutMemoryResponse:
            found = self._find(t, request.namespace, request.item.key)
            version = found.version if found else 0
            if request.expected_version not in (None, version):
                return PutMemoryResponse(conflict=True, version=version)
            created, version = self._put(t, request, request.item)
            return PutMemoryResponse(created=created, version=version)

        return await self._storage.write(put)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        def put(t: Transaction) -> list[tuple[bool, int]]:
            return [self._put(t, request, item) for item in request.items]

        done = await self._storage.write(put)
        return PutMemoriesResponse(
            created=[created for created, _ in done], versions=[version for _, version in done]
        )

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        note = await self._storage.read(lambda t: self._find(t, request.namespace, request.key))
        return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        query = request.query.casefold()
        wanted = {filter_digest(key, value) for key, value in request.where.items()}

        def fits(note: Note) -> bool:
            return wanted <= filter_digests(decode_json(note.metadata)) and (
                not query or query in note.key.casefold() or query in note.value.casefold()
            )

        def matching(t: Transaction) -> list[Note]:
            most, found = request.limit + 1 if request.limit else 0, list[Note]()
            for note in self._notes(t, request.namespace, bytes.fromhex(request.cursor)):
                if fits(note):
                    found.append(note)
                if most and len(found) == most:
                    break
            return found

        notes = await self._storage.read(matching)
        page, following = notes, ""
        if request.limit:
            page = notes[: request.limit]
            if not query:
                page = page[: page_length(note.size for note in page)]
                following = page[-1].place.hex() if len(page) < len(notes) else ""
        score = 1.0 if query else 0.0
        items = [ScoredMemory(item=note.stored(), score=score) for note in page]
        return ListMemoriesResponse(items=items, next_cursor=following)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        def delete(t: Transaction) -> DeleteMemoryResponse:
            found = self._find(t, request.namespace, request.key)
            if found and request.expected_version not in (None, found.version):
                return DeleteMemoryResponse(deleted=False, conflict=True)
            return DeleteMemoryResponse(deleted=self._remove(t, request.namespace, request.key))

        return await self._storage.write(delete)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        def clear(t: Transaction) -> int:
            keys = [note.key for note in self._notes(t, request.namespace)]
            return sum(self._remove(t, request.namespace, key) for key in keys)

        return ClearNamespaceResponse(deleted=await self._storage.write(clear))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        last = last_name(request.cursor)

        def named(t: Transaction) -> list[str]:
            found = (decode_json(held)[0] for _, held in t.walk("namespaces", self._tenant))
            return sorted(
                name
                for name in found
                if name.startswith(request.prefix) and (last is None or name > last)
            )

        names, following = names_page(await self._storage.read(named), request.limit)
        return ListNamespacesResponse(namespaces=names, next_cursor=following)
