"""The memory store in Redis."""

from collections.abc import Sequence

from stores_core.embedding import NoteEmbedder, Vector
from stores_core.limits import PAGE_BYTES, page_length
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
)
from stores_core.pages import last_name, names_page
from stores_core.shape import WriteRequest
from stores_core.values import filter_digest, micros
from stores_redis.following import Follower, Listed
from stores_redis.generations import Generations
from stores_redis.namespaces import list_namespaces
from stores_redis.note_reading import NoteReader
from stores_redis.notes import Note
from stores_redis.outgoing import NewNote
from stores_redis.putting import NoteWriter, Put
from stores_redis.recall import Recall
from stores_redis.storage import Tenant


class RedisMemoryStore:
    """Keeps notes of a tenant. Used bare, without a Backend, it skips all checks.

    With an embedder a query is answered by embedding, else by substring. ``cap`` is the most
    notes of one namespace; 0 is no cap.
    """

    def __init__(
        self,
        tenant: Tenant,
        embedder: NoteEmbedder | None = None,
        cap: int = 0,
        generations: Generations | None = None,
    ) -> None:
        known = generations or Generations()
        self._reader = NoteReader(tenant, known)
        self._writer = NoteWriter(tenant, known)
        self._follower = Follower(self._reader)
        self._tenant = tenant
        self._embedder = embedder
        self._recall = None if embedder is None else Recall(self._reader, embedder)
        self._cap = cap

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        expected = request.expected_version
        [put] = await self._put(request, request.namespace, [request.item], expected)
        return PutMemoryResponse(created=put.created, conflict=not put.written, version=put.version)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        if not request.items:
            return PutMemoriesResponse()
        put = await self._put(request, request.namespace, request.items)
        return PutMemoriesResponse(
            created=tuple(one.created for one in put), versions=tuple(one.version for one in put)
        )

    async def _put(
        self,
        request: WriteRequest,
        namespace: str,
        items: Sequence[MemoryItem],
        expected: int | None = None,
    ) -> Sequence[Put]:
        at = micros(request.at)
        vectors = await self._vectors(namespace, items)
        new = [
            NewNote(
                item.key,
                item.value,
                item.metadata,
                at if item.created_at is None else micros(item.created_at),
                at,
                vector=vector,
            )
            for item, vector in zip(items, vectors, strict=True)
        ]
        embedder = self._embedder.info if self._embedder else None
        put = await self._writer.put(
            namespace, new, embedder=embedder, expected=expected, cap=self._cap
        )
        if self._recall is not None and put[0].indexed:
            await self._recall.index(namespace, len(new))
        return put

    async def _vectors(
        self, namespace: str, items: Sequence[MemoryItem]
    ) -> Sequence[Vector | None]:
        if self._embedder is None or self._recall is None:
            return [None] * len(items)
        await self._recall.see_to_fit(namespace)
        return await self._embedder.notes(items)

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        [note] = await self._reader.get(request.namespace, [request.key.encode()])
        return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query and self._recall is not None:
            return await self._recall.answer(request)
        if request.limit and not request.query and not request.where:
            return await self._page(request)
        return await self._selected(request)

    async def _page(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        notes, more = await self._reader.page(
            request.namespace, request.cursor.encode(), request.limit, PAGE_BYTES
        )
        position = notes[-1].place.decode() if more else ""
        return ListMemoriesResponse(items=_scored(notes, 0.0), next_cursor=position)

    async def _selected(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        """What all notes have to be looked at for: a query, a filter, or all of them."""
        wanted = {bytes.fromhex(filter_digest(key, value)) for key, value in request.where.items()}
        query, after = request.query.casefold(), request.cursor.encode()

        def keep(listed: Listed) -> bool:
            if listed.note.place <= after or (wanted and not wanted <= listed.digests):
                return False
            return not query or listed.contains(query)

        notes = await self._follower.select(request.namespace, keep)
        if query:
            page = notes[: request.limit] if request.limit else notes
            return ListMemoriesResponse(items=_scored(page, 1.0))
        page, position = notes, ""
        if request.limit:
            page = notes[: request.limit]
            page = page[: page_length(note.whole_size for note in page)]
            position = page[-1].place.decode() if len(page) < len(notes) else ""
        return ListMemoriesResponse(items=_scored(page, 0.0), next_cursor=position)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        removed = await self._writer.remove(
            request.namespace, request.key, request.expected_version
        )
        return DeleteMemoryResponse(deleted=bool(removed), conflict=removed is None)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        return ClearNamespaceResponse(deleted=await self._writer.clear(request.namespace))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        names = await list_namespaces(
            self._tenant, request.prefix, last_name(request.cursor), request.limit + 1
        )
        page, position = names_page(names, request.limit)
        return ListNamespacesResponse(namespaces=page, next_cursor=position)


def _scored(notes: Sequence[Note], score: float) -> tuple[ScoredMemory, ...]:
    return tuple(ScoredMemory(item=note.stored(), score=score) for note in notes)
