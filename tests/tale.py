"""Histories made by hand: each function makes the record of one call, from and to when."""

from collections.abc import Sequence
from typing import Any

from conformance_tests.histories.recording import FOREVER, LAST_LOOK, Answer, Outcome, Record, Sent

Span = tuple[int, int]
Lengths = tuple[int, int]


def call(
    operation: str,
    span: Span,
    run: str,
    sent: Sent,
    answer: Answer | None = None,
    outcome: Outcome = Outcome.OK,
    worker: str = "w",
) -> Record:
    """One call; one without an answer has an outcome that says why."""
    unknown = outcome is Outcome.UNKNOWN
    return Record(
        worker=worker,
        operation=operation,
        run_id=run,
        called=span[0],
        returned=FOREVER if unknown else span[1],
        outcome=outcome,
        sent=sent,
        answer=answer,
    )


def create(
    span: Span, life: str = "L", run: str = "r", *, done: bool = True, outcome: Outcome = Outcome.OK
) -> Record:
    answer = Answer(found=True, done=done) if outcome is Outcome.OK else None
    return call("create", span, run, Sent(life=life), answer, outcome)


def append(
    span: Span,
    batch: str,
    to: Lengths | None = None,
    size: Lengths = (1, 0),
    run: str = "r",
    outcome: Outcome = Outcome.OK,
    expected: tuple[int | None, int | None] = (None, None),
    key: str = "",
    **said: Any,
) -> Record:
    """A batch that was applied, and led to these lengths, unless something else is said."""
    sent = Sent(batch=batch, messages=size[0], events=size[1], expected=expected, key=key)
    answer = None
    if outcome is Outcome.OK:
        fields: dict[str, Any] = {"found": True, "done": True, "counts": to or (None, None)}
        answer = Answer(**fields | said)
    return call("append", span, run, sent, answer, outcome)


def load(
    span: Span,
    messages: Sequence[str],
    events: Sequence[str] = (),
    life: str = "L",
    run: str = "r",
    newest: int | None = None,
    **header: Any,
) -> Record:
    """A look at the whole run, or at its newest messages alone. Names stand for whole entries."""
    said, heard = tuple(messages), tuple(events)
    counts = len(said), len(heard)
    start = 0 if newest is None else len(said) - newest
    fields: dict[str, Any] = {"life": life, "counts": counts, **header}
    answer = Answer(
        found=True,
        messages=(start, said[start:]),
        events=(0 if newest is None else len(heard), heard if newest is None else ()),
        **fields,
    )
    return call("load", span, run, Sent(), answer, worker=LAST_LOOK)


def get(span: Span, counts: Lengths, life: str = "L", run: str = "r", **header: Any) -> Record:
    answer = Answer(found=True, counts=counts, life=life, **header)
    return call("get", span, run, Sent(), answer)


def tail(
    span: Span, start: int, entries: Sequence[str], count: int, run: str = "r", limit: int = 7
) -> Record:
    """A page of messages."""
    answer = Answer(found=True, counts=(count, None), messages=(start, tuple(entries)))
    return call("read_messages", span, run, Sent(start=start, limit=limit), answer)


def tail_events(span: Span, start: int, entries: Sequence[str], count: int) -> Record:
    answer = Answer(found=True, counts=(None, count), events=(start, tuple(entries)))
    return call("read_events", span, "r", Sent(start=start, limit=7), answer)


def gone(span: Span, operation: str = "get", run: str = "r") -> Record:
    return call(operation, span, run, Sent(batch="gone"), Answer(found=False))


def fork(
    span: Span,
    point: int = 0,
    at: int = 0,
    life: str = "F",
    new: str = "f",
    run: str = "r",
    outcome: Outcome = Outcome.OK,
    **said: Any,
) -> Record:
    """A fork that was made and took so many messages, unless something else is said."""
    sent = Sent(life=life, new_run_id=new, at_message=at)
    fields: dict[str, Any] = {"found": True, "done": True, "parent_id": run, "fork_point": point}
    answer = Answer(**fields | said) if outcome is Outcome.OK else None
    return call("fork", span, run, sent, answer, outcome)


def delete(
    span: Span,
    run: str = "r",
    outcome: Outcome = Outcome.OK,
    expected: tuple[int | None, int | None] = (None, None),
    **said: Any,
) -> Record:
    fields: dict[str, Any] = {"found": True, "done": True}
    answer = Answer(**fields | said) if outcome is Outcome.OK else None
    return call("delete", span, run, Sent(expected=expected), answer, outcome)


def update(span: Span, label: str, value: int, run: str = "r") -> Record:
    return call("update", span, run, Sent(label=label, value=value), Answer(found=True))
