"""Namespaces that are cleared, listed or told apart wrongly."""

import asyncio
import fnmatch

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import namespaces, notes_of
from stores_core.memory import (
    ClearNamespaceRequest,
    ClearNamespaceResponse,
    DeleteMemoryRequest,
    ListMemoriesRequest,
    ListMemoriesResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)


@defect(
    "MEM-12",
    caught_by="test_namespaces.py::test_clearing_removes_one_namespace_whole_and_no_other",
)
class ClearStopsAfterAPage(BrokenMemory):
    """Clearing a namespace removes the first hundred notes."""

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        notes = (await notes_of(self.good, request.namespace))[:100]
        for scored in notes:
            delete = DeleteMemoryRequest(key=scored.item.key, namespace=request.namespace)
            await self.good.delete_memory(changed(delete, at=request.at))
        return ClearNamespaceResponse(deleted=len(notes))


@defect(
    "MEM-12",
    "MEM-5",
    caught_by="test_namespaces.py::test_clearing_removes_one_namespace_whole_and_no_other",
)
class ClearGoesByPrefix(BrokenMemory):
    """Clearing a namespace clears those whose name starts with its name."""

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        cleared = await self.good.clear_namespace(request)
        for name in await namespaces(self.good, request.namespace):
            await self.good.clear_namespace(changed(request, namespace=name))
        return cleared


@defect(
    "MEM-6",
    "ALL-7",
    caught_by="test_namespaces.py::"
    "test_no_version_comes_again_where_many_namespaces_are_cleared_at_once",
)
class ClearsForgetEachOther(BrokenMemory):
    """Of clears at the same time one remembers which versions its notes had."""

    clearing = 0
    forgotten = frozenset[str]()

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        self.clearing += 1
        await asyncio.sleep(0.001)
        if self.clearing > 1:
            self.forgotten |= {request.namespace}
        self.clearing -= 1
        return await self.good.clear_namespace(request)

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        answer = await self.good.put_memory(request)
        if not answer.created or request.namespace not in self.forgotten:
            return answer
        self.forgotten -= {request.namespace}
        return changed(answer, version=1)


@defect(
    "MEM-12",
    caught_by="test_namespaces.py::test_clearing_removes_one_namespace_whole_and_no_other",
)
class ClearCountsNamespaces(BrokenMemory):
    """Clearing says 1 where it should count the notes."""

    async def clear_namespace(self, request: ClearNamespaceRequest) -> ClearNamespaceResponse:
        answer = await self.good.clear_namespace(request)
        return changed(answer, deleted=min(answer.deleted, 1))


@defect(
    "MEM-5",
    caught_by="test_namespaces.py::test_namespaces_that_look_alike_share_nothing",
)
class ListingGoesByPrefix(BrokenMemory):
    """A listing shows the notes of all namespaces whose name starts with the name given."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if request.namespace and not request.limit:
            for name in await namespaces(self.good, request.namespace):
                if name != request.namespace:
                    more = await self.good.list_memories(changed(request, namespace=name))
                    answer = changed(answer, items=(*answer.items, *more.items))
        return answer


@defect("MEM-5", caught_by="test_namespaces.py::test_the_empty_namespace_is_one_like_the_others")
class EmptyNamespaceIsAll(BrokenMemory):
    """A listing of the namespace "" shows the notes of all."""

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer = await self.good.list_memories(request)
        if not request.namespace and not request.limit:
            for name in await namespaces(self.good):
                if name:
                    more = await self.good.list_memories(changed(request, namespace=name))
                    answer = changed(answer, items=(*answer.items, *more.items))
        return answer


@defect("MEM-13", caught_by="test_namespaces.py::test_a_namespace_without_notes_is_not_listed")
class EmptyNamespacesStay(BrokenMemory):
    """A namespace stays listed when its last note is gone."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        self.kept[request.namespace] = True
        return await self.good.put_memory(request)

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        answer = await self.good.list_namespaces(request)
        if request.cursor or answer.next_cursor:
            return answer
        once = {name for name in self.kept if name.startswith(request.prefix)}
        return changed(answer, namespaces=tuple(sorted(once.union(answer.namespaces))))


@defect(
    "MEM-13",
    caught_by="test_namespaces.py::test_namespaces_are_listed_in_code_point_order_by_any_page",
)
class NamespacesComeIn16Bits(BrokenMemory):
    """Namespaces are listed in the order of their UTF-16 units."""

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        answer = await self.good.list_namespaces(request)
        order = sorted(answer.namespaces, key=lambda name: name.encode("utf-16-be"))
        return changed(answer, namespaces=tuple(order))


@defect(
    "MEM-13",
    "ALL-3",
    caught_by="test_namespaces.py::test_every_character_of_a_namespace_prefix_is_literal",
)
class NamespacePrefixIsAPattern(BrokenMemory):
    """The prefix of namespaces is taken for a glob."""

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        pattern = request.prefix + "*"
        names = [n for n in await namespaces(self.good) if fnmatch.fnmatchcase(n, pattern)]
        left = [name for name in names if not request.cursor or name > request.cursor[1:]]
        page = left[: request.limit]
        following = f":{page[-1]}" if len(page) < len(left) else ""
        return ListNamespacesResponse(namespaces=page, next_cursor=following)


@defect(
    "MEM-13",
    caught_by="test_namespaces.py::test_pages_of_namespaces_miss_and_repeat_nothing_meanwhile",
)
class NamespaceCursorIsAnOffset(BrokenMemory):
    """The cursor of namespaces counts those already given."""

    async def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        names = await namespaces(self.good, request.prefix)
        start = int(request.cursor or 0)
        end = start + request.limit
        following = str(end) if end < len(names) else ""
        return ListNamespacesResponse(namespaces=names[start:end], next_cursor=following)
