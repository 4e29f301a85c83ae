"""Where on the line of its life each call can have been, by what it was told."""

from collections.abc import Iterator

from conformance_tests.histories.logs import HistoryFaultError, Line
from conformance_tests.histories.placing import Story, may_apply
from conformance_tests.histories.recording import Outcome, Record
from conformance_tests.histories.sweeping import END, Claim


def claims(story: Story, line: Line) -> Iterator[Claim]:
    """The claims of all calls of a life. Raises HistoryFaultError for an answer that lies."""
    applied = {call.sent.batch for call in story.sends if call.answer and call.answer.done}
    unsure: dict[str, Record] = {}
    for call in sorted(story.life.calls, key=lambda call: call.called):
        answer = call.answer
        match call.operation:
            case "append" if answer is None:
                # Of several sends of one batch the first can have applied it, if none says it did.
                if call.sent.batch not in applied and may_apply(call):
                    unsure.setdefault(call.sent.batch, call)
            case "append":
                yield from _of_append(call)
            case "delete":
                yield from _of_delete(call, story)
            case "read_messages" | "read_events":
                yield from _of_page(call, line)
            case _ if answer is not None and None not in answer.counts:
                place = _sum(answer.counts)
                yield Claim(call, [(place, place)])
            case _:
                pass
    for batch, call in unsure.items():
        yield from _of_unsure(batch, call, story, line)


def _of_unsure(batch: str, call: Record, story: Story, line: Line) -> Iterator[Claim]:
    """A batch of unknown outcome that is there came after all that was known when it was sent."""
    placed = story.placed.get(batch)
    if placed is None:
        return
    if placed.before is not None:
        yield Claim(call, [(0, sum(placed.before))])
    elif placed.messages is not None:
        yield Claim(call, [(0, line.with_messages(placed.messages[0])[1])])
    elif placed.events is not None:
        yield Claim(call, [(0, line.with_events(placed.events[0])[1])])


def _of_append(call: Record) -> Iterator[Claim]:
    answer, sent = call.answer, call.sent
    if answer is None or not answer.found:
        return
    messages, events = answer.counts
    wanted_messages, wanted_events = sent.expected
    place = _sum(answer.counts)
    if answer.conflict:
        if wanted_messages in (None, messages) and wanted_events in (None, events):
            raise HistoryFaultError("conflict", "the lengths were those expected", call)
        yield Claim(call, [(place, place)])
    elif answer.done:
        before = (messages or 0) - sent.messages, (events or 0) - sent.events
        if wanted_messages not in (None, before[0]) or wanted_events not in (None, before[1]):
            raise HistoryFaultError("conflict", "the lengths were not those expected", call)
        yield Claim(call, [(sum(before), sum(before))], gives=place)
    elif not sent.key:
        raise HistoryFaultError("duplicate", "a batch without a key was said to be one", call)
    else:
        yield Claim(call, [(place, END)])


def _of_delete(call: Record, story: Story) -> Iterator[Claim]:
    answer, (messages, events) = call.answer, call.sent.expected
    if answer is None or not answer.found:
        return
    at = (messages or 0) + (events or 0)
    if answer.done and messages is None:
        yield Claim(call, [(0, END)], gives=END)
    elif answer.done:
        beyond = max(story.states, key=sum, default=(0, 0))
        if sum(beyond) > at:
            told = story.states[beyond]
            raise HistoryFaultError("conflict", "it took along what came since", call, told)
        yield Claim(call, [(at, at)], gives=END)
    elif (messages or 0, events or 0) in story.states:
        yield Claim(call, [(0, at - 1), (at + 1, END)])


def _of_page(call: Record, line: Line) -> Iterator[Claim]:
    of_messages = call.operation == "read_messages"
    spread = line.with_messages if of_messages else line.with_events
    if call.answer is not None:
        count = call.answer.counts[0 if of_messages else 1]
        if count is not None:
            yield Claim(call, [spread(count)])
    elif call.outcome is Outcome.REFUSED:  # it started beyond the end
        yield Claim(call, [(0, spread(call.sent.start - 1)[1])])


def _sum(counts: tuple[int | None, int | None]) -> int:
    return (counts[0] or 0) + (counts[1] or 0)
