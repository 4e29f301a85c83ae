"""Operations that are cancelled at each of their awaits: before or after, never between."""

import pytest

from conformance_tests.faults.acting import OPERATIONS
from conformance_tests.faults.cancelling import cancel_everywhere
from conformance_tests.lab import Lab
from conformance_tests.proves import proves

AMID = "faults"


@pytest.mark.parametrize("name", OPERATIONS)
@proves(
    "ALL-9",
    within=120,
    look_at="what an operation still holds, or has done by halves, at an await",
)
async def test_cancelled_at_any_await_it_has_happened_or_has_not(lab: Lab, name: str) -> None:
    operation = OPERATIONS[name]
    if operation.store not in lab.backend.offered:
        lab.not_applicable(f"the backend has no store `{operation.store}`")
    client = await lab.open()
    looks = client if lab.reader is lab.backend else lab.reader
    cancelled = await cancel_everywhere(operation, client, looks, lambda: lab.new_id("it") + " ")
    if not cancelled:
        lab.not_applicable("the operation awaits nothing, so that nothing can come between")
