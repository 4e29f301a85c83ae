"""The memory store in Postgres."""

from collections.abc import Sequence

from stores_core.embedding import (
    NoteEmbedder,
    Vector,
    check_embedder,
    check_lacking,
)
from stores_core.errors import EmbeddingMismatchError
from stores_core.limits import PAGE_BYTES
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
from stores_core.values import micros
from stores_sql.postgres.embedding import active, enter_embedder, set_active
from stores_sql.postgres.namespaces import (
    clear,
    enter_namespace,
    hold_namespace,
    leave_if_empty,
    oldest_others,
    remove,
    remove_filters,
    standing,
)
from stores_sql.postgres.notes import (
    BEFORE_ALL,
    Note,
    Place,
    Spot,
    digests_wanted,
    find,
    is_long,
    listed,
    names_from,
)
from stores_sql.postgres.putting import NewNotes, Put, put
from stores_sql.postgres.recall import Recall
from stores_sql.postgres.reembedding import embed_into
from stores_sql.postgres.statements import Connection
from stores_sql.postgres.storage import Tenant
from stores_sql.postgres.trigrams import has_trigrams


class PostgresMemoryStore:
    """Keeps notes of a tenant. Used bare, without a Backend, it skips all checks.

    With an embedder a query is answered by embedding, else by substring. ``cap`` is the most
    notes of one namespace; 0 is no cap.
    """

    def __init__(self, tenant: Tenant, embedder: NoteEmbedder | None = None, cap: int = 0) -> None:
        self._tenant = tenant
        self._storage = tenant.storage
        self._embedder = embedder
        self._cap = cap
        self._recalls = None if embedder is None else Recall(tenant, embedder.info)
        self._seen_to_fit = False
        self._trigrams: bool | None = None

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        item, expected = request.item, request.expected_version
        new = NewNotes([item], micros(request.at))
        vectors = await self._vectors([item])
        found = await self._put(request.namespace, new, vectors, expected)
        if isinstance(found, int):
            return PutMemoryResponse(conflict=True, version=found)
        return PutMemoryResponse(created=found[0].created, version=found[0].version)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        if not request.items:
            return PutMemoriesResponse()
        new = NewNotes(request.items, micros(request.at))
        vectors = await self._vectors(request.items)
        found = await self._put(request.namespace, new, vectors, None)
        if isinstance(found, int):
            raise AssertionError("a conflict with no version expected")
        return PutMemoriesResponse(
            created=[one.created for one in found], versions=[one.version for one in found]
        )

    async def _vectors(self, items: Sequence[MemoryItem]) -> Sequence[Vector]:
        if self._embedder is None:
            return []
        await self._see_to_fit()
        return await self._embedder.notes(items)

    async def _see_to_fit(self) -> None:
        """Ask before the first embedding, so that none is made in vain; later each work asks."""
        if not self._seen_to_fit:
            await self._storage.read_once(self._check_embedder)
            self._seen_to_fit = True

    async def _check_embedder(self, connection: Connection) -> None:
        if self._embedder is not None:
            standing_one = await active(connection, self._tenant.name)
            try:
                check_embedder(standing_one, self._embedder.info)
            except EmbeddingMismatchError:
                self._seen_to_fit = False
                raise

    async def _put(
        self, namespace: str, new: NewNotes, vectors: Sequence[Vector], expected: int | None
    ) -> list[Put] | int:
        """What became of each note; or for a conflict the version found."""
        if self._embedder is not None:
            new.embed(self._embedder.info, vectors)
        name = self._tenant.name
        found = await self._storage.write_once(
            lambda connection: put(
                connection, name, namespace, new, expected=expected, cap=self._cap
            )
        )
        if found:
            return found
        return await self._tenant.write(
            lambda connection, tenant: self._put_in_steps(
                connection, tenant, namespace, new, expected
            )
        )

    async def _put_in_steps(
        self,
        connection: Connection,
        tenant: int,
        name: str,
        new: NewNotes,
        expected: int | None,
    ) -> list[Put] | int:
        """Put with the namespace held, where one statement did not do."""
        await self._check_embedder(connection)
        namespace = await enter_namespace(connection, tenant, name)
        old = await standing(connection, namespace, new.keys)
        version = max((note.version for note in old.values()), default=0)
        if expected not in (None, version):
            await leave_if_empty(connection, namespace, name)
            return version
        if self._embedder is not None:
            embedder = await enter_embedder(connection, tenant, self._embedder.info)
            await set_active(connection, tenant, embedder)
        await remove_filters(connection, namespace, old.values())
        found = await put(connection, self._tenant.name, name, new, settled=True)
        surplus = namespace.note_count + len(new.keys) - len(old) - self._cap
        if self._cap and surplus > 0:
            gone = await oldest_others(connection, namespace, new.keys, surplus)
            await remove(connection, namespace, name, gone)
        return found

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        spot = self._spot(request.namespace)
        note = await self._storage.read_once(lambda connection: find(connection, spot, request.key))
        return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query and self._embedder is not None and self._recalls is not None:
            return await self._recall(request, self._embedder, self._recalls)
        spot, wanted = self._spot(request.namespace), digests_wanted(request.where)
        if request.query:
            if self._trigrams is None:
                self._trigrams = await self._storage.read_once(has_trigrams)
            trigrams = self._trigrams
            read = self._storage.read if is_long(request.query) else self._storage.read_once
            found = await read(
                lambda connection: listed(
                    connection, spot, wanted=wanted, query=request.query, most=request.limit,
                    trigrams=trigrams,
                )
            )  # fmt: skip
            return ListMemoriesResponse(items=_scored(found, 1.0))
        after = place_of(request.cursor) if request.cursor else BEFORE_ALL
        most = request.limit + 1 if request.limit else 0
        found = await self._storage.read_once(
            lambda connection: listed(
                connection, spot, after, wanted, most=most, in_pages=bool(most)
            )
        )
        page = _page(found, request.limit) if most else found
        position = position_of(page[-1].place) if len(page) < len(found) else ""
        return ListMemoriesResponse(items=_scored(page, 0.0), next_cursor=position)

    async def _recall(
        self, request: ListMemoriesRequest, embedder: NoteEmbedder, recalls: Recall
    ) -> ListMemoriesResponse:
        await self._see_to_fit()
        query = await embedder.query(request.query)
        while True:
            try:
                answer = await recalls.answer(request, query)
            except EmbeddingMismatchError:
                self._seen_to_fit = False
                raise
            if not answer.lacking:
                return ListMemoriesResponse(items=tuple(answer.best))
            check_lacking(answer.lacking, embedder.info)
            await embed_into(self._tenant, embedder, answer.lacking)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        name = request.namespace

        async def work(connection: Connection, tenant: int) -> DeleteMemoryResponse:
            namespace = await hold_namespace(connection, tenant, name)
            if namespace is None:
                return DeleteMemoryResponse(deleted=False)
            note = (await standing(connection, namespace, [request.key])).get(request.key)
            if note is None:
                return DeleteMemoryResponse(deleted=False)
            if request.expected_version not in (None, note.version):
                return DeleteMemoryResponse(deleted=False, conflict=True)
            await remove(connection, namespace, name, [note])
            return DeleteMemoryResponse(deleted=True)

        return await self._tenant.write(work)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        async def work(connection: Connection, tenant: int) -> int:
            namespace = await hold_namespace(connection, tenant, request.namespace)
            if namespace is None:
                return 0
            return await clear(connection, namespace, request.namespace)

        return ClearNamespaceResponse(deleted=await self._tenant.write(work))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        after = last_name(request.cursor)
        names = await self._storage.read_once(
            lambda connection: names_from(
                connection, self._tenant.name, request.prefix, request.limit + 1, after
            )
        )
        fitting = [name for name in names if name.startswith(request.prefix)]
        page, position = names_page(fitting, request.limit)
        return ListNamespacesResponse(namespaces=page, next_cursor=position)

    def _spot(self, namespace: str) -> Spot:
        return Spot(self._tenant.name, namespace)


def _scored(found: Sequence[Note], score: float) -> tuple[ScoredMemory, ...]:
    return tuple(ScoredMemory(item=note.stored(), score=score) for note in found)


def _page(found: Sequence[Note], limit: int) -> Sequence[Note]:
    """What of these notes is on a page."""
    size = 0
    for index, note in enumerate(found):
        size += note.size
        if index == limit or (index and size > PAGE_BYTES):
            return found[:index]
    return found


def position_of(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def place_of(position: str) -> Place:
    created, _, number = position.partition(":")
    return int(created), int(number)
