"""Creates and headers: ids claimed twice, labels and times that change on their own."""

import asyncio

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.errors import InvalidRequestError
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    CreateRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    LoadRunRequest,
    LoadRunResponse,
    UpdateRunRequest,
    UpdateRunResponse,
)
from stores_core.values import MAX_LABELS

FOUND = "test_runs.py::test_a_found_create_leaves_the_run_as_it_was"
MERGE = "test_runs.py::test_labels_are_merged_key_by_key"
MOVES = "test_filters.py::test_updated_at_moves_with_appends_and_label_updates_only"


# Creating


@defect("RUN-C2", caught_by="test_runs.py::test_a_given_id_is_claimed_once")
class CreateIsAlwaysToldCreated(BrokenRuns):
    """A create of an id that is taken says that it was created now."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        return changed(await self.good.create_run(request), created=True)


@defect("RUN-C2", caught_by=FOUND)
class FoundCreateChangesLabels(BrokenRuns):
    """A create of an id that is taken gives the run there its labels."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        answer = await self.good.create_run(request)
        if not answer.created and request.labels:
            update = UpdateRunRequest(run_id=request.run_id, labels=request.labels)
            await self.good.update_run(changed(update, at=request.at))
        return answer


@defect("RUN-C2", caught_by="test_runs.py::test_a_found_create_keeps_the_times_of_the_run")
class FoundCreateTouchesTheRun(BrokenRuns):
    """A create of an id that is taken moves updated_at of the run there."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        answer = await self.good.create_run(request)
        for labels in ({"touched": "x"}, {"touched": None}) if not answer.created else ():
            touch = UpdateRunRequest(run_id=request.run_id, labels=labels)
            await self.good.update_run(changed(touch, at=request.at))
        return answer


@defect("RUN-C3", caught_by="test_racing.py::test_of_racing_creates_one_is_told_created")
class CreateLooksFirst(BrokenRuns):
    """A create looks whether the id is free and claims it in a later step."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        before = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        await asyncio.sleep(0)
        answer = await self.good.create_run(request)
        return changed(answer, created=not before.found)


@defect("RUN-C4", "ALL-3", caught_by="test_runs.py::test_a_new_run_is_empty_and_has_its_labels")
class CreateFoldsLabels(BrokenRuns):
    """A create turns the keys of labels to small letters."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        labels = {key.lower(): value for key, value in request.labels.items()}
        return await self.good.create_run(changed(request, labels=labels))


@defect(
    "ALL-4",
    caught_by="test_ownership.py::test_every_time_comes_from_the_one_clock_to_the_microsecond",
)
class CreatedAtIsInSeconds(BrokenRuns):
    """created_at is kept to the second."""

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        return await self.good.create_run(changed(request, at=request.at.replace(microsecond=0)))


# Labels


@defect("RUN-U1", caught_by=MERGE)
class LabelsAreReplaced(BrokenRuns):
    """An update of labels removes those that it does not name."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        others = dict.fromkeys(info.labels if info else ())
        return await self.good.update_run(changed(request, labels={**others, **request.labels}))


@defect("RUN-U1", caught_by=MERGE)
class RemovedLabelsStay(BrokenRuns):
    """A label that is set to None stays as it was."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        given = {key: value for key, value in request.labels.items() if value is not None}
        return await self.good.update_run(changed(request, labels=given))


@defect(
    "RUN-U1",
    caught_by="test_concurrency.py::test_concurrent_updates_of_different_labels_all_survive",
)
class LabelsAreReadAndWrittenBack(BrokenRuns):
    """An update reads the labels, waits, and writes all of them back."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        before = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        await asyncio.sleep(0)
        now = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if before and now:
            come_since = {key: None for key in now.labels if key not in before.labels}
            labels = {**come_since, **before.labels, **request.labels}
            request = changed(request, labels=labels)
        return await self.good.update_run(request)


@defect("RUN-U1", caught_by="test_runs.py::test_an_update_of_an_unknown_run_brings_none_to_life")
class UpdateCreatesTheRun(BrokenRuns):
    """An update of an unknown run creates it."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        new = changed(CreateRunRequest(run_id=request.run_id), at=request.at)
        await self.good.create_run(new)
        return await self.good.update_run(request)


@defect("RUN-U1", "ALL-3", caught_by="test_runs.py::test_a_merge_never_leaves_more_than_64_labels")
class LabelsAboveTheLimitAreDropped(BrokenRuns):
    """A merge that leaves more than 64 labels is cut to 64 in silence."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        try:
            return await self.good.update_run(request)
        except InvalidRequestError:
            info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
            room = MAX_LABELS - len(info.labels if info else ())
            few = dict(list(request.labels.items())[:room])
            return await self.good.update_run(changed(request, labels=few))


# updated_at


@defect("RUN-Q5", caught_by=MOVES)
class LoadTouchesTheRun(BrokenRuns):
    """A load moves updated_at, as if the run were written."""

    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        for labels in ({"touched": "x"}, {"touched": None}) if info else ():
            touch = UpdateRunRequest(run_id=request.run_id, labels=labels)
            moment = info.updated_at.replace(year=info.updated_at.year + 1) if info else None
            await self.good.update_run(changed(touch, at=moment))
        return await self.good.load_run(request)


@defect("RUN-Q5", caught_by=MOVES)
class ForkTouchesItsSource(BrokenRuns):
    """A fork moves updated_at of its source."""

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        for labels in ({"touched": "x"}, {"touched": None}):
            touch = UpdateRunRequest(run_id=request.run_id, labels=labels)
            await self.good.update_run(changed(touch, at=request.at))
        return await self.good.fork_run(request)


@defect("RUN-Q5", caught_by=MOVES)
class AppendLeavesUpdatedAt(BrokenRuns):
    """An append of events does not move updated_at."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        moment = info.updated_at if info else request.at
        return await self.good.append_events(changed(request, at=moment))


@defect("RUN-Q5", caught_by=MOVES)
class ConflictTouchesTheRun(BrokenRuns):
    """An append that ends in a conflict moves updated_at."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        for labels in ({"touched": "x"}, {"touched": None}) if answer.conflict else ():
            touch = UpdateRunRequest(run_id=request.run_id, labels=labels)
            await self.good.update_run(changed(touch, at=request.at))
        return answer


@defect(
    "RUN-U1", caught_by="test_runs.py::test_an_update_of_labels_changes_nothing_else_but_updated_at"
)
class LabelsLeaveUpdatedAt(BrokenRuns):
    """An update of labels does not move updated_at."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        moment = info.updated_at if info else request.at
        return await self.good.update_run(changed(request, at=moment))
