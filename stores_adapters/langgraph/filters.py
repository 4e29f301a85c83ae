"""The filters of a LangGraph search: what the store can answer itself, and all of it by hand."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from stores_core.errors import InvalidRequestError

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}


def where_of(filter: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a filter that working memory answers: equality of strings, numbers, booleans.

    Null stays out: to LangGraph it also means a key that is missing.
    """
    return {
        key: value for key, value in filter.items() if isinstance(value, str | int | float | bool)
    }


def matches(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a stored value passes. Raises InvalidRequestError for an unknown operator."""
    return all(_fits(value.get(key), wanted) for key, wanted in filter.items())


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        conditions = cast("dict[str, object]", wanted)
        if any(key.startswith("$") for key in conditions):
            return all(_compares(value, *condition) for condition in conditions.items())
        return isinstance(value, dict) and matches(cast("dict[str, Any]", value), conditions)
    if isinstance(wanted, list | tuple):
        items = cast("list[object]", wanted)
        if not isinstance(value, list) or len(cast("list[object]", value)) != len(items):
            return False
        pairs = zip(cast("list[object]", value), items, strict=True)
        return all(_fits(item, part) for item, part in pairs)
    return _same(value, wanted)


def _same(value: object, wanted: object) -> bool:
    # As in MEM-10: 2 is 2.0, but a boolean is no number.
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _compares(value: object, operator: str, bound: object) -> bool:
    if operator == "$eq":
        return _same(value, bound)
    if operator == "$ne":
        return not _same(value, bound)
    if operator not in _ORDERED:
        raise InvalidRequestError(
            field="filter",
            found="an unknown operator",
            allowed=", ".join(["$eq", "$ne", *_ORDERED]),
        )
    if _is_number(value) and _is_number(bound):
        return _ORDERED[operator](value, bound)
    return isinstance(value, str) and isinstance(bound, str) and _ORDERED[operator](value, bound)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
