"""Forks that take too much, too little, or what is not theirs."""

import asyncio
import secrets
from typing import Any

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.moving import (
    ExportEntriesRequest,
    ExportRunsRequest,
    ImportEntriesRequest,
    ImportRunRequest,
    LogRange,
    RunRecord,
)
from stores_core.runs import (
    CreateRunRequest,
    DeleteRunRequest,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    LoadRunRequest,
    RunInfo,
)

CUTS = "test_fork.py::test_a_fork_takes_the_first_messages_and_events_only_with_all"


class ForksAsDrafts(BrokenRuns):
    """Forks rightly in three steps, for defects that spoil the second one.

    A draft is forked, exported, imported under the new id with what `spoiled` makes of it, and
    deleted. So header and logs can be made wrong on any backend that can move runs.
    """

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        raise NotImplementedError

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        draft_id = f"{request.new_run_id} {secrets.token_hex(8)}"
        answer = await self.good.fork_run(changed(request, new_run_id=draft_id))
        taken = await self.good.get_run(GetRunRequest(run_id=request.new_run_id))
        if taken.found or not answer.created:
            await self.good.delete_run(DeleteRunRequest(run_id=draft_id))
            return await self.good.fork_run(request)
        draft = await self.record_of(draft_id)
        record = await self.spoiled(
            request, changed(draft, info=changed(draft.info, id=request.new_run_id))
        )
        await self.stores.moving.import_run(changed(ImportRunRequest(run=record), at=request.at))
        await self.good.delete_run(DeleteRunRequest(run_id=draft_id))
        info = record.info
        return changed(answer, run_id=info.id, parent_id=info.parent_id, fork_point=info.fork_point)

    async def record_of(self, run_id: str) -> RunRecord:
        """The record of a run that is there."""
        cursor = ""
        while True:
            page = await self.stores.moving.export_runs(ExportRunsRequest(cursor=cursor, limit=50))
            for record in page.runs:
                if record.info.id == run_id:
                    return record
            cursor = page.next_cursor


def with_info(record: RunRecord, **fields: Any) -> RunRecord:
    """The record with another header."""
    return changed(record, info=changed(record.info, **fields))


# What comes along


@defect("RUN-F1", caught_by=CUTS)
class ForkTakesOneTooFew(BrokenRuns):
    """A fork at message N takes N - 1 messages."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        if request.at_message > 1:
            request = changed(request, at_message=request.at_message - 1)
        return await self.good.fork_run(request)


@defect("RUN-F1", caught_by=CUTS)
class ForkTakesOneTooMany(BrokenRuns):
    """A fork at message N takes N + 1 messages."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        if request.at_message > 0:
            request = changed(request, at_message=request.at_message + 1)
        return await self.good.fork_run(request)


@defect("RUN-F1", caught_by=CUTS)
class ForkAtZeroIsEmpty(ForksAsDrafts):
    """A fork that names no message starts with none, where it should take all."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        if request.at_message > 0:
            return draft
        empty = with_info(draft, fork_point=0, message_count=0, event_count=0)
        return changed(empty, messages=(), events=())


@defect("RUN-F1", "RUN-F2", caught_by=CUTS)
class ForkPastTheEndLeavesTheLastOut(BrokenRuns):
    """A fork at the end or beyond it is cut to one message before the end."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if source.info and request.at_message >= source.info.message_count > 1:
            request = changed(request, at_message=source.info.message_count - 1)
        return await self.good.fork_run(request)


@defect("RUN-F3", caught_by=CUTS)
class ForkPointIsWhatWasAsked(BrokenRuns):
    """The answer tells the message that was asked for, not the number that came along."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        return changed(answer, fork_point=request.at_message) if answer.created else answer


@defect("RUN-F1", caught_by=CUTS)
class ForkCountsEventsToo(BrokenRuns):
    """Messages and events share one counter, so that a cut at message N counts events too."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if source.info and request.at_message > 0:
            cut = max(1, request.at_message - source.info.event_count)
            request = changed(request, at_message=cut)
        return await self.good.fork_run(request)


@defect("RUN-F2", caught_by=CUTS)
class FullForkLosesEvents(ForksAsDrafts):
    """A fork that takes all messages comes without the events."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        return changed(with_info(draft, event_count=0), events=())


@defect("RUN-F2", caught_by=CUTS)
class PartialForkTakesEvents(ForksAsDrafts):
    """A fork that takes a part of the messages takes all events."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        source = await self.record_of(request.run_id)
        count = source.info.event_count
        return changed(with_info(draft, event_count=count), events=source.events)


@defect("RUN-F11", caught_by="test_forest.py::test_every_generation_reads_as_a_plain_run")
class DeepForkForgetsItsFirstAncestor(ForksAsDrafts):
    """A fork refers to its 16 nearest ancestors and loses what is older."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        kept = draft.messages[-16:]
        count = sum(part.length for part in kept)
        return changed(with_info(draft, message_count=count, fork_point=count), messages=kept)


# What a fork says of itself


@defect("RUN-F3", caught_by="test_fork.py::test_a_fork_is_as_old_as_the_fork")
class ForkIsAsOldAsItsSource(ForksAsDrafts):
    """A fork copies created_at with the rest of the header."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        return with_info(draft, created_at=source.info.created_at) if source.info else draft


@defect("RUN-F3", caught_by="test_fork.py::test_the_fork_of_a_fork_counts_all_that_came_along")
class ForkOfAForkNamesTheRoot(ForksAsDrafts):
    """The fork of a fork bears the first ancestor as its parent."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        root = source.info.parent_id if source.info else ""
        return with_info(draft, parent_id=root) if root else draft


@defect("RUN-F3", caught_by="test_fork.py::test_labels_are_the_sources_unless_some_are_given")
class ForkDropsLabels(BrokenRuns):
    """A fork to which no labels are given has none."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await self.good.fork_run(changed(request, labels=request.labels or {}))


@defect("RUN-F3", caught_by="test_fork.py::test_labels_are_the_sources_unless_some_are_given")
class ForkTakesNoLabelsForAll(BrokenRuns):
    """Empty labels that were given are taken for none, so that the source's come along."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        return await self.good.fork_run(changed(request, labels=request.labels or None))


@defect("RUN-F3", caught_by="test_fork.py::test_labels_are_the_sources_unless_some_are_given")
class ForkMergesLabels(BrokenRuns):
    """Labels that are given come on top of the source's."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if source.info and request.labels is not None:
            request = changed(request, labels={**source.info.labels, **request.labels})
        return await self.good.fork_run(request)


# What stands at the new id


@defect("RUN-F4", caught_by="test_fork.py::test_a_fork_of_an_unknown_run_brings_nothing_to_life")
class ForkOfNothingIsAnEmptyRun(BrokenRuns):
    """A fork of an unknown run makes an empty run."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if not answer.found:
            empty = CreateRunRequest(run_id=request.new_run_id)
            await self.good.create_run(changed(empty, at=request.at))
        return answer


@defect(
    "RUN-F4",
    caught_by="test_fork.py::test_the_answer_speaks_of_the_run_at_the_new_id_even_without_a_source",
)
class ForkWithoutASourceTellsNothing(BrokenRuns):
    """Where the source is unknown, the lineage of the run at the new id is not looked up."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        return answer if answer.found else changed(answer, parent_id="", fork_point=0)


@defect("RUN-F5", caught_by="test_fork.py::test_a_repeated_fork_finds_the_first_one_as_it_is_now")
class RepeatedForkCopiesAgain(BrokenRuns):
    """A fork that is repeated copies again and wipes what the fork has got meanwhile."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if answer.found and not answer.created and answer.parent_id == request.run_id:
            await self.good.delete_run(DeleteRunRequest(run_id=request.new_run_id))
            answer = await self.good.fork_run(request)
            return changed(answer, created=False)
        return answer


@defect("RUN-F5", caught_by="test_fork.py::test_a_taken_id_is_left_alone_and_its_lineage_told")
class TakenIdTellsTheWishedLineage(BrokenRuns):
    """For a new id that is taken the answer tells the lineage asked for, not the one found."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        if answer.found and not answer.created:
            answer = changed(answer, parent_id=request.run_id, fork_point=request.at_message)
        return answer


@defect("RUN-F5", caught_by="test_fork.py::test_a_repeated_fork_finds_the_first_one_as_it_is_now")
class RepeatedForkIsToldCreated(BrokenRuns):
    """A fork that finds its own earlier success says that it was created now."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        answer = await self.good.fork_run(request)
        own = answer.found and answer.parent_id == request.run_id
        return changed(answer, created=answer.created or own)


@defect("RUN-F5", caught_by="test_fork.py::test_a_run_cannot_be_forked_onto_itself")
class ForkOntoItselfCutsTheRun(BrokenRuns):
    """A fork onto the source's own id leaves the run cut to the fork."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        if request.run_id != request.new_run_id:
            return await self.good.fork_run(request)
        copy = f"{request.run_id} {secrets.token_hex(8)}"
        answer = await self.good.fork_run(changed(request, new_run_id=copy))
        if answer.created:
            await self.good.delete_run(DeleteRunRequest(run_id=request.run_id))
            await self.good.fork_run(changed(request, run_id=copy, at_message=0))
            await self.good.delete_run(DeleteRunRequest(run_id=copy))
        return changed(answer, run_id=request.run_id, created=False)


# Forks in several steps


@defect("RUN-F7", caught_by="test_concurrency.py::test_a_fork_is_seen_whole_or_not_at_all")
class ForkClaimsFirst(BrokenRuns):
    """A fork claims its id with an empty run and fills it in a second step."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        claim = CreateRunRequest(run_id=request.new_run_id, labels=request.labels or {})
        if source.found and (await self.good.create_run(changed(claim, at=request.at))).created:
            await asyncio.sleep(0)
            await self.good.delete_run(DeleteRunRequest(run_id=request.new_run_id))
        return await self.good.fork_run(request)


@defect(
    "RUN-F8",
    caught_by="test_racing.py::test_of_racing_forks_one_wins_and_the_run_holds_that_fork_alone",
)
class ForkLooksFirst(BrokenRuns):
    """A fork looks whether its new id is free, and later writes without looking again."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        taken = await self.good.get_run(GetRunRequest(run_id=request.new_run_id))
        source = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if source.found and not taken.found:
            await asyncio.sleep(0)
            await self.good.delete_run(DeleteRunRequest(run_id=request.new_run_id))
        return await self.good.fork_run(request)


@defect(
    "RUN-F9",
    "RUN-F2",
    caught_by="test_concurrency.py::test_a_fork_among_writers_is_a_prefix_of_whole_batches",
)
class ForkTakesTheLogsAtTwoInstants(ForksAsDrafts):
    """A fork of all takes the messages at one instant and the events at a later one."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        await asyncio.sleep(0)
        later = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if request.at_message or not later.info or later.info.event_count == draft.info.event_count:
            return draft
        source = await self.record_of(request.run_id)
        return changed(with_info(draft, event_count=source.info.event_count), events=source.events)


# What a fork costs


@defect("RUN-F12", caught_by="test_costs.py::test_a_fork_of_a_long_run_looks_at_no_more_entries")
class ForkReadsWhatItTakes(BrokenRuns):
    """A fork reads the whole source first."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        await self.good.load_run(LoadRunRequest(run_id=request.run_id))
        return await self.good.fork_run(request)


@defect(
    "RUN-F12",
    caught_by="test_costs.py::test_a_fork_of_a_long_run_adds_no_more_bytes_than_that_of_a_short_one",
)
class ForkCopiesWhatItTakes(ForksAsDrafts):
    """A fork copies its messages into a log of its own."""

    async def spoiled(self, request: ForkRunRequest, draft: RunRecord) -> RunRecord:
        log, moving = secrets.token_hex(16), self.stores.moving
        length = 0
        for part in draft.messages:
            read = changed(ExportEntriesRequest(log=part.log), limit=part.length)
            entries = (await moving.export_entries(read)).entries
            copy = ImportEntriesRequest(log=log, start=length, entries=entries)
            length = (await moving.import_entries(changed(copy, at=request.at))).length
        return changed(draft, messages=(LogRange(log=log, length=length),) if length else ())


# What parent and fork owe each other


@defect(
    "RUN-F3", caught_by="test_parting.py::test_a_fork_keeps_its_lineage_when_the_parent_is_deleted"
)
class ForkForgetsADeletedParent(BrokenRuns):
    """The header of a fork shows its parent only while the parent is there."""

    async def get_run(self, request: GetRunRequest) -> Any:
        answer = await self.good.get_run(request)
        info: RunInfo | None = answer.info
        if info and info.parent_id:
            parent = await self.good.get_run(GetRunRequest(run_id=info.parent_id))
            if not parent.found:
                return changed(answer, info=changed(info, parent_id=""))
        return answer
