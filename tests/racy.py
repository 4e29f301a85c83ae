"""Run stores that are right one call at a time and wrong when calls overlap, one mistake each."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from stores_core import (
    AppendMessagesRequest,
    AppendMessagesResponse,
    CreateRunRequest,
    CreateRunResponse,
    DeleteRunRequest,
    DeleteRunResponse,
    ForkRunRequest,
    ForkRunResponse,
    GetRunRequest,
    GetRunResponse,
    LoadRunRequest,
    LoadRunResponse,
    OutcomeUnknownError,
    ReadMessagesRequest,
    ReadMessagesResponse,
    StoreUnavailableError,
)


class Around:
    """Passes every operation on to a good store."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


async def others() -> None:
    """Let the others go first."""
    await asyncio.sleep(0)


class LengthLookedUpBefore(Around):
    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        if request.expected_count is None:
            return await self.store.append_messages(request)
        found = await self.store.get_run(GetRunRequest(run_id=request.run_id))
        await others()
        if found.info is not None and found.info.message_count == request.expected_count:
            request = request.model_copy(update={"expected_count": None})
        return await self.store.append_messages(request)


class KeyRememberedAfter(Around):
    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.keys: dict[tuple[str, str], AppendMessagesResponse] = {}

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        key = request.run_id, request.idempotency_key
        if key in self.keys:
            return self.keys[key].model_copy(update={"applied": False})
        await others()
        bare = request.model_copy(update={"idempotency_key": ""})
        answer = await self.store.append_messages(bare)
        if request.idempotency_key and answer.applied:
            self.keys[key] = answer
        return answer


class ForkInTwoSteps(Around):
    async def fork_run(self, request: ForkRunRequest) -> ForkRunResponse:
        if request.at_message > 0:
            return await self.store.fork_run(request)
        found = await self.store.get_run(GetRunRequest(run_id=request.run_id))
        await others()
        count = found.info.message_count if found.info else 0
        return await self.store.fork_run(request.model_copy(update={"at_message": count}))


class BatchInTwoSteps(Around):
    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        first = request.model_copy(update={"messages": request.messages[:1], "events": ()})
        rest = request.model_copy(
            update={"messages": request.messages[1:], "expected_count": None, "idempotency_key": ""}
        )
        answer = await self.store.append_messages(first)
        if not answer.applied or not (rest.messages or rest.events):
            return answer
        await others()
        second = await self.store.append_messages(rest)
        return second.model_copy(update={"applied": True, "found": True})


class LoadInTwoSteps(Around):
    async def load_run(self, request: LoadRunRequest) -> LoadRunResponse:
        earlier = await self.store.load_run(request)
        await others()
        later = await self.store.load_run(request)
        if earlier.run is None or later.run is None:
            return earlier
        run = earlier.run.model_copy(
            update={"events": later.run.events, "event_count": later.run.event_count}
        )
        return earlier.model_copy(update={"run": run})


class HeaderFromACache(Around):
    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.cache: dict[str, GetRunResponse] = {}
        self.random = Random(1)

    async def get_run(self, request: GetRunRequest) -> GetRunResponse:
        cached = self.cache.get(request.run_id)
        if cached is None or self.random.random() < 0.5:
            cached = self.cache[request.run_id] = await self.store.get_run(request)
        return cached


class TailFromALaggingCopy(Around):
    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.behind: dict[str, ReadMessagesResponse] = {}

    async def read_messages(self, request: ReadMessagesRequest) -> ReadMessagesResponse:
        answer = await self.store.read_messages(request)
        before = self.behind.get(request.run_id)
        self.behind[request.run_id] = answer
        if before is None or not before.found or before.count < request.start:
            return answer
        count = before.count
        entries = answer.entries[: count - request.start]
        following = request.start + len(entries)
        return answer.model_copy(update={"entries": entries, "count": count, "next": following})


class CreateLooksBefore(Around):
    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        found = await self.store.get_run(GetRunRequest(run_id=request.run_id))
        await others()
        answer = await self.store.create_run(request)
        return answer.model_copy(update={"created": not found.found})


class DeleteLooksBefore(Around):
    async def delete_run(self, request: DeleteRunRequest) -> DeleteRunResponse:
        found = await self.store.get_run(GetRunRequest(run_id=request.run_id))
        await others()
        answer = await self.store.delete_run(request)
        return answer.model_copy(update={"deleted": found.found and not answer.conflict})


class AcknowledgedBefore(Around):
    """Answers an append before it is done."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.later: list[asyncio.Task[Any]] = []

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        found = await self.store.get_run(GetRunRequest(run_id=request.run_id))
        if found.info is None or request.expected_count is not None or request.idempotency_key:
            return await self.store.append_messages(request)
        self.later.append(asyncio.ensure_future(self._append(request)))
        return AppendMessagesResponse(
            found=True,
            applied=True,
            message_count=found.info.message_count + len(request.messages),
            event_count=found.info.event_count + len(request.events),
        )

    async def _append(self, request: AppendMessagesRequest) -> None:
        await others()
        await self.store.append_messages(request)


RACY: dict[Callable[[Any], Around], set[str]] = {
    LengthLookedUpBefore: {"conflict"},
    KeyRememberedAfter: {"twice"},
    ForkInTwoSteps: {"torn", "stale"},
    BatchInTwoSteps: {"torn", "place", "no prefix"},
    LoadInTwoSteps: {"torn"},
    HeaderFromACache: {"stale"},
    TailFromALaggingCopy: {"stale"},
    CreateLooksBefore: {"life"},
    DeleteLooksBefore: {"life"},
    AcknowledgedBefore: {"stale", "no prefix", "place", "lost"},
}
"""Each racy store, and the kinds of fault of which at least one is to be seen."""


class Slow(Around):
    """A good store whose calls overlap, by turns given to others before the moment and after it."""

    def __init__(self, store: Any, seed: int = 0) -> None:
        super().__init__(store)
        self.random = Random(seed)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)

        async def call(request: Any) -> Any:
            for _ in range(self.random.randrange(4)):
                await others()
            answer = await self.done(operation, request)
            for _ in range(self.random.randrange(4)):
                await others()
            return answer

        return call

    async def done(self, operation: Any, request: Any) -> Any:
        return await operation(request)


class Unsure(Slow):
    """As slow, and every tenth call fails: before its moment, or after it, of unknown outcome."""

    async def done(self, operation: Any, request: Any) -> Any:
        luck = self.random.random()
        if luck < 0.03:
            raise StoreUnavailableError
        if luck < 0.06:
            raise OutcomeUnknownError
        answer = await operation(request)
        if luck < 0.1:
            raise OutcomeUnknownError
        return answer
