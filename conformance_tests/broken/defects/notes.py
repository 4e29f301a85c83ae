"""Notes that a put, a batch, a condition or a deletion treats wrongly."""

import asyncio

from conformance_tests.broken.defect import BrokenMemory, changed, defect
from conformance_tests.broken.reading import note_at
from stores_core.memory import (
    DeleteMemoryRequest,
    DeleteMemoryResponse,
    GetMemoryRequest,
    GetMemoryResponse,
    ListMemoriesRequest,
    ListMemoriesResponse,
    PutMemoriesRequest,
    PutMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
    ScoredMemory,
    StoredMemory,
)

_PLACE = "test_memory.py::test_a_second_put_keeps_place_and_created_at_whatever_the_item_says"
_VERSION = "test_memory.py::test_each_put_raises_the_version_by_one"
_BATCH = "test_memory.py::test_a_batch_answers_for_each_item_in_order"
_DELETED = "test_memory.py::test_deleting_an_unknown_key_says_so"


@defect("MEM-1", caught_by=_PLACE)
class UpdateIsANewNote(BrokenMemory):
    """A put of a known key deletes the note and writes it anew, at the end of the listing."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        namespace, key = request.namespace, request.item.key
        known = await note_at(self.good, namespace, key)
        if known and request.expected_version is None:
            delete = DeleteMemoryRequest(key=key, namespace=namespace)
            await self.good.delete_memory(changed(delete, at=request.at))
            return changed(await self.good.put_memory(request), created=False)
        return await self.good.put_memory(request)


@defect("MEM-1", caught_by=_PLACE)
class CreatedAtFollowsUpdates(BrokenMemory):
    """A put of a known key moves its created_at."""

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        if answer.item and answer.item.updated_at > answer.item.created_at:
            return changed(answer, item=changed(answer.item, created_at=answer.item.updated_at))
        return answer


@defect("MEM-1", caught_by="test_memory.py::test_a_second_put_replaces_value_and_metadata_whole")
class MetadataIsMerged(BrokenMemory):
    """A put of a known key merges its metadata into the old."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        known = await note_at(self.good, request.namespace, request.item.key)
        if known:
            merged = {**known.metadata, **request.item.metadata}
            request = changed(request, item=changed(request.item, metadata=merged))
        return await self.good.put_memory(request)


@defect("MEM-1", caught_by="test_memory.py::test_a_new_note_is_created_and_found_by_its_key")
class NoPutCreates(BrokenMemory):
    """A put never says that the note is new."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        return changed(await self.good.put_memory(request), created=False)


@defect(
    "MEM-1",
    caught_by="test_memory.py::test_concurrent_puts_of_one_key_each_get_a_version_of_their_own",
)
class VersionIsReadAfterwards(BrokenMemory):
    """A put answers the version that it reads in a second step."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        answer = await self.good.put_memory(request)
        await asyncio.sleep(0)
        note = await note_at(self.good, request.namespace, request.item.key)
        return answer if answer.conflict or not note else changed(answer, version=note.version)


@defect(
    "ALL-9",
    "MEM-1",
    caught_by="test_outcomes.py::test_cancelled_puts_leave_the_old_or_the_new_whole",
)
class NoteIsTakenAwayFirst(BrokenMemory):
    """A put takes the old note away before it writes the new one, and may be cut off between."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        known = await note_at(self.good, request.namespace, request.item.key)
        if known is None or request.expected_version is not None:
            return await self.good.put_memory(request)
        delete = DeleteMemoryRequest(key=known.key, namespace=request.namespace)
        await self.good.delete_memory(changed(delete, at=request.at))
        await asyncio.sleep(0)
        item = changed(request.item, created_at=known.created_at)
        return changed(await self.good.put_memory(changed(request, item=item)), created=False)


@defect("MEM-1", caught_by=_VERSION)
class EqualPutIsSkipped(BrokenMemory):
    """A put that changes nothing is not counted as one."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        known = await note_at(self.good, request.namespace, request.item.key)
        same = known and (known.value, known.metadata) == (
            request.item.value,
            request.item.metadata,
        )
        if known and same and request.expected_version is None:
            return PutMemoryResponse(version=known.version)
        return await self.good.put_memory(request)


@defect("MEM-1", caught_by=_VERSION)
class ReadingCountsAsAPut(BrokenMemory):
    """A note's version counts how often it was read, too."""

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        if answer.item is None:
            return answer
        read = (request.namespace, request.key)
        self.kept[read] = self.kept.get(read, -1) + 1
        version = answer.item.version + self.kept[read]
        return changed(answer, item=changed(answer.item, version=version))


@defect(
    "MEM-6",
    caught_by="test_memory.py::test_a_put_after_a_delete_is_a_new_note_with_a_higher_version",
)
class VersionsStartAgain(BrokenMemory):
    """The version of a note that was deleted and put again starts at 1."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        note = (request.namespace, request.item.key)
        below = self.kept.get(note, 0)
        if request.expected_version:
            request = changed(request, expected_version=request.expected_version + below)
        answer = await self.good.put_memory(request)
        if answer.created:
            below = self.kept[note] = answer.version - 1
        return changed(answer, version=max(0, answer.version - below))

    async def get_memory(self, request: GetMemoryRequest) -> GetMemoryResponse:
        answer = await self.good.get_memory(request)
        below = self.kept.get((request.namespace, request.key), 0)
        item = answer.item and changed(answer.item, version=answer.item.version - below)
        return changed(answer, item=item)


@defect("MEM-9", caught_by="test_memory.py::test_a_note_of_another_version_is_left_alone")
class ExpectedVersionIsIgnored(BrokenMemory):
    """A put writes whatever version it expected."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        return await self.good.put_memory(changed(request, expected_version=None))


@defect(
    "MEM-9", caught_by="test_memory.py::test_expected_version_0_writes_only_where_there_is_no_note"
)
class ExpectedVersion0IsNotGiven(BrokenMemory):
    """An expected version of 0 is taken for none."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        expected = request.expected_version or None
        return await self.good.put_memory(changed(request, expected_version=expected))


@defect("MEM-9", caught_by="test_memory.py::test_of_racing_puts_with_one_expected_version_one_wins")
class VersionIsCheckedBefore(BrokenMemory):
    """The expected version is compared in one step and the note written in another."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        known = await note_at(self.good, request.namespace, request.item.key)
        found = known.version if known else 0
        if request.expected_version not in (None, found):
            return PutMemoryResponse(conflict=True, version=found)
        await asyncio.sleep(0)
        return await self.good.put_memory(changed(request, expected_version=None))


@defect("MEM-9", caught_by="test_memory.py::test_a_note_of_another_version_is_left_alone")
class ConflictTellsWhatWasExpected(BrokenMemory):
    """A conflict answers the version that was expected, not the one found."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        answer = await self.good.put_memory(request)
        if answer.conflict:
            return changed(answer, version=request.expected_version)
        return answer


@defect("MEM-14", caught_by="test_memory.py::test_a_delete_leaves_a_note_of_another_version_alone")
class DeleteIgnoresTheVersion(BrokenMemory):
    """A delete removes a note of any version."""

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        return await self.good.delete_memory(changed(request, expected_version=None))


@defect(
    "MEM-14",
    caught_by="test_memory.py::test_a_put_that_races_a_delete_of_the_version_before_it_stays",
)
class VersionIsCheckedBeforeTheDelete(BrokenMemory):
    """The expected version is compared in one step and the note removed in another."""

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        known = await note_at(self.good, request.namespace, request.key)
        if known and request.expected_version not in (None, known.version):
            return DeleteMemoryResponse(deleted=False, conflict=True)
        await asyncio.sleep(0)
        return await self.good.delete_memory(changed(request, expected_version=None))


@defect(
    "MEM-9",
    "MEM-6",
    caught_by="test_memory.py::test_an_expected_version_of_a_missing_note_is_a_conflict_at_0",
)
class MissingNoteIsNoConflict(BrokenMemory):
    """A put that expects a version writes where there is no note."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        answer = await self.good.put_memory(request)
        if answer.conflict and not answer.version:
            return await self.good.put_memory(changed(request, expected_version=None))
        return answer


@defect(
    "MEM-8",
    "ALL-6",
    caught_by="test_memory.py::test_a_batch_of_notes_is_seen_whole_or_not_at_all",
)
class BatchIsPutOneByOne(BrokenMemory):
    """A batch is written note by note."""

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        answers: list[PutMemoryResponse] = []
        for item in request.items:
            put = PutMemoryRequest(item=item, namespace=request.namespace)
            answers.append(await self.good.put_memory(changed(put, at=request.at)))
            await asyncio.sleep(0)
        return PutMemoriesResponse(
            created=[answer.created for answer in answers],
            versions=[answer.version for answer in answers],
        )


@defect("MEM-8", caught_by=_BATCH)
class BatchComesByKey(BrokenMemory):
    """A batch is written, and answered, in the order of its keys."""

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        items = sorted(request.items, key=lambda item: item.key)
        return await self.good.put_memories(changed(request, items=tuple(items)))


@defect("MEM-8", caught_by=_BATCH)
class BatchCreatesAll(BrokenMemory):
    """A batch says of each note that it is new."""

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        answer = await self.good.put_memories(request)
        return changed(answer, created=(True,) * len(answer.created))


@defect("MEM-6", caught_by=_DELETED)
class DeleteAlwaysSaysYes(BrokenMemory):
    """Deleting an unknown key says that it was deleted."""

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        return changed(await self.good.delete_memory(request), deleted=True)


@defect("MEM-6", caught_by="test_memory.py::test_a_deleted_note_is_gone_from_every_listing_at_once")
class DeletedNotesAreRecalled(BrokenMemory):
    """A deleted note stays in what recall searches."""

    async def delete_memory(self, request: DeleteMemoryRequest) -> DeleteMemoryResponse:
        note = await note_at(self.good, request.namespace, request.key)
        self.kept.setdefault(request.namespace, {})[request.key] = note
        return await self.good.delete_memory(request)

    async def list_memories(self, request: ListMemoriesRequest) -> ListMemoriesResponse:
        answer, query = await self.good.list_memories(request), request.query.casefold()
        if not query:
            return answer
        gone: list[StoredMemory] = list(self.kept.get(request.namespace, {}).values())
        found = [ScoredMemory(item=n, score=1.0) for n in gone if n and query in n.value.casefold()]
        return changed(answer, items=(*found, *answer.items))
