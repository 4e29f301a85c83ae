"""Values that come back as something else than they were."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any, TypeVar, cast

from conformance_tests.broken.defect import (
    BrokenMemory,
    BrokenRuns,
    BrokenToolResults,
    changed,
    defect,
)
from stores_core.codec import decode_event, decode_message, decode_tool_result, encode
from stores_core.entries import Event
from stores_core.memory import (
    MemoryItem,
    PutMemoriesRequest,
    PutMemoriesResponse,
    PutMemoryRequest,
    PutMemoryResponse,
)
from stores_core.runs import (
    AppendEventsRequest,
    AppendEventsResponse,
    AppendMessagesRequest,
    AppendMessagesResponse,
)
from stores_core.shape import Value, wire_name
from stores_core.tool_results import PutToolResultRequest, PutToolResultResponse

_METADATA = "test_fidelity.py::test_metadata_comes_back_equal"
_NUMBERS = "test_fidelity.py::test_a_number_keeps_its_type_and_every_bit"
_NOTE_TEXT = "test_fidelity.py::test_text_comes_back_equal_in_notes"
_RESULT_JSON = "test_fidelity.py::test_a_json_value_comes_back_equal_in_tool_results"
_RESULT_TEXT = "test_fidelity.py::test_text_comes_back_equal_in_tool_results"
_RUN_JSON = "test_fidelity.py::test_a_json_value_comes_back_equal_in_runs"
_RUN_TEXT = "test_fidelity.py::test_text_comes_back_equal_in_runs"

V = TypeVar("V", bound=Value)

# Fields of fixed types on the wire: what they hold is not spoiled, for it could not be read again.
_FIXED = {"role", "kind", "toolCallId", "timestamp", "step", "isError", "id", "name", "result"}
_HOLD_FIXED = {"toolCalls", "toolCall", "toolResult", "compaction", "signal"}

_EMPTY_LIST: list[Any] = []
_EMPTY_OBJECT: dict[str, Any] = {}


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with every part of it changed, the innermost first."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return change({key: _each(item, change) for key, item in pairs})
    if isinstance(value, list):
        return change([_each(item, change) for item in cast("list[Any]", value)])
    return change(value)


def _record(record: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The JSON of a message, an event or a result with its free values changed."""
    spoilt: dict[str, Any] = {}
    for name, value in record.items():
        if name in _HOLD_FIXED and isinstance(value, list):
            calls = cast("list[Any]", value)
            value = [_record(one, change) for one in calls]
        elif name == "content" and isinstance(value, list):
            value = [_each(item, change) for item in cast("list[Any]", value)]
        elif name not in _FIXED and name not in _HOLD_FIXED:
            value = _each(value, change)
        spoilt[name] = value
    return spoilt


def _remade(value: V, decode: Callable[[bytes], V], change: Callable[[Any], Any]) -> V:
    text = json.dumps(_record(json.loads(encode(value)), change), ensure_ascii=False)
    return decode(text.encode())


class _Notes(BrokenMemory):
    """Spoils the metadata of notes, and their values where they are text."""

    def change(self, value: Any) -> Any:
        raise NotImplementedError

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        metadata = {key: _each(value, self.change) for key, value in item.metadata.items()}
        return changed(item, metadata=metadata)

    async def put_memory(self, request: PutMemoryRequest) -> PutMemoryResponse:
        return await self.good.put_memory(changed(request, item=self.spoilt(request.item)))

    async def put_memories(self, request: PutMemoriesRequest) -> PutMemoriesResponse:
        items = tuple(self.spoilt(item) for item in request.items)
        return await self.good.put_memories(changed(request, items=items))


class _Results(BrokenToolResults):
    """Spoils the values inside tool results."""

    def change(self, value: Any) -> Any:
        raise NotImplementedError

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        result = _remade(request.result, decode_tool_result, self.change)
        return await self.good.put_tool_result(changed(request, result=result))


class _Entries(BrokenRuns):
    """Spoils the values inside messages and events."""

    def change(self, value: Any) -> Any:
        raise NotImplementedError

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        messages = tuple(_remade(one, decode_message, self.change) for one in request.messages)
        events = tuple(_remade(one, decode_event, self.change) for one in request.events)
        spoilt = changed(request, messages=messages, events=events)
        return await self.good.append_messages(spoilt)

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        events = tuple(_remade(one, decode_event, self.change) for one in request.events)
        return await self.good.append_events(changed(request, events=events))


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType] - any JSON


@defect("ALL-1", caught_by=_METADATA)
class TrueBecomes1InNotes(_Notes):
    """True and false become 1 and 0 in metadata."""

    def change(self, value: Any) -> Any:
        return int(value) if isinstance(value, bool) else value


@defect("ALL-1", caught_by=_RUN_JSON)
class OneBecomesTrueInRuns(_Entries):
    """The integers 1 and 0 become true and false in entries."""

    def change(self, value: Any) -> Any:
        return bool(value) if type(value) is int and value in (0, 1) else value


@defect("ALL-1", caught_by=_RUN_JSON)
class WholeFloatsBecomeIntegersInRuns(_Entries):
    """The float 1.0 becomes the integer 1 in entries."""

    def change(self, value: Any) -> Any:
        whole = isinstance(value, float) and abs(value) < 1e15 and value % 1 == 0
        return int(value) if whole else value


@defect("ALL-1", caught_by=_NUMBERS)
class MinusZeroLosesItsSign(_Notes):
    """The float -0.0 becomes 0.0 in metadata."""

    def change(self, value: Any) -> Any:
        return 0.0 if isinstance(value, float) and not value else value


@defect("ALL-1", caught_by=_RESULT_JSON)
class LargeIntegersBecomeFloats(_Results):
    """Integers beyond 2 ** 53 become floats in tool results, where a float can be that large."""

    def change(self, value: Any) -> Any:
        large = type(value) is int and 2**53 < abs(value) < 2**1000
        return float(value) if large else value


@defect("ALL-1", caught_by=_RUN_JSON)
class IntegersHave64Bits(_Entries):
    """Integers beyond 64 bits become the largest or smallest that fits."""

    def change(self, value: Any) -> Any:
        return max(-(2**63), min(value, 2**64 - 1)) if type(value) is int else value


@defect("ALL-1", caught_by=_NUMBERS)
class FloatsHave15Digits(_Notes):
    """Floats are written with 15 digits in metadata."""

    def change(self, value: Any) -> Any:
        return float(f"{value:.15g}") if isinstance(value, float) and abs(value) < 1e300 else value


@defect("ALL-1", caught_by=_METADATA)
class KeysAreSortedInNotes(_Notes):
    """Keys inside metadata are kept in alphabetical order."""

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        return changed(item, metadata=_each(dict(item.metadata), _sorted))


@defect("ALL-1", caught_by=_RUN_JSON)
class KeysAreSortedInRuns(_Entries):
    """The keys of objects inside entries are kept in alphabetical order."""

    def change(self, value: Any) -> Any:
        return _sorted(value)


@defect("ALL-1", caught_by=_RESULT_JSON)
class EmptyListBecomesAnObject(_Results):
    """An empty list becomes an empty object, as in Lua."""

    def change(self, value: Any) -> Any:
        return _EMPTY_OBJECT if value == _EMPTY_LIST else value


@defect("ALL-1", caught_by=_METADATA)
class EmptyObjectBecomesAList(_Notes):
    """An empty object becomes an empty list, as in PHP."""

    def change(self, value: Any) -> Any:
        return _EMPTY_LIST if value == _EMPTY_OBJECT else value


@defect("ALL-1", caught_by=_METADATA)
class NullsAreDropped(_Notes):
    """A null in an object is left out with its key."""

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        kept = {key: value for key, value in item.metadata.items() if value is not None}
        return changed(item, metadata=kept)


@defect("ALL-1", caught_by=_RUN_TEXT)
class EmptyTextBecomesNull(_Entries):
    """Empty text becomes null, as in some databases."""

    def change(self, value: Any) -> Any:
        return None if value == "" else value


@defect("ALL-1", caught_by=_RUN_TEXT)
class TextIsNormalisedInRuns(_Entries):
    """Text is composed (NFC) on its way in."""

    def change(self, value: Any) -> Any:
        return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


@defect("ALL-1", caught_by=_NOTE_TEXT)
class TextEndsAtNulInNotes(_Notes):
    """A value is cut at its first NUL, as a C string is."""

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        return changed(item, value=item.value.partition("\0")[0])


@defect("ALL-1", caught_by=_NOTE_TEXT)
class TextIsTrimmedInNotes(_Notes):
    """A value loses the spaces around it."""

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        return changed(item, value=item.value.strip())


@defect("ALL-1", caught_by=_RESULT_TEXT)
class LineEndsAreTranslated(_Results):
    """A text goes through a file in text mode, which makes one line end of all."""

    def change(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("\r\n", "\n").replace("\r", "\n")
        return value


@defect("ALL-1", caught_by=_RESULT_TEXT)
class AstralCharactersAreLost(_Results):
    """Characters beyond 16 bits become question marks, as in a column of three bytes."""

    def change(self, value: Any) -> Any:
        if isinstance(value, str):
            return "".join("?" if ord(sign) > 0xFFFF else sign for sign in value)
        return value


@defect("ALL-1", caught_by=_NOTE_TEXT)
class ByteOrderMarkIsDropped(_Notes):
    """A byte order mark at the start of a value is taken for no part of it."""

    def spoilt(self, item: MemoryItem) -> MemoryItem:
        return changed(item, value=item.value.removeprefix("\ufeff"))


@defect("ALL-1", caught_by="test_tool_results.py::test_a_result_comes_back_equal")
class FurtherFieldsOfResultsAreDropped(BrokenToolResults):
    """Fields of a result that are not known are dropped."""

    async def put_tool_result(self, request: PutToolResultRequest) -> PutToolResultResponse:
        known = {"content", "structuredContent", "isError", "_meta"}
        record = json.loads(encode(request.result))
        text = json.dumps({name: record[name] for name in record if name in known})
        result = decode_tool_result(text.encode())
        return await self.good.put_tool_result(changed(request, result=result))


@defect("ALL-1", caught_by="test_fidelity.py::test_what_was_given_is_told_from_what_was_not")
class DefaultsAreLeftOut(BrokenRuns):
    """A field of a message that was given as its default is left out."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        defaults: dict[str, Any] = {"text": "", "toolCalls": [], "toolCallId": ""}
        records = [json.loads(encode(message)) for message in request.messages]
        left = [
            {name: one[name] for name in one if defaults.get(name, ...) != one[name]}
            for one in records
        ]
        messages = tuple(decode_message(json.dumps(one).encode()) for one in left)
        return await self.good.append_messages(changed(request, messages=messages))


@defect("ALL-1", caught_by="test_fidelity.py::test_an_event_comes_back_equal")
class FurtherFieldsOfEventsAreDropped(BrokenRuns):
    """Fields of an event that are not known are dropped."""

    async def append_events(self, request: AppendEventsRequest) -> AppendEventsResponse:
        known = {wire_name(name) for name in Event.model_fields}
        records = [json.loads(encode(event)) for event in request.events]
        left = [{name: one[name] for name in one if name in known} for one in records]
        events = tuple(decode_event(json.dumps(one).encode()) for one in left)
        return await self.good.append_events(changed(request, events=events))


@defect("ALL-1", caught_by="test_fidelity.py::test_a_field_in_the_other_spelling_is_kept_apart")
class SpellingsAreTakenForOne(BrokenRuns):
    """A further field that is spelled toolCallId is taken for tool_call_id."""

    async def append_messages(self, request: AppendMessagesRequest) -> AppendMessagesResponse:
        records = [json.loads(encode(message)) for message in request.messages]
        for one in records:
            if isinstance(one.get("tool_call_id"), str):
                one["toolCallId"] = one.pop("tool_call_id")
        messages = tuple(decode_message(json.dumps(one).encode()) for one in records)
        return await self.good.append_messages(changed(request, messages=messages))
