"""What a caller learns of a write whose outcome nobody knows."""

import pytest

from stores_core import Backend, OutcomeUnknownError
from stores_core.in_memory.runs import InMemoryRunStore
from stores_core.in_memory.storage import Tenant
from stores_core.runs import CreateRunRequest, CreateRunResponse


class Losing(InMemoryRunStore):
    """Loses every reply to a create, and says so with or without what to send again."""

    def __init__(self, told: dict[str, str]) -> None:
        super().__init__(Tenant())
        self._told = told

    async def create_run(self, request: CreateRunRequest) -> CreateRunResponse:
        raise OutcomeUnknownError("the reply was lost", retry_with=self._told)


@pytest.mark.parametrize(
    ("told", "known"), [({}, {"run_id": "r"}), ({"run_id": "told"}, {"run_id": "told"})]
)
async def test_an_unknown_outcome_names_what_to_send_again(
    told: dict[str, str], known: dict[str, str]
) -> None:
    backend = Backend(name="losing", runs=Losing(told))
    with pytest.raises(OutcomeUnknownError) as caught:
        await backend.runs.create_run(run_id="r")
    assert caught.value.retry_with == known
