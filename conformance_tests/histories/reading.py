"""From the response of a store to the answer that is recorded."""

from collections.abc import Iterable
from typing import Any

from conformance_tests.histories.recording import LIFE, Answer, Part, Sent
from stores_core import Event, Message, RunInfo


def answer_of(operation: str, sent: Sent, response: Any) -> Answer:
    """What a response said."""
    match operation:
        case "create":
            return Answer(found=True, done=response.created)
        case "append":
            return Answer(
                found=response.found,
                done=response.applied,
                conflict=response.conflict,
                counts=(response.message_count, response.event_count)
                if response.found
                else (None, None),
            )
        case "get":
            return Answer(found=response.found, **_header(response.info))
        case "load":
            run = response.run
            if run is None:
                return Answer(found=response.found)
            return Answer(
                found=response.found,
                messages=_end(run.message_count, run.messages),
                events=_end(run.event_count, run.events),
                **_header(run),
            )
        case "read_messages" | "read_events" if not response.found:
            return Answer(found=False)
        case "read_messages":
            part = _part(sent.start, response.entries)
            return Answer(found=True, counts=(response.count, None), messages=part)
        case "read_events":
            part = _part(sent.start, response.entries)
            return Answer(found=True, counts=(None, response.count), events=part)
        case "fork":
            return Answer(
                found=response.found,
                done=response.created,
                parent_id=response.parent_id,
                fork_point=response.fork_point,
            )
        case "update":
            return Answer(found=response.found)
        case "delete":
            found = response.deleted or response.conflict
            return Answer(found=found, done=response.deleted, conflict=response.conflict)
        case _:
            raise ValueError(operation)


def _header(info: RunInfo | None) -> dict[str, Any]:
    if info is None:
        return {}
    return {
        "counts": (info.message_count, info.event_count),
        "life": info.labels.get(LIFE, ""),
        "labels": {name: int(value) for name, value in info.labels.items() if name != LIFE},
        "parent_id": info.parent_id,
        "fork_point": info.fork_point,
    }


def _end(count: int, entries: Iterable[Message | Event]) -> Part:
    """The newest entries of a log of so many."""
    names = _names(entries)
    return count - len(names), names


def _part(start: int, entries: Iterable[Message | Event]) -> Part:
    return start, _names(entries)


def _names(entries: Iterable[Message | Event]) -> tuple[str, ...]:
    return tuple(entry.text or "" for entry in entries)
