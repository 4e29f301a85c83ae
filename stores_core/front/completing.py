"""Completing a request: the checks that need more than types, defaults, stamps, digests."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from stores_core.admin import ListTenantsRequest
from stores_core.codec import encode_checked, encode_metadata
from stores_core.entries import Message
from stores_core.errors import InvalidRequestError, RecordTooLargeError
from stores_core.front.opened import Opened
from stores_core.limits import (
    CEILINGS,
    LIST_LIMIT,
    PAGE_ENTRIES,
    QUERY_BYTES,
    READ_LIMIT,
    SEARCH_LIMIT,
    SLICE_CHARACTERS,
    SLICE_LIMIT,
)
from stores_core.memory import (
    ListMemoriesRequest,
    ListNamespacesRequest,
    MemoryItem,
    PutMemoriesRequest,
    PutMemoryRequest,
)
from stores_core.moving import (
    ExportEntriesRequest,
    ExportMemoriesRequest,
    ExportRunsRequest,
    ExportToolResultsRequest,
    ImportEntriesRequest,
    ImportMemoriesRequest,
    ImportRunRequest,
    ImportToolResultsRequest,
)
from stores_core.runs import (
    AppendEventsRequest,
    AppendMessagesRequest,
    CreateRunRequest,
    ForkRunRequest,
    ListRunsRequest,
    ReadEventsRequest,
    ReadMessagesRequest,
)
from stores_core.shape import Request, Value, WriteRequest, path_of, refusal, replaced
from stores_core.tool_results import (
    ListToolResultsRequest,
    PutToolResultRequest,
    ReadToolResultRequest,
    SearchToolResultRequest,
)
from stores_core.values import new_id, utc

R = TypeVar("R", bound=Request)
V = TypeVar("V", bound=Value)


def complete(opened: Opened, request: R) -> R:
    """The request as a backend receives it. Raises InvalidRequestError."""
    rule = _RULES.get(type(request))
    changes = rule(opened, request) if rule else {}
    if isinstance(request, WriteRequest):
        changes.setdefault("at", opened.clock())
        changes["at"] = utc(changes["at"])
    return replaced(request, changes) if changes else request


def _create_run(opened: Opened, request: CreateRunRequest) -> dict[str, Any]:
    now = opened.clock()
    return {"at": now, "run_id": request.run_id or new_id(now)}


def _fork_run(opened: Opened, request: ForkRunRequest) -> dict[str, Any]:
    now = opened.clock()
    return {
        "at": now,
        "new_run_id": request.new_run_id or opened.new_fork_id(request.run_id, now),
        "at_message": max(0, request.at_message),
    }


def _append_messages(opened: Opened, request: AppendMessagesRequest) -> dict[str, Any]:
    now = utc(opened.clock())
    _check_batch(opened, "messages", len(request.messages) + len(request.events))
    bare = map(_without_null_stamp, request.messages)
    messages, size = _encoded(opened, "messages", bare, of="messages")
    events, _ = _encoded(opened, "events", request.events, of="messages", size=size)
    texts = [text for _, text in messages], [text for _, text in events]
    tail = b',"timestamp":' + to_json(now) + b"}"
    return {
        "at": now,
        "messages": tuple(_stamped(message, text, now, tail) for message, text in messages),
        "events": tuple(replaced(event, {}, text) for event, text in events),
        "digest": _digest(*texts) if request.idempotency_key else "",
    }


def _append_events(opened: Opened, request: AppendEventsRequest) -> dict[str, Any]:
    _check_batch(opened, "events", len(request.events))
    events, _ = _encoded(opened, "events", request.events, of="events")
    texts = [text for _, text in events]
    return {
        "events": tuple(replaced(event, {}, text) for event, text in events),
        "digest": _digest([], texts) if request.idempotency_key else "",
    }


def _encoded(
    opened: Opened, field: str, values: Iterable[V], *, of: str, size: int = 0
) -> tuple[list[tuple[V, bytes]], int]:
    """The values with their texts, and the size of the batch ``of`` these, which had ``size``.

    A batch that is too large is refused as soon as it is, not when all of it has been encoded.
    """
    most = opened.limits.max_entry_bytes
    encoded: list[tuple[V, bytes]] = []
    for index, value in enumerate(values):
        value, text = encode_checked(value, (field, index))
        if len(text) > most:
            raise _too_large(f"{field}[{index}]", len(text), most, "max_entry_bytes")
        size += len(text)
        _check_batch_bytes(opened, of, size)
        encoded.append((value, text))
    return encoded, size


def _without_null_stamp(message: Message) -> Message:
    # A timestamp of None asks for a stamp, as one left out does, and is the same batch on a retry.
    if message.__dict__.get("timestamp") is None and "timestamp" in message.model_fields_set:
        message = replaced(message, {})
        message.model_fields_set.discard("timestamp")
    return message


def _stamped(message: Message, text: bytes, now: object, tail: bytes) -> Message:
    if message.timestamp is not None:
        return replaced(message, {}, text)
    return replaced(message, {"timestamp": now}, text[:-1] + tail)


def _digest(messages: list[bytes], events: list[bytes]) -> str:
    """What identifies a batch as the caller sent it: BLAKE2b over the framed texts, 128 bits."""
    digest = hashlib.blake2b(f"{len(messages)} {len(events)}".encode(), digest_size=16)
    for text in (*messages, *events):
        digest.update(len(text).to_bytes(8))
        digest.update(text)
    return digest.hexdigest()


def _list(opened: Opened, request: Any) -> dict[str, Any]:
    return {"limit": min(request.limit or LIST_LIMIT, PAGE_ENTRIES)}


def _list_runs(opened: Opened, request: ListRunsRequest) -> dict[str, Any]:
    before = request.updated_before
    return _list(opened, request) | {"updated_before": None if before is None else utc(before)}


def _read(opened: Opened, request: Any) -> dict[str, Any]:
    return {"limit": min(request.limit or READ_LIMIT, PAGE_ENTRIES)}


def _put_memory(opened: Opened, request: PutMemoryRequest) -> dict[str, Any]:
    now = utc(opened.clock())
    return {"at": now, "item": _note(opened, request.item, now, ("item",))[0]}


def _put_memories(opened: Opened, request: PutMemoriesRequest) -> dict[str, Any]:
    now, total = utc(opened.clock()), 0
    _check_batch(opened, "items", len(request.items))
    places: dict[str, int] = {}
    items: list[MemoryItem] = []
    for index, item in enumerate(request.items):
        first = places.setdefault(item.key, index)
        if first != index:
            raise InvalidRequestError(
                field=f"items[{index}].key",
                found=f"the key of items[{first}] again",
                allowed="each key once in a batch",
            )
        note, size = _note(opened, item, now, ("items", index))
        items.append(note)
        total += size
        _check_batch_bytes(opened, "items", total)
    return {"at": now, "items": tuple(items)}


def _note(
    opened: Opened, item: MemoryItem, now: Any, path: tuple[object, ...]
) -> tuple[MemoryItem, int]:
    try:
        item = MemoryItem(**item.__dict__)  # checked again: it may be a copy that was changed
    except ValidationError as error:
        raise refusal(error, MemoryItem, path) from None
    metadata = encode_metadata(item.metadata, (*path, "metadata"))
    size = len(metadata) + len(to_json(item.value)) + len(to_json(item.key))
    if size > opened.limits.max_entry_bytes:
        raise _too_large(path_of(path), size, opened.limits.max_entry_bytes, "max_entry_bytes")
    created = now if item.created_at is None else utc(item.created_at)
    return replaced(item, {"created_at": created, "metadata": from_json(metadata)}), size


def _list_memories(opened: Opened, request: ListMemoriesRequest) -> dict[str, Any]:
    _check_query("query", request.query)
    if request.query:
        if request.cursor:
            raise InvalidRequestError(
                field="cursor",
                found="a cursor with a query",
                allowed="a cursor with an empty query, or a query with a limit",
            )
        return {}
    return {"limit": min(request.limit, PAGE_ENTRIES)}


def _put_tool_result(opened: Opened, request: PutToolResultRequest) -> dict[str, Any]:
    now, most = opened.clock(), opened.limits.max_entry_bytes
    result, text = encode_checked(request.result, ("result",))
    if len(text) > most:
        raise _too_large("result", len(text), most, "max_entry_bytes")
    return {
        "at": now,
        "ref": request.ref or new_id(now),
        "result": replaced(result, {}, text),
    }


def _read_tool_result(opened: Opened, request: ReadToolResultRequest) -> dict[str, Any]:
    return {"limit": min(request.limit or SLICE_LIMIT, SLICE_CHARACTERS)}


def _search_tool_result(opened: Opened, request: SearchToolResultRequest) -> dict[str, Any]:
    _check_query("pattern", request.pattern)
    return {"limit": min(request.limit or SEARCH_LIMIT, PAGE_ENTRIES)}


def _import_entries(opened: Opened, request: ImportEntriesRequest) -> dict[str, Any]:
    for index, text in enumerate(request.entries):
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise InvalidRequestError(
                field=f"entries[{index}]", found="no JSON object", allowed="an exported entry"
            )
    return {}


def _import_run(opened: Opened, request: ImportRunRequest) -> dict[str, Any]:
    info, run = request.run.info, request.run
    counts = {"messages": info.message_count, "events": info.event_count}
    for field, count in counts.items():
        ranges = run.messages if field == "messages" else run.events
        total = sum(part.length for part in ranges)
        if total != count:
            raise InvalidRequestError(
                field=f"run.{field}",
                found=f"ranges of {total} entries",
                allowed=f"{count}, as in info",
            )
    return {}


def _import_tool_results(opened: Opened, request: ImportToolResultsRequest) -> dict[str, Any]:
    results: list[object] = []
    for index, record in enumerate(request.results):
        result, text = encode_checked(record.result, ("results", index, "result"))
        results.append(replaced(record, {"result": replaced(result, {}, text)}))
    return {"results": tuple(results)}


def _import_memories(opened: Opened, request: ImportMemoriesRequest) -> dict[str, Any]:
    width = 4 * request.embedder.dimensions if request.embedder else -1
    for index, record in enumerate(request.memories):
        encode_metadata(record.item.metadata, ("memories", index, "item", "metadata"))
        if record.vector is not None and len(record.vector) != width:
            raise InvalidRequestError(
                field=f"memories[{index}].vector",
                found=f"{len(record.vector)} bytes",
                allowed="four bytes for each dimension of the embedder",
            )
    return {}


def _check_batch(opened: Opened, field: str, count: int) -> None:
    most = opened.limits.max_batch_entries
    if count > most:
        raise RecordTooLargeError(
            field=field,
            found=f"{count} entries",
            allowed=f"{most} in one batch; max_batch_entries raises it up to 10,000",
        )


def _check_batch_bytes(opened: Opened, field: str, size: int) -> None:
    most = opened.limits.max_batch_bytes
    if size > most:
        raise _too_large(field, size, most, "max_batch_bytes", " or more")


def _check_query(field: str, text: str) -> None:
    size = len(text.encode())
    if size > QUERY_BYTES:
        raise RecordTooLargeError(
            field=field, found=f"{size} bytes", allowed=f"{QUERY_BYTES} bytes; no option raises it"
        )


def _too_large(
    field: str, size: int, most: int, option: str, more: str = ""
) -> RecordTooLargeError:
    return RecordTooLargeError(
        field=field,
        found=f"{size} bytes of JSON{more}",
        allowed=f"{most}; the option {option} raises it up to {CEILINGS[option]}",
    )


_Rule = Callable[[Opened, Any], dict[str, Any]]
_RULES = cast(
    "dict[type[Request], _Rule]",
    {
        CreateRunRequest: _create_run,
        ForkRunRequest: _fork_run,
        AppendMessagesRequest: _append_messages,
        AppendEventsRequest: _append_events,
        ReadMessagesRequest: _read,
        ReadEventsRequest: _read,
        ListRunsRequest: _list_runs,
        PutMemoryRequest: _put_memory,
        PutMemoriesRequest: _put_memories,
        ListMemoriesRequest: _list_memories,
        ListNamespacesRequest: _list,
        PutToolResultRequest: _put_tool_result,
        ReadToolResultRequest: _read_tool_result,
        SearchToolResultRequest: _search_tool_result,
        ListToolResultsRequest: _list,
        ListTenantsRequest: _list,
        ExportRunsRequest: _list,
        ExportEntriesRequest: _read,
        ExportMemoriesRequest: _list,
        ExportToolResultsRequest: _list,
        ImportEntriesRequest: _import_entries,
        ImportRunRequest: _import_run,
        ImportMemoriesRequest: _import_memories,
        ImportToolResultsRequest: _import_tool_results,
    },
)
