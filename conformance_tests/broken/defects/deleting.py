"""Deletes that take too much, too little, or time."""

import asyncio
from typing import Any

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    CreateRunResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    GetRunRequest,
    GetRunResponse,
    ListRunsRequest,
    ListRunsResponse,
    LoadRunRequest,
    ReadMessagesRequest,
    ReadMessagesResponse,
    RunInfo,
)

SAYS = "test_deleting.py::test_delete_says_whether_the_run_was_there"
AGAIN = "test_deleting.py::test_a_run_created_again_starts_empty"
RACE = "test_racing.py::test_an_append_that_races_a_delete_comes_before_it_or_finds_nothing"


@defect("RUN-D1", caught_by=SAYS)
class DeleteIsAlwaysToldDone(BrokenRuns):
    """A delete of an unknown run says that it deleted one."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        answer = await self.good.delete_run(request)
        return changed(answer, deleted=not answer.conflict)


@defect("RUN-D1", caught_by=SAYS)
class DeleteIsNeverToldDone(BrokenRuns):
    """A delete looks after it is done whether the run was there."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        answer = await self.good.delete_run(request)
        after = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        return changed(answer, deleted=after.found and not answer.conflict)


@defect("RUN-D1", caught_by="test_racing.py::test_of_racing_deletes_one_is_told_deleted")
class DeleteLooksFirst(BrokenRuns):
    """A delete looks whether the run is there and removes it in a later step."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        before = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        await asyncio.sleep(0)
        answer = await self.good.delete_run(request)
        return changed(answer, deleted=before.found and not answer.conflict)


@defect("RUN-D1", caught_by="test_deleting.py::test_a_delete_takes_no_other_run_along")
class DeleteTakesAllThatBeginsSo(BrokenRuns):
    """A delete takes along every run whose id begins with the one deleted."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        self.kept[request.run_id] = True
        return await self.good.create_run(request)

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        answer = await self.good.delete_run(request)
        for run_id in [one for one in self.kept if answer.deleted and one != request.run_id]:
            if run_id.startswith(request.run_id):
                await self.good.delete_run(DeleteRunRequest(run_id=run_id))
        return answer


@defect("RUN-D1", caught_by="test_deleting.py::test_a_deleted_run_is_in_no_listing")
class DeletedRunsStayListed(BrokenRuns):
    """A delete does not clear the index of labels, so that a listing by labels shows the run."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        answer = await self.good.delete_run(request)
        if info and answer.deleted:
            self.kept[request.run_id] = info
        return answer

    async def list_runs(self, request: ListRunsRequest) -> ListRunsResponse:
        answer = await self.good.list_runs(request)
        wanted = request.labels.items()
        left: list[RunInfo] = [
            i for i in self.kept.values() if wanted and wanted <= i.labels.items()
        ]
        return answer if answer.next_cursor else changed(answer, runs=(*answer.runs, *left))


@defect("RUN-D3", caught_by=AGAIN)
class RecreatedRunHasTheOldMessages(BrokenRuns):
    """A delete leaves the messages, and the next run of the id starts with them."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        loaded = await self.good.load_run(LoadRunRequest(run_id=request.run_id))
        answer = await self.good.delete_run(request)
        if loaded.run and answer.deleted:
            self.kept[request.run_id] = loaded.run.messages
        return answer

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        answer = await self.good.create_run(request)
        left = self.kept.pop(request.run_id, ())
        if answer.created and left:
            old = AppendMessagesRequest(run_id=request.run_id, messages=left)
            await self.good.append_messages(changed(old, at=request.at))
        return answer


@defect("RUN-D3", caught_by="test_deleting.py::test_a_run_created_again_has_times_of_its_own")
class RecreatedRunKeepsItsFirstTime(BrokenRuns):
    """A delete only marks the run, and the next one of the id has its created_at."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        first = self.kept.setdefault(request.run_id, request.at)
        return await self.good.create_run(changed(request, at=first))


@defect(
    "RUN-D3",
    "RUN-L3",
    caught_by="test_reading.py::test_a_tail_of_the_run_before_is_refused_by_the_next_one",
)
class RecreatedRunGoesOnCounting(BrokenRuns):
    """A tail of a run that was deleted is answered by the next one as if it had the old length."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        self.kept[request.run_id] = info.message_count if info else 0
        return await self.good.delete_run(request)

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        length = max(self.kept.get(request.run_id, 0), info.message_count if info else 0)
        if info and info.message_count < request.start <= length:
            return ReadMessagesResponse(next=request.start, count=length, found=True)
        return await self.good.read_messages(request)


@defect("RUN-D4", caught_by=RACE)
class AppendRevivesADeletedRun(BrokenRuns):
    """An append finds its run, waits, and writes the header again if it is gone by then."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        before = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        await asyncio.sleep(0)
        answer = await self.good.append_messages(request)
        if before.found and not answer.found:
            again = CreateRunRequest(run_id=request.run_id)
            await self.good.create_run(changed(again, at=request.at))
            answer = await self.good.append_messages(request)
        return answer


@defect(
    "RUN-D4",
    caught_by="test_deleting.py::test_an_append_after_a_delete_revives_nothing",
)
class DeleteIsDoneLater(BrokenRuns):
    """A delete answers at once and is done before the next read: an append before it is taken."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if info is None or request.expected_messages is not None:
            return await self.good.delete_run(request)
        self.kept[request.run_id] = request
        return DeleteRunResponse(deleted=True)

    def __getattr__(self, name: str) -> Any:
        async def do_late(request: Any) -> Any:
            while self.kept and not name.startswith("append"):
                await self.good.delete_run(self.kept.popitem()[1])
            return await getattr(self.good, name)(request)

        return do_late


@defect("RUN-D4", "RUN-D1", caught_by=RACE)
class GoneForReadersFirst(BrokenRuns):
    """A delete hides the run from get_run in one step and removes it in a later one."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        self.kept[request.run_id] = True
        await asyncio.sleep(0)
        try:
            return await self.good.delete_run(request)
        finally:
            self.kept.pop(request.run_id, None)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        if request.run_id in self.kept:
            return GetRunResponse(found=False)
        return await self.good.get_run(request)
