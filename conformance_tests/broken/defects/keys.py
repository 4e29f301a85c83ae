"""Idempotency keys that are forgotten, mixed up or believed too easily."""

import asyncio
import secrets

from conformance_tests.broken.defect import BrokenRuns, changed, defect
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
)


@defect("RUN-A7", caught_by="test_keys.py::test_a_batch_sent_again_is_written_once")
class KeyIsIgnored(BrokenRuns):
    """append_messages never looks at its key."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        return await self.good.append_messages(changed(request, idempotency_key=""))


@defect("RUN-A7", caught_by="test_keys.py::test_events_sent_again_are_written_once")
class KeyOfEventsIsIgnored(BrokenRuns):
    """append_events never looks at its key."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        return await self.good.append_events(changed(request, idempotency_key=""))


@defect("RUN-A7", caught_by="test_keys.py::test_a_key_with_another_batch_is_refused")
class KeyIsBelievedWhateverTheBatch(BrokenRuns):
    """A known key with another batch is answered as a duplicate: no digest is compared."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        first = self.kept.setdefault((request.run_id, request.idempotency_key), request.digest)
        return await self.good.append_messages(changed(request, digest=first))


@defect("RUN-A7", caught_by="test_keys.py::test_a_key_with_another_batch_is_refused")
class DigestLeavesEventsOut(BrokenRuns):
    """Two batches under one key are compared by their messages alone."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.idempotency_key and request.messages:
            texts = tuple(message.text for message in request.messages)
            place = (request.run_id, request.idempotency_key, texts)
            first = self.kept.setdefault(place, request.digest)
            request = changed(request, digest=first)
        return await self.good.append_messages(request)


@defect("RUN-A7", caught_by="test_keys.py::test_another_run_knows_nothing_of_a_key")
class KeysAreOfTheStorage(BrokenRuns):
    """A key is remembered for all runs together, so that another run's batch is swallowed."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        place = (request.idempotency_key, request.digest)
        if request.idempotency_key and place in self.kept and request.messages:
            found = await self.good.get_run(GetRunRequest(run_id=request.run_id))
            if found.found:
                return changed(self.kept[place], applied=False)
        answer = await self.good.append_messages(request)
        if answer.applied:
            self.kept[place] = answer
        return answer


@defect(
    "RUN-A7", caught_by="test_keys.py::test_a_duplicate_answers_with_the_counts_of_the_first_time"
)
class DuplicateTellsTodaysCounts(BrokenRuns):
    """A duplicate answers with the lengths of now, not with those of the first time."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        now = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
        if now and answer.found and not answer.applied and not answer.conflict:
            counts = {"message_count": now.message_count, "event_count": now.event_count}
            answer = changed(answer, **counts)
        return answer


@defect("RUN-A7", caught_by="test_keys.py::test_a_batch_sent_again_is_written_once")
class DuplicateIsToldApplied(BrokenRuns):
    """A duplicate is written once and still answered as applied each time."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        duplicate = answer.found and not answer.conflict and bool(request.messages)
        return changed(answer, applied=answer.applied or duplicate)


@defect("RUN-A7", caught_by="test_keys.py::test_a_duplicate_is_one_whatever_expected_count_says")
class LengthIsComparedBeforeTheKey(BrokenRuns):
    """A batch sent again with the length it expected the first time is a conflict."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        answer = await self.good.append_messages(request)
        duplicate = answer.found and not answer.applied and not answer.conflict
        if duplicate and request.messages and request.expected_count is not None:
            info = (await self.good.get_run(GetRunRequest(run_id=request.run_id))).info
            if info and info.message_count != request.expected_count:
                return changed(answer, conflict=True)
        return answer


@defect("RUN-A7", caught_by="test_keys.py::test_the_two_operations_share_one_space_of_keys")
class EachOperationHasItsKeys(BrokenRuns):
    """A key of append_messages is unknown to append_events."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        if request.idempotency_key:
            request = changed(request, idempotency_key=f"{request.idempotency_key} of events")
        return await self.good.append_events(request)


@defect("RUN-A7", caught_by="test_keys.py::test_the_latest_128_keyed_batches_are_remembered")
class OnlyThirtyTwoKeysAreKept(BrokenRuns):
    """append_messages remembers a run's latest 32 keyed batches and no more."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        key, keys = request.idempotency_key, self.kept.setdefault(request.run_id, [])
        if key and key not in keys[-32:]:
            keys.append(key)
        times_new = f" {keys.count(key)}" if keys.count(key) > 1 else ""
        return await self.good.append_messages(changed(request, idempotency_key=key + times_new))


@defect("RUN-A7", caught_by="test_keys.py::test_a_key_outlives_all_that_is_no_keyed_batch")
class BatchWithoutKeyClearsTheKeys(BrokenRuns):
    """A run remembers the keys since its last batch without one."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        since: int = self.kept.get(request.run_id, 0)
        if request.idempotency_key and since:
            fresh = f"{request.idempotency_key} {since}"
            return await self.good.append_messages(changed(request, idempotency_key=fresh))
        answer = await self.good.append_messages(request)
        if answer.applied and not request.idempotency_key:
            self.kept[request.run_id] = since + 1
        return answer


class Remembers(BrokenRuns):
    """Answers a batch as a duplicate where `kept` says so, before the good store is asked."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        known = self.kept.get((request.run_id, request.idempotency_key))
        found = await self.good.get_run(GetRunRequest(run_id=request.run_id))
        if known and found.found and request.idempotency_key and request.messages:
            return changed(known, found=True, applied=False, conflict=False)
        answer = await self.good.append_messages(request)
        if request.idempotency_key and self.uses_up(request, answer):
            self.kept[request.run_id, request.idempotency_key] = answer
        return answer

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        return False


@defect("RUN-A7", caught_by="test_keys.py::test_a_conflict_uses_no_key_up")
class ConflictUsesItsKeyUp(Remembers):
    """A conflict is remembered under its key, so that the batch can never be sent again."""

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        return answer.conflict


@defect("RUN-A7", caught_by="test_keys.py::test_an_unknown_run_uses_no_key_up")
class UnknownRunUsesTheKeyUp(Remembers):
    """An append to an unknown run is remembered under its key."""

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        return not answer.found


@defect("RUN-A7", "RUN-A8", caught_by="test_keys.py::test_an_empty_batch_uses_no_key_up")
class EmptyBatchUsesItsKeyUp(Remembers):
    """An append of nothing is remembered under its key."""

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        return answer.found and not request.messages and not request.events


@defect("RUN-D3", caught_by="test_deleting.py::test_a_run_created_again_knows_no_old_keys")
class KeysOutliveTheRun(Remembers):
    """The keys of a deleted run are those of the next run of its id."""

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        return answer.applied


@defect(
    "RUN-A7", "RUN-F6", caught_by="test_keys.py::test_a_fork_starts_without_the_keys_of_its_source"
)
class ForkInheritsKeys(Remembers):
    """A fork takes over the keys of its source, so that a batch of its own is swallowed."""

    def uses_up(self, request: AppendMessagesRequest, answer: AppendMessagesResponse) -> bool:
        self.kept["of", request.run_id, request.idempotency_key] = answer
        return False

    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        for place in [p for p in self.kept if p[0] == "of" and p[1] == request.run_id]:
            self.kept[request.new_run_id, place[2]] = self.kept[place]
        return await self.good.fork_run(request)


@defect(
    "RUN-A7", caught_by="test_racing.py::test_one_batch_sent_many_times_at_once_is_written_once"
)
class KeyIsLookedUpFirst(BrokenRuns):
    """A key is looked up, and its batch written in a later step: two at once are both new."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        place = (request.run_id, request.idempotency_key)
        if not request.idempotency_key or place in self.kept:
            return await self.good.append_messages(changed(request, **self.kept.get(place, {})))
        await asyncio.sleep(0)
        own = {"idempotency_key": f"{request.idempotency_key} {secrets.token_hex(8)}"}
        answer = await self.good.append_messages(changed(request, **own))
        if answer.applied:
            self.kept.setdefault(place, own)
        return answer
