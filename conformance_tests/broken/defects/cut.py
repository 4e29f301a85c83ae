"""What only shows when the connection to a server is cut (tier C)."""

from conformance_tests.broken.defect import BrokenMemory, BrokenRuns, defect
from stores_core.errors import OutcomeUnknownError, StoreUnavailableError
from stores_core.memory import PutMemoryRequest, PutMemoryResponse
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    UpdateRunRequest,
    UpdateRunResponse,
)

CUT = "test_cut.py::test_cut_at_a_byte_of_a_reply_it_is_told_what_is_true"


@defect("ALL-8", "RUN-A7", caught_by=CUT)
class LostAppendsAreSentAgain(BrokenRuns):
    """What got no answer is sent again by itself, without a key, and so is there twice."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        try:
            return await self.good.append_events(request)
        except (OutcomeUnknownError, OSError):
            return await self.good.append_events(request)


@defect("ALL-8", caught_by=CUT)
class LostAnswersAreFailures(BrokenRuns):
    """A lost connection is told as "nothing was applied", whatever was."""

    async def update_run(self, request: UpdateRunRequest) -> UpdateRunResponse:
        try:
            return await self.good.update_run(request)
        except OutcomeUnknownError as error:
            raise StoreUnavailableError("the connection was lost") from error


@defect("ALL-8", caught_by=CUT)
class LostAnswersAreSuccesses(BrokenMemory):
    """A lost connection is told as "done", though the request may never have arrived."""

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        try:
            return await self.good.put_memory(request)
        except (OutcomeUnknownError, StoreUnavailableError):
            return PutMemoryResponse(version=1)
