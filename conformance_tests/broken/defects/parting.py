"""Parents and forks that still hang together."""

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    ListRunsRequest,
    LoadRunRequest,
    LoadRunResponse,
    UpdateRunRequest,
    UpdateRunResponse,
)


@defect("RUN-F6", caught_by="test_parting.py::test_parent_and_fork_go_their_own_ways")
class ForkFollowsItsSource(BrokenRuns):
    """A fork of all keeps a reference to the source's log: appends to the source show in it too."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if answer.created and not request.at_message:
            self.kept.setdefault(request.run_id, []).append(request.new_run_id)
        return answer

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        for fork in self.kept.get(request.run_id, ()) if answer.applied else ():
            await self.good.append_messages(
                changed(request, run_id=fork, expected_count=None, expected_events=None)
            )
        return answer


@defect("RUN-F6", caught_by="test_parting.py::test_parent_and_fork_go_their_own_ways")
class ForkWritesToItsSource(BrokenRuns):
    """A fork of all writes to the log that it shares with its source."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if answer.created and not request.at_message:
            self.kept[request.new_run_id] = request.run_id
        return answer

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        if answer.applied and request.run_id in self.kept:
            source = self.kept[request.run_id]
            await self.good.append_messages(
                changed(request, run_id=source, expected_count=None, expected_events=None)
            )
        return answer


@defect("RUN-F6", caught_by="test_parting.py::test_labels_of_parent_and_fork_go_their_own_ways")
class ForkSharesLabels(BrokenRuns):
    """A change of the source's labels reaches the forks that took them over."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        answer = await self.good.update_run(request)
        forks = await self.good.list_runs(ListRunsRequest(parent_id=request.run_id, limit=1000))
        for fork in forks.runs:
            await self.good.update_run(changed(request, run_id=fork.id))
        return answer


@defect("RUN-D2", caught_by="test_parting.py::test_deleting_one_of_two_leaves_the_other_whole")
class DeleteTakesForksAlong(BrokenRuns):
    """A delete cascades to the forks of the run."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        answer = await self.good.delete_run(request)
        if answer.deleted:
            query = ListRunsRequest(parent_id=request.run_id, limit=1000)
            for fork in (await self.good.list_runs(query)).runs:
                await self.good.delete_run(DeleteRunRequest(run_id=fork.id))
        return answer


@defect("RUN-D2", caught_by="test_parting.py::test_deleting_one_of_two_leaves_the_other_whole")
class DeleteOfAForkFreesTheSharedPrefix(BrokenRuns):
    """The delete of a fork frees the messages that it shares with its parent."""

    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        before = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        answer = await self.good.delete_run(request)
        if answer.deleted and before and before.parent_id:
            self.kept[before.parent_id] = before.fork_point
        return answer

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        if answer.run and request.run_id in self.kept and request.last_messages is None:
            left = answer.run.messages[self.kept[request.run_id] :]
            return changed(answer, run=changed(answer.run, messages=left))
        return answer


@defect("RUN-D2", "RUN-D3", caught_by="test_forest.py::test_an_id_of_the_family_may_be_used_again")
class ForkKnowsItsParentByName(BrokenRuns):
    """A fork of all looks its first messages up under the parent's id, whoever bears it now."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        answer = await self.good.load_run(request)
        run = answer.run
        if run and run.parent_id and request.last_messages is None:
            parent = await self.good.load_run(LoadRunRequest(run_id=run.parent_id))
            if parent.run and parent.run.created_at > run.created_at:
                taken = parent.run.messages[: run.fork_point]
                messages = (*taken, *run.messages[run.fork_point :])
                return changed(answer, run=changed(run, messages=messages))
        return answer
