"""Appending to a run that may not be there yet."""

import secrets
from collections.abc import Mapping, Sequence

from stores_core.backend import Backend
from stores_core.entries import Event, Message
from stores_core.runs import AppendResponse


async def append_or_create(
    backend: Backend,
    run_id: str,
    *,
    messages: Sequence[Message] = (),
    events: Sequence[Event] = (),
    labels: Mapping[str, str],
) -> AppendResponse:
    """Append one batch, to a run with these labels where there is none.

    A retry below, that did not see the first answer, appends nothing twice.
    """
    key = secrets.token_hex(16)
    while True:
        answer = await backend.runs.append_messages(
            run_id=run_id, messages=messages, events=events, idempotency_key=key
        )
        if answer.found:
            return answer
        await backend.runs.create_run(run_id=run_id, labels=labels)
