"""JSON as others wrote it: read leniently, with every change counted."""

import json
from collections import Counter
from math import isfinite
from typing import Any, cast

from stores_core import InvalidRequestError
from stores_core.codec import parse_json
from stores_core.values import MAX_DEPTH

SURROGATE = "lone surrogates in text: replaced by U+FFFD"
TOO_DEEP = "nested too deeply: kept as JSON text"
NOT_FINITE = "numbers that JSON does not have: kept as text"
BAD_UTF8 = "bytes that are no UTF-8: replaced by U+FFFD"
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_DEEPEST = MAX_DEPTH - 10  # an entry holds it some levels deeper


def read_json(data: bytes, changed: Counter[str]) -> Any:
    """The value of a JSON text, with what no store can hold replaced and counted.

    Raises ValueError for what is no JSON at all.
    """
    try:
        return parse_json(data)
    except (ValueError, InvalidRequestError):
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        changed[BAD_UTF8] += 1
    try:
        return _held(json.loads(text, strict=False), changed, 0)
    except RecursionError:
        raise ValueError("nested too deeply to read") from None


def read_json_text(text: Any) -> Any:
    """The value of JSON inside a string, or the string as it is where it holds none."""
    if not isinstance(text, str):
        return text
    try:
        return parse_json(text)
    except (ValueError, InvalidRequestError):
        return text


def _held(value: Any, changed: Counter[str], depth: int) -> Any:
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            changed[SURROGATE] += 1
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, float) and not isfinite(value):
        changed[NOT_FINITE] += 1
        return repr(value)
    if isinstance(value, list | dict) and depth == _DEEPEST:
        changed[TOO_DEEP] += 1
        return json.dumps(value)
    if isinstance(value, list):
        return [_held(item, changed, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_held(key, changed, 0): _held(item, changed, depth + 1) for key, item in items}
    return value


def as_dict(value: Any) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """``value`` if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_word(value: Any) -> str:
    """``value`` if it is a string, else an empty one; a word of a format may be anything."""
    return value if isinstance(value, str) else ""


def without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    """A copy of ``record`` that lacks some fields: those that stand elsewhere already."""
    return {name: item for name, item in record.items() if name not in names}


def given(record: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``record`` that are not null."""
    return {name: item for name, item in record.items() if item is not None}


def filled(record: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``record`` that hold something: neither null nor an empty text, list or
    object. For formats that write out every default."""
    return {name: item for name, item in record.items() if item not in _EMPTY}
