"""The memory store in memory."""

from collections.abc import Sequence
from itertools import islice

from stores_core.embedding import (
    NoteEmbedder,
    Vector,
    check_embedder,
    check_lacking,
)
from stores_core.in_memory.reembedding import embed_into, without_vector
from stores_core.in_memory.storage import Tenant
from stores_core.limits import page_length
from stores_core.memory import (
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
from stores_core.moving import EmbedderInfo
from stores_core.notes import Namespace, Note, Place
from stores_core.pages import last_name, names_page
from stores_core.shape import WriteRequest
from stores_core.values import filter_digest


class InMemoryMemoryStore:
    """Keeps notes in a tenant. Used bare, without a Backend, it skips all checks.

    With an embedder a query is answered by embedding, else by substring. ``cap`` is the most
    notes of one namespace; 0 is no cap.
    """

    def __init__(self, tenant: Tenant, embedder: NoteEmbedder | None = None, cap: int = 0) -> None:
        self._tenant = tenant
        self._embedder = embedder
        self._cap = cap

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        namespace, key = request.namespace, request.item.key
        vectors = await self._vectors([request.item])
        with self._tenant.lock:
            self._check_embedder()
            found = self._version(namespace, key)
            if request.expected_version not in (None, found):
                return PutMemoryResponse(conflict=True, version=found)
            version = self._put(request, namespace, request.item, vectors[0])
            self._drop_beyond_cap(namespace, {key})
        return PutMemoryResponse(created=not found, version=version)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        namespace = request.namespace
        vectors = await self._vectors(request.items)
        with self._tenant.lock:
            self._check_embedder()
            created = [not self._version(namespace, item.key) for item in request.items]
            versions = [
                self._put(request, namespace, item, vector)
                for item, vector in zip(request.items, vectors, strict=True)
            ]
            self._drop_beyond_cap(namespace, {item.key for item in request.items})
        return PutMemoriesResponse(created=created, versions=versions)

    async def _vectors(self, items: Sequence[MemoryItem]) -> Sequence[Vector | None]:
        if self._embedder is None:
            return [None] * len(items)
        with self._tenant.lock:
            self._check_embedder()
        return await self._embedder.notes(items)

    def _check_embedder(self) -> None:
        if self._embedder is not None:
            check_embedder(self._tenant.vectors.active, self._embedder.info)

    def _version(self, namespace: str, key: str) -> int:
        notes = self._tenant.namespaces.get(namespace)
        note = notes.notes.get(key) if notes else None
        return note.item.version if note else 0

    def _put(
        self, request: WriteRequest, namespace: str, item: MemoryItem, vector: Vector | None
    ) -> int:
        tenant = self._tenant
        notes = tenant.namespaces.setdefault(namespace, Namespace())
        old = notes.notes.get(item.key)
        stored = StoredMemory(
            key=item.key,
            value=item.value,
            created_at=old.item.created_at if old else item.created_at or request.at,
            updated_at=request.at,
            version=(old.item.version if old else tenant.version_floor) + 1,
        )
        notes.put(stored, item.metadata)
        tenant.vectors.discard(namespace, item.key)
        if vector is not None and self._embedder is not None:
            info = tenant.vectors.active = self._embedder.info
            tenant.vectors.table(info, namespace).put(item.key, vector)
        return stored.version

    def _drop_beyond_cap(self, namespace: str, just_put: set[str]) -> None:
        notes = self._tenant.namespaces.get(namespace)
        if not self._cap or notes is None:
            return
        surplus = len(notes.notes) - self._cap
        if surplus > 0:
            others = (key for key in notes.oldest() if key not in just_put)
            for key in list(islice(others, surplus)):
                remove(self._tenant, namespace, key)

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        with self._tenant.lock:
            notes = self._tenant.namespaces.get(request.namespace)
            note = notes.notes.get(request.key) if notes else None
        return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query and self._embedder is not None:
            return await self._recall(request, self._embedder)
        query = request.query.casefold()
        after = _place_of(request.cursor) if request.cursor else None
        with self._tenant.lock:
            notes = self._matching(request, after)
            if query:
                notes = [note for note in notes if note.contains(query)]
        page, position = notes, ""
        if request.limit:
            page = notes[: request.limit]
            if not query:
                page = page[: page_length(note.size for note in page)]
                position = _position_of(page[-1].place) if len(page) < len(notes) else ""
        score = 1.0 if query else 0.0
        items = [ScoredMemory(item=note.stored(), score=score) for note in page]
        return ListMemoriesResponse(items=items, next_cursor=position)

    def _matching(self, request: ListMemoriesRequest, after: Place | None) -> list[Note]:
        notes = self._tenant.namespaces.get(request.namespace)
        if notes is None:
            return []
        wanted = {filter_digest(key, value) for key, value in request.where.items()}
        return [note for note in notes.after(after) if wanted <= note.digests]

    async def _recall(
        self, request: ListMemoriesRequest, embedder: NoteEmbedder
    ) -> ListMemoriesResponse:
        namespace, info = request.namespace, embedder.info
        with self._tenant.lock:
            self._check_embedder()
        query = await embedder.query(request.query)
        while True:
            with self._tenant.lock:
                self._check_embedder()
                missing = without_vector(self._tenant, info, namespace)
                if not missing:
                    best = self._ranked(request, info, query)
                    break
            check_lacking(missing, info)
            await embed_into(self._tenant, embedder, missing)
        items = [ScoredMemory(item=note.stored(), score=score) for note, score in best]
        return ListMemoriesResponse(items=items)

    def _ranked(
        self, request: ListMemoriesRequest, info: EmbedderInfo, query: Vector
    ) -> list[tuple[Note, float]]:
        held = self._tenant.namespaces.get(request.namespace)
        if held is None:
            return []
        among = None
        if request.where:
            among = [note.item.key for note in self._matching(request, None)]
        table = self._tenant.vectors.table(info, request.namespace)
        scored = table.ranked(query, request.limit, among)
        ranked = [(held.notes[key], score) for key, score in scored]
        ranked.sort(key=lambda pair: (-pair[1], pair[0].place))
        return ranked[: request.limit] if request.limit else ranked

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        with self._tenant.lock:
            held = self._tenant.namespaces.get(request.namespace)
            note = held.notes.get(request.key) if held else None
            if note and request.expected_version not in (None, note.item.version):
                return DeleteMemoryResponse(deleted=False, conflict=True)
            deleted = remove(self._tenant, request.namespace, request.key)
        return DeleteMemoryResponse(deleted=deleted)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        with self._tenant.lock:
            notes = self._tenant.namespaces.get(request.namespace)
            keys = list(notes.notes) if notes else []
            for key in keys:
                remove(self._tenant, request.namespace, key)
        return ClearNamespaceResponse(deleted=len(keys))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        with self._tenant.lock:
            last = last_name(request.cursor)
            names = sorted(
                name
                for name in self._tenant.namespaces
                if name.startswith(request.prefix) and (last is None or name > last)
            )
        page, position = names_page(names, request.limit)
        return ListNamespacesResponse(namespaces=page, next_cursor=position)


def remove(tenant: Tenant, namespace: str, key: str) -> bool:
    """Take a note away; whether it was there. The tenant's lock is held."""
    notes = tenant.namespaces.get(namespace)
    note = notes.remove(key) if notes else None
    if notes is None or note is None:
        return False
    if not notes.notes:
        del tenant.namespaces[namespace]
    tenant.vectors.discard(namespace, key)
    tenant.version_floor = max(tenant.version_floor, note.item.version)
    return True


def _position_of(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def _place_of(position: str) -> Place:
    created, _, arrival = position.partition(":")
    return int(created), int(arrival)
