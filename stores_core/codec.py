"""Models to JSON text and back: the only place that serialises.

At rest and on the wire names are camelCase, in Python snake_case. A known field that was not
given is left out; whatever was given is written, null included. An unknown field that bears the
other spelling of a known field's name changes places with it: Python's further field
``toolCallId`` is ``tool_call_id`` on the wire and comes back under its own name.

Texts that the codec writes are canonical: two values are equal, in type too, when their texts are.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import GenericAlias
from typing import Any, Generic, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from stores_core.entries import Compaction, Event, Message, Signal, ToolCall, TurnResult
from stores_core.errors import CorruptRecordError, InvalidRequestError
from stores_core.shape import Shape, Value, kept_text, path_of, replaced, wire_name
from stores_core.tool_results import ToolResult
from stores_core.values import check_json, find_surrogate, is_finite, utc

V = TypeVar("V", bound=Value)
Path = tuple[object, ...]

_MODELS: tuple[type[Value], ...] = (
    Message, Event, ToolCall, ToolResult, TurnResult, Compaction, Signal
)  # fmt: skip

# Texts are parsed some at a time: each larger buffer would be fresh pages from the system, whose
# first touch costs more than the parsing.
_PART_BYTES = 64 * 1024

_PLAIN, _JSON, _TIME, _MODEL, _MODELS_OF, _ITEMS = range(6)
_AS_IT_IS, _RENAME, _TO_UTC = 0, 1, 2


def encode(value: Value) -> bytes:
    """The JSON text of a value, UTF-8. Values in a request from the front carry theirs already."""
    ready = kept_text(value)
    return _encoded(value, _renames(value)) if ready is None else ready


def encode_checked(value: V, path: Path = ()) -> tuple[V, bytes]:
    """``value`` with its times in UTC, and its text.

    Raises InvalidRequestError, naming the path, for what could not come back equal.
    """
    needs = _check(value, path)
    if needs & _TO_UTC:
        value = _in_utc(value)
    try:
        return value, _encoded(value, needs)
    except (PydanticSerializationError, UnicodeEncodeError):
        where = find_surrogate(value, path)
        if where is None:
            raise
        raise InvalidRequestError(
            field=path_of(where), found="a lone surrogate", allowed="text that is valid Unicode"
        ) from None


def encode_json(value: object) -> bytes:
    """Plain JSON as canonical text; the value is one that check_json accepts."""
    return to_json(value)


def encode_metadata(metadata: Mapping[str, Any], path: Path) -> bytes:
    """As :func:`encode_checked`, for the metadata of a note."""
    check_json(metadata, path, -1)
    try:
        return to_json(metadata)
    except (PydanticSerializationError, UnicodeEncodeError):
        raise InvalidRequestError(
            field=path_of(find_surrogate(metadata, path) or path),
            found="a lone surrogate",
            allowed="text that is valid Unicode",
        ) from None


def decode_json(text: bytes | str) -> Any:
    """Plain JSON that the codec wrote. Raises ValueError for what is none."""
    value = from_json(text, allow_inf_nan=False)
    if not is_finite(value):
        raise ValueError("a number beyond what a float holds")
    return value


def parse_json(text: bytes | str) -> Any:
    """Plain JSON from elsewhere, held to the rules of values. Raises ValueError."""
    value = from_json(text, allow_inf_nan=False)
    check_json(value)
    return value


def canonical(value: object) -> str:
    """A text that is equal for equal values of equal types; for comparing, not for storing."""
    if isinstance(value, Value):
        return _encoded(value, _renames(value)).decode()
    if isinstance(value, Shape):
        return canonical({wire_name(name): item for name, item in value.__dict__.items()})
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return "{" + ",".join(f"{canonical(key)}:{canonical(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(item) for item in cast("Sequence[object]", value)) + "]"
    return to_json(value).decode()


class _Decoder(Generic[V]):
    """Texts to models of one class, many in one go."""

    def __init__(self, model: type[V], store: str) -> None:
        self._model, self._store = model, store
        self._one = model.__pydantic_validator__
        self._many = TypeAdapter[Any](cast(Any, GenericAlias(list, model))).validator
        names = {name for part in _reachable(model) for name in _renamed(part)}
        self._suspects = tuple(f'"{name}"'.encode() for name in sorted(names))

    def one(self, text: bytes | str) -> V:
        """One value. Raises CorruptRecordError."""
        return self.many([text.encode() if isinstance(text, str) else text])[0]

    def many(self, texts: Iterable[bytes], *, id: str = "", start: int = 0) -> list[V]:
        """All values, in order.

        ``id`` and ``start`` say where they come from, for CorruptRecordError.
        """
        values: list[V] = []
        part: list[bytes] = []
        size = 0
        for text in texts:
            part.append(text)
            size += len(text)
            if size > _PART_BYTES:
                values += self._part(part, id, start + len(values))
                part, size = [], 0
        return values + self._part(part, id, start + len(values)) if part else values

    def _part(self, texts: list[bytes], id: str, start: int) -> list[V]:
        data = b"[" + b",".join(texts) + b"]"
        try:
            values = self._parsed(data)
        except ValidationError as error:
            raise self._corrupt(texts, id, start) from error
        if len(values) != len(texts) or not all(map(_is_finite, values)):
            raise self._corrupt(texts, id, start)
        if any(suspect in data for suspect in self._suspects):
            values = [self._own_names(text) for text in texts]
        return values

    def _own_names(self, text: bytes) -> V:
        # Read as Python objects first: a model cannot tell a known field that was given from a
        # further one of the same name.
        named = _from_wire(from_json(text), self._model)
        return self._one.validate_json(to_json(named), by_alias=False, by_name=True)

    def _parsed(self, data: bytes) -> list[V]:
        return cast("list[V]", self._many.validate_json(data, by_alias=True, by_name=False))

    def _corrupt(self, texts: list[bytes], id: str, start: int) -> CorruptRecordError:
        for position, text in enumerate(texts, start):
            try:
                value = self._one.validate_json(text, by_alias=True, by_name=False)
            except ValidationError:
                value = None
            if value is None or not _is_finite(value):
                return CorruptRecordError(store=self._store, id=id, position=position)
        return CorruptRecordError(store=self._store, id=id, position=start)


# What the fields of each model may hold, read off the models once.


def _kind_of(annotation: Any) -> tuple[int, Any]:
    text = repr(annotation)
    for model in _MODELS:
        if model.__name__ in text:
            return (_MODELS_OF if "Sequence" in text else _MODEL), model
    if "Sequence" in text:
        return _ITEMS, None
    if annotation is Any:
        return _JSON, None
    if "datetime" in text or "Aware" in text:
        return _TIME, datetime
    return _PLAIN, {*get_args(annotation), annotation}


_FIELDS: dict[type[Value], dict[str, tuple[int, Any]]] = {
    model: {name: _kind_of(field.annotation) for name, field in model.model_fields.items()}
    for model in _MODELS
}
_REQUIRED: dict[type[Value], tuple[str, ...]] = {
    model: tuple(name for name, field in model.model_fields.items() if field.is_required())
    for model in _MODELS
}

_NESTED: dict[type[Value], tuple[tuple[str, int], ...]] = {
    model: tuple((name, kind) for name, (kind, _) in fields.items() if kind in (_MODEL, _MODELS_OF))
    for model, fields in _FIELDS.items()
}

_OPEN: dict[type[Value], tuple[tuple[str, int], ...]] = {
    model: tuple((name, kind) for name, (kind, _) in fields.items() if kind not in (_PLAIN, _TIME))
    for model, fields in _FIELDS.items()
}
"""The fields that may hold plain JSON, themselves or in a value inside."""


def _renamed(model: type[Value]) -> dict[str, str]:
    return {name: wire_name(name) for name in _FIELDS[model] if wire_name(name) != name}


def _reachable(model: type[Value]) -> set[type[Value]]:
    found, new = set[type[Value]](), {model}
    while new:
        found |= new
        kinds = [kind for part in new for kind in _FIELDS[part].values()]
        new = {inner for kind, inner in kinds if kind in (_MODEL, _MODELS_OF)} - found
    return found


_TO_WIRE: dict[type[Value], dict[str, str]] = {
    model: {there: here for here, there in _renamed(model).items()} for model in _MODELS
}
_FROM_WIRE: dict[type[Value], dict[str, str]] = {model: _renamed(model) for model in _MODELS}


def _check(value: Value, path: Path) -> int:
    """Walk one value; raise for what JSON cannot give back, else say what its encoding needs."""
    model = type(value)
    fields = _FIELDS.get(model)
    if fields is None:
        raise _unfit(path, model.__name__, f"{model.__mro__[1].__name__} itself, not a subclass")
    held, extra, needs = value.__dict__, value.__pydantic_extra__, _AS_IT_IS
    for name in _REQUIRED[model]:
        if name not in held:
            raise _unfit((*path, name), "nothing", "a value; it is required")
    for name in value.__pydantic_fields_set__:
        if name not in fields:
            continue
        item = held[name]
        if item is None and name not in _REQUIRED[model]:
            continue
        kind, inner = fields[name]
        if kind == _PLAIN:
            if type(item) not in inner:
                raise _unfit((*path, name), type(item).__name__, "what the field holds")
            if type(item) is int:
                check_json(item, (*path, name))
        else:
            needs |= _check_inner(item, kind, inner, (*path, name))
    if extra:
        check_json(extra, path, -1)
        if not _TO_WIRE[model].keys().isdisjoint(extra):
            needs |= _RENAME
    return needs


def _check_inner(item: Any, kind: int, inner: Any, path: Path) -> int:
    needs = _AS_IT_IS
    if kind == _JSON:
        check_json(item, path)
    elif kind == _TIME:
        if not isinstance(item, datetime) or item.utcoffset() is None:
            raise _unfit(path, "no aware time", "a datetime with a timezone")
        needs |= _TO_UTC if item.utcoffset() else _AS_IT_IS
    elif kind == _MODEL:
        if not isinstance(item, inner):
            raise _unfit(path, type(item).__name__, inner.__name__)
        needs |= _check(cast(Value, item), path)
    elif type(item) is not tuple:
        raise _unfit(path, type(item).__name__, "a list or tuple")
    else:
        for index, part in enumerate(cast("tuple[Any, ...]", item)):
            if kind == _ITEMS:
                check_json(part, (*path, index))
            elif isinstance(part, inner):
                needs |= _check(cast(Value, part), (*path, index))
            else:
                raise _unfit((*path, index), type(part).__name__, inner.__name__)
    return needs


def _renames(value: Value) -> int:
    """Whether a further field, here or in a value inside, bears a known field's other name."""
    model, extra = type(value), value.__pydantic_extra__
    if extra and not _TO_WIRE[model].keys().isdisjoint(extra):
        return _RENAME
    for name, kind in _NESTED[model]:
        item = value.__dict__[name]
        if item:
            for part in item if kind == _MODELS_OF else (item,):
                if _renames(part):
                    return _RENAME
    return _AS_IT_IS


def _is_finite(value: Value) -> bool:
    """Whether what was parsed has no NaN and no infinity, in any field that takes plain JSON."""
    held = value.__dict__
    for name, kind in _OPEN[type(value)]:
        item = held[name]
        if item is None:
            continue
        if kind == _MODELS_OF:
            for part in item:
                if not _is_finite(part):
                    return False
        elif not (_is_finite(item) if kind == _MODEL else is_finite(item)):
            return False
    extra = value.__pydantic_extra__
    return not extra or is_finite(extra)


def _encoded(value: Value, needs: int) -> bytes:
    if needs & _RENAME:
        return to_json(_to_wire(value))
    # The types were checked, so there is nothing to warn of; to say so by `warnings=False` would
    # double the time.
    return value.__pydantic_serializer__.to_json(value, by_alias=True, exclude_unset=True)


def _to_wire(value: Any) -> Any:
    if isinstance(value, Value):
        given, swaps = value.__pydantic_fields_set__, _TO_WIRE[type(value)]
        known = type(value).model_fields
        wire = {wire_name(name): _to_wire(value.__dict__[name]) for name in known if name in given}
        extra = value.__pydantic_extra__ or {}
        return wire | {swaps.get(name, name): item for name, item in extra.items()}
    if isinstance(value, tuple):
        return [_to_wire(item) for item in cast("tuple[Any, ...]", value)]
    return value


def _from_wire(wire: Any, model: type[Value]) -> Any:
    """``wire``, parsed JSON of a ``model``, with the names that Python gives its fields."""
    if not isinstance(wire, dict):
        return wire
    named: dict[str, Any] = {}
    swaps, known = _FROM_WIRE[model], {wire_name(name): name for name in _FIELDS[model]}
    for key, item in cast("dict[str, Any]", wire).items():
        name = known.get(key)
        if name is None:
            named[swaps.get(key, key)] = item
            continue
        kind, inner = _FIELDS[model][name]
        if kind == _MODEL:
            item = _from_wire(item, inner)
        elif kind == _MODELS_OF and isinstance(item, list):
            item = [_from_wire(part, inner) for part in cast("list[Any]", item)]
        named[name] = item
    return named


def _in_utc(value: V) -> V:
    changes: dict[str, Any] = {}
    for name, (kind, _) in _FIELDS[type(value)].items():
        item = value.__dict__[name]
        if item is None or name not in value.__pydantic_fields_set__:
            continue
        if kind == _TIME:
            changes[name] = utc(item)
        elif kind == _MODEL:
            changes[name] = _in_utc(item)
        elif kind == _MODELS_OF:
            changes[name] = tuple(_in_utc(part) for part in item)
    return replaced(value, changes)


def _unfit(path: Path, found: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(field=path_of(path) or "value", found=found, allowed=allowed)


_messages, _events = _Decoder(Message, "runs"), _Decoder(Event, "runs")
_tool_results = _Decoder(ToolResult, "tool_results")

decode_message = _messages.one
decode_messages = _messages.many
decode_event = _events.one
decode_events = _events.many
decode_tool_result = _tool_results.one
