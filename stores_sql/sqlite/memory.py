"""The memory store in SQLite."""

from collections.abc import Sequence
from itertools import islice

from sqlalchemy import select

from stores_core.embedding import (
    EMBED_ON_QUERY,
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
    StoredMemory,
)
from stores_core.moving import EmbedderInfo
from stores_core.pages import names_page
from stores_core.shape import WriteRequest
from stores_core.values import filter_digest, micros
from stores_sql.parameters import given
from stores_sql.sqlite.embedding import (
    Matrices,
    active,
    enter_embedder,
    find_embedder,
    put_vector,
    set_active,
)
from stores_sql.sqlite.notes import (
    BEFORE_ALL,
    Namespace,
    Note,
    Place,
    clear,
    enter_namespace,
    find,
    find_namespace,
    listed,
    note_at,
    places,
    put,
    remove,
    version_floor,
)
from stores_sql.sqlite.reembedding import Placed, embed_into, lacking_in
from stores_sql.sqlite.statements import Connection, Statement
from stores_sql.sqlite.storage import Tenant
from stores_sql.sqlite.tables import namespaces

NAMESPACES = Statement(
    select(namespaces.c.name)
    .where(
        namespaces.c.tenant == given("tenant"),
        namespaces.c.name > given("after"),
        namespaces.c.name >= given("prefix"),
    )
    .order_by(namespaces.c.name)
)
NAMESPACES_FROM = Statement(
    select(namespaces.c.name)
    .where(namespaces.c.tenant == given("tenant"), namespaces.c.name >= given("prefix"))
    .order_by(namespaces.c.name)
)


class SqliteMemoryStore:
    """Keeps notes of a tenant. Used bare, without a Backend, it skips all checks.

    With an embedder a query is answered by embedding, else by substring. ``cap`` is the most
    notes of one namespace; 0 is no cap.
    """

    def __init__(self, tenant: Tenant, embedder: NoteEmbedder | None = None, cap: int = 0) -> None:
        self._tenant = tenant
        self._embedder = embedder
        self._cap = cap
        self._matrices = Matrices()
        self._seen_to_fit = False

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        item, expected = request.item, request.expected_version
        vectors = await self._vectors([item])

        def work(connection: Connection, tenant: int) -> PutMemoryResponse:
            self._check_embedder(connection, tenant)
            namespace = enter_namespace(connection, tenant, request.namespace)
            old = find(connection, namespace, item.key)
            found = old.version if old else 0
            if expected not in (None, found):
                namespace.save(connection)
                return PutMemoryResponse(conflict=True, version=found)
            version = self._put(connection, namespace, old, request, item, vectors[0])
            self._drop_beyond_cap(connection, namespace, {item.key})
            namespace.save(connection)
            return PutMemoryResponse(created=not found, version=version)

        return await self._tenant.write(work)

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        items = request.items
        vectors = await self._vectors(items)

        def work(connection: Connection, tenant: int) -> PutMemoriesResponse:
            self._check_embedder(connection, tenant)
            namespace = enter_namespace(connection, tenant, request.namespace)
            created: list[bool] = []
            versions: list[int] = []
            for item, vector in zip(items, vectors, strict=True):
                old = find(connection, namespace, item.key)
                created.append(old is None)
                versions.append(self._put(connection, namespace, old, request, item, vector))
            self._drop_beyond_cap(connection, namespace, {item.key for item in items})
            namespace.save(connection)
            return PutMemoriesResponse(created=created, versions=versions)

        return await self._tenant.write(work)

    async def _vectors(self, items: Sequence[MemoryItem]) -> Sequence[Vector | None]:
        if self._embedder is None:
            return [None] * len(items)
        await self._see_to_fit()
        return await self._embedder.notes(items)

    async def _see_to_fit(self) -> None:
        """Ask before the first embedding, so that none is made in vain; later each work asks."""
        if not self._seen_to_fit:
            await self._tenant.read(self._check_embedder)
            self._seen_to_fit = True

    def _check_embedder(self, connection: Connection, tenant: int) -> None:
        if self._embedder is not None:
            try:
                check_embedder(active(connection, tenant), self._embedder.info)
            except EmbeddingMismatchError:
                self._seen_to_fit = False
                raise

    def _put(
        self,
        connection: Connection,
        namespace: Namespace,
        old: Note | None,
        request: WriteRequest,
        item: MemoryItem,
        vector: Vector | None,
    ) -> int:
        created = micros(item.created_at or request.at)
        standing = old.version if old else version_floor(connection, namespace.tenant)
        stored = StoredMemory(
            key=item.key,
            value=item.value,
            metadata=item.metadata,
            created_at=request.at,
            updated_at=request.at,
            version=standing + 1,
        )
        note = put(connection, namespace, old, stored, created, micros(request.at))
        if vector is not None and self._embedder is not None:
            embedder = enter_embedder(connection, namespace.tenant, self._embedder.info)
            set_active(connection, namespace.tenant, embedder)
            put_vector(connection, namespace, embedder, note, vector)
        return stored.version

    def _drop_beyond_cap(
        self, connection: Connection, namespace: Namespace, just_put: set[str]
    ) -> None:
        surplus = namespace.note_count - self._cap
        if not self._cap or surplus <= 0:
            return
        others = (note for note in listed(connection, namespace) if note.key not in just_put)
        for note in list(islice(others, surplus)):
            remove(connection, namespace, note)

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        def work(connection: Connection, tenant: int) -> GetMemoryResponse:
            namespace = find_namespace(connection, tenant, request.namespace)
            note = find(connection, namespace, request.key)
            return GetMemoryResponse(item=note.stored() if note else None, found=note is not None)

        return await self._tenant.read(work)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        if request.query and self._embedder is not None:
            return await self._recall(request, self._embedder)
        return await self._tenant.read(
            lambda connection, tenant: _list(connection, tenant, request)
        )

    async def _recall(
        self, request: ListMemoriesRequest, embedder: NoteEmbedder
    ) -> ListMemoriesResponse:
        await self._see_to_fit()
        query = await embedder.query(request.query)
        while True:
            answer = await self._tenant.read(
                lambda connection, tenant: self._ranked(
                    connection, tenant, request, embedder.info, query
                )
            )
            if isinstance(answer, ListMemoriesResponse):
                return answer
            check_lacking(answer, embedder.info)
            await embed_into(self._tenant, embedder, answer)

    def _ranked(
        self,
        connection: Connection,
        tenant: int,
        request: ListMemoriesRequest,
        info: EmbedderInfo,
        query: Vector,
    ) -> ListMemoriesResponse | list[Placed]:
        """The answer, or the notes that lack a vector. An empty list asks to try again."""
        self._check_embedder(connection, tenant)
        namespace = find_namespace(connection, tenant, request.namespace)
        if namespace is None:
            return ListMemoriesResponse()
        embedder = find_embedder(connection, tenant, info)
        matrix = self._matrices.of(namespace.number, embedder, info.dimensions)
        among = None
        if request.where:
            among = [note for _, note in places(connection, namespace, _wanted(request))]
        with matrix.lock:
            if not matrix.catch_up(connection, namespace, embedder):
                return []
            if len(matrix.table) < namespace.note_count:
                most = EMBED_ON_QUERY + 1
                lacking = lacking_in(connection, request.namespace, namespace, embedder, most)
                if lacking:
                    return lacking
            ranked = matrix.table.ranked(query, request.limit, among)
        best = [(score, note_at(connection, number)) for number, score in ranked]
        best.sort(key=lambda pair: (-pair[0], pair[1].place))
        if request.limit:
            best = best[: request.limit]
        items = tuple(ScoredMemory(item=note.stored(), score=score) for score, note in best)
        return ListMemoriesResponse(items=items)

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        def work(connection: Connection, tenant: int) -> DeleteMemoryResponse:
            namespace = find_namespace(connection, tenant, request.namespace)
            note = find(connection, namespace, request.key)
            if namespace is None or note is None:
                return DeleteMemoryResponse(deleted=False)
            if request.expected_version not in (None, note.version):
                return DeleteMemoryResponse(deleted=False, conflict=True)
            remove(connection, namespace, note)
            namespace.save(connection)
            return DeleteMemoryResponse(deleted=True)

        return await self._tenant.write(work)

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        def work(connection: Connection, tenant: int) -> int:
            namespace = find_namespace(connection, tenant, request.namespace)
            return 0 if namespace is None else clear(connection, namespace)

        return ClearNamespaceResponse(deleted=await self._tenant.write(work))

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        def work(connection: Connection, tenant: int) -> list[str]:
            # A namespace may be "", so a position is the name with a sign before it.
            along = {"tenant": tenant, "prefix": request.prefix}
            if request.cursor:
                rows = NAMESPACES.run(connection, after=request.cursor[1:], **along)
            else:
                rows = NAMESPACES_FROM.run(connection, **along)
            found: list[str] = []
            for (name,) in rows:
                if len(found) > request.limit or not name.startswith(request.prefix):
                    break
                found.append(name)
            return found

        names = await self._tenant.read(work)
        page, position = names_page(names, request.limit)
        return ListNamespacesResponse(namespaces=page, next_cursor=position)


def _wanted(request: ListMemoriesRequest) -> list[bytes]:
    return [bytes.fromhex(filter_digest(key, value)) for key, value in request.where.items()]


def _list(
    connection: Connection, tenant: int, request: ListMemoriesRequest
) -> ListMemoriesResponse:
    namespace = find_namespace(connection, tenant, request.namespace)
    if namespace is None:
        return ListMemoriesResponse()
    after = place_of(request.cursor) if request.cursor else BEFORE_ALL
    notes = listed(connection, namespace, after, _wanted(request), request.query)
    page, position, size = list[Note](), "", 0
    for note in notes:
        if request.limit and (
            len(page) == request.limit
            or (not request.query and page and size + note.size > PAGE_BYTES)
        ):
            position = "" if request.query else position_of(page[-1].place)
            break
        page.append(note)
        size += note.size
    score = 1.0 if request.query else 0.0
    items = tuple(ScoredMemory(item=note.stored(), score=score) for note in page)
    return ListMemoriesResponse(items=items, next_cursor=position)


def position_of(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def place_of(position: str) -> Place:
    created, _, number = position.partition(":")
    return int(created), int(number)
