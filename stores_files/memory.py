"""The memory store in files."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from stores_core.embedding import (
    EMBED_ON_QUERY,
    NoteEmbedder,
    Vector,
    check_embedder,
    check_lacking,
)
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
from stores_core.notes import Note
from stores_core.notes import Place as Standing
from stores_core.pages import last_name, names_page
from stores_core.values import filter_digest
from stores_files import namespaces
from stores_files.embedding import Line
from stores_files.note_folders import NoteFolder, gone_line, put_line
from stores_files.notes_state import change_state, read_state
from stores_files.places import Place
from stores_files.reembedding import embed_into
from stores_files.storage import Tenant

T = TypeVar("T")

Put = PutMemoryRequest | PutMemoriesRequest


class FileMemoryStore:
    """Keeps notes of a tenant. Used bare, without a Backend, it skips all checks.

    With an embedder a query is answered by embedding, else by substring. ``cap`` is the most
    notes of one namespace; 0 is no cap.
    """

    def __init__(self, tenant: Tenant, embedder: NoteEmbedder | None = None, cap: int = 0) -> None:
        self._tenant = tenant
        self._embedder = embedder
        self._cap = cap
        self._is_known_right = False

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        vectors = await self._vectors([request.item])

        def work(place: Place) -> PutMemoryResponse:
            answer = PutMemoryResponse(version=0)

            def lines_for(notes: NoteFolder) -> Sequence[Line]:
                nonlocal answer
                standing = notes.notes.notes.get(request.item.key)
                found = standing.item.version if standing else 0
                if request.expected_version not in (None, found):
                    answer = PutMemoryResponse(conflict=True, version=found)
                    return ()
                lines, (version,) = self._lines(notes, request, [request.item], vectors)
                answer = PutMemoryResponse(created=not found, version=version)
                return lines

            namespaces.write(place, self._tenant, request.namespace, request.at, lines_for)
            return answer

        return await self._put(work)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        vectors = await self._vectors(request.items)

        def work(place: Place) -> PutMemoriesResponse:
            answer = PutMemoriesResponse()

            def lines_for(notes: NoteFolder) -> Sequence[Line]:
                nonlocal answer
                created = [item.key not in notes.notes.notes for item in request.items]
                lines, versions = self._lines(notes, request, request.items, vectors)
                answer = PutMemoriesResponse(created=created, versions=versions)
                return lines

            namespaces.write(place, self._tenant, request.namespace, request.at, lines_for)
            return answer

        return await self._put(work)

    async def _vectors(self, items: Sequence[MemoryItem]) -> Sequence[Vector]:
        if self._embedder is None:
            return ()
        await self._check_before()
        return await self._embedder.notes(items)

    async def _check_before(self) -> None:
        """Spare the embedder what would be refused; it was asked in vain at most once."""
        if not self._is_known_right:
            await self._tenant.read(self._check_embedder, None)

    def _check_embedder(self, place: Place) -> None:
        if self._embedder is not None:
            self._is_known_right = False
            found = read_state(place).embedder
            check_embedder(found, self._embedder.info)
            self._is_known_right = found is not None

    async def _put(self, work: Callable[[Place], T]) -> T:
        """Write notes; the first vectors of a tenant also say whose they are, in one step."""

        def checked(place: Place) -> T | None:
            self._check_embedder(place)
            is_first = self._embedder is not None and read_state(place).embedder is None
            return None if is_first else work(place)

        def first(place: Place) -> T:
            self._check_embedder(place)
            answer = work(place)
            if self._embedder is not None:
                info = self._embedder.info
                change_state(place, self._tenant, lambda state: state.admitting(info))
            return answer

        answer = await self._tenant.write(checked)
        return await self._tenant.write(first, alone=True) if answer is None else answer

    def _lines(
        self,
        notes: NoteFolder,
        request: Put,
        items: Sequence[MemoryItem],
        vectors: Sequence[Vector],
    ) -> tuple[list[Line], list[int]]:
        """The lines that put some items, with their vectors on the disk; the notes' versions."""
        held, arrival = notes.notes, notes.notes.arrivals
        lines, versions = list[Line](), list[int]()
        for item in items:
            old = held.notes.get(item.key)
            stored = StoredMemory(
                key=item.key,
                value=item.value,
                created_at=old.item.created_at if old else item.created_at or request.at,
                updated_at=request.at,
                version=(old.item.version if old else notes.floor) + 1,
            )
            lines.append(put_line(stored, item.metadata, old.place[1] if old else arrival))
            versions.append(stored.version)
            arrival += old is None
        keys = {item.key: None for item in items}
        surplus = len(held.notes.keys() | keys.keys()) - self._cap if self._cap else 0
        others = (held.notes[key] for key in held.oldest() if key not in keys)
        lines += map(gone_line, islice(others, max(0, surplus)))
        if self._embedder is not None:
            named = list(zip(keys, versions, strict=True))
            lines += notes.vectors.write(self._embedder.info, named, vectors)
        return lines, versions

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        def work(place: Place) -> GetMemoryResponse:
            with self._tenant.namespaces.entered(place, request.namespace) as notes:
                note = notes.notes.notes.get(request.key) if notes else None
            return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

        return await self._tenant.read(work, GetMemoryResponse(found=False))

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query and self._embedder is not None:
            return await self._recall(request, self._embedder)
        query = request.query.casefold()
        after = _standing_of(request.cursor) if request.cursor else None

        def work(place: Place) -> ListMemoriesResponse:
            with self._tenant.namespaces.entered(place, request.namespace) as held:
                notes = _matching(held, request, after) if held else []
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

        return await self._tenant.read(work, ListMemoriesResponse())

    async def _recall(
        self, request: ListMemoriesRequest, embedder: NoteEmbedder
    ) -> ListMemoriesResponse:
        info = embedder.info
        await self._check_before()
        query = await embedder.query(request.query)

        def work(place: Place) -> ListMemoriesResponse | list[StoredMemory]:
            self._check_embedder(place)
            with self._tenant.namespaces.entered(place, request.namespace) as notes:
                if notes is None:
                    return ListMemoriesResponse()
                lacking = notes.lacking(info, EMBED_ON_QUERY + 1)
                check_lacking(lacking, info)
                if lacking:
                    return lacking
                among = None
                if request.where:
                    among = [note.item.key for note in _matching(notes, request, None)]
                scored = notes.vectors.table(info).ranked(query, request.limit, among)
                ranked = [(notes.notes.notes[key], score) for key, score in scored]
            ranked.sort(key=lambda pair: (-pair[1], pair[0].place))
            best = ranked[: request.limit] if request.limit else ranked
            items = [ScoredMemory(item=note.stored(), score=score) for note, score in best]
            return ListMemoriesResponse(items=items)

        while True:
            found = await self._tenant.read(work, ListMemoriesResponse())
            if isinstance(found, ListMemoriesResponse):
                return found
            lacking = [(request.namespace, item) for item in found]
            await embed_into(self._tenant, embedder, lacking)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        def work(place: Place) -> DeleteMemoryResponse:
            with self._tenant.namespaces.entered(place, request.namespace, alone=True) as notes:
                note = notes.notes.notes.get(request.key) if notes else None
                if notes is None or note is None:
                    namespaces.settle(place, notes)
                    return DeleteMemoryResponse(deleted=False)
                if request.expected_version not in (None, note.item.version):
                    namespaces.settle(place, notes)
                    return DeleteMemoryResponse(deleted=False, conflict=True)
                if len(notes.notes.notes) == 1:
                    namespaces.empty(place, self._tenant, notes)
                else:
                    notes.make_ready()
                    notes.write([gone_line(note)], request.at)
                return DeleteMemoryResponse(deleted=True)

        absent = DeleteMemoryResponse(deleted=False)
        return await self._tenant.read(work, otherwise=absent)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        def work(place: Place) -> int:
            with self._tenant.namespaces.entered(place, request.namespace, alone=True) as notes:
                if notes is None:
                    namespaces.settle(place, notes)
                    return 0
                return namespaces.empty(place, self._tenant, notes)

        return ClearNamespaceResponse(deleted=await self._tenant.read(work, 0))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        last = last_name(request.cursor)
        found = await self._tenant.read(namespaces.names, list[str]())
        wanted = [
            name
            for name in found
            if name.startswith(request.prefix) and (last is None or name > last)
        ]
        page, position = names_page(wanted, request.limit)
        return ListNamespacesResponse(namespaces=page, next_cursor=position)


def _matching(
    notes: NoteFolder, request: ListMemoriesRequest, after: Standing | None
) -> list[Note]:
    wanted = {filter_digest(key, value) for key, value in request.where.items()}
    return [note for note in notes.notes.after(after) if wanted <= note.digests]


def _position_of(place: Standing) -> str:
    return f"{place[0]}:{place[1]}"


def _standing_of(position: str) -> Standing:
    created, _, arrival = position.partition(":")
    return int(created), int(arrival)
