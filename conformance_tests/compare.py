"""Equal, as the contract means it: in type and in canonical text, never by ``==``.

For ``==`` 1 is 1.0 and True, -0.0 is 0.0 and the order of keys does not matter. Here it does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from stores_core.codec import canonical
from stores_core.shape import Shape, Value, path_of

EXCERPT = 60

Path = tuple[object, ...]


def assert_same(actual: object, expected: object, what: str) -> None:
    """Fail where ``actual`` is not ``expected``, naming the path where they part.

    A list and a tuple of the same things are the same. At most 60 characters of each are shown.
    """
    __tracebackhide__ = True
    parting = _parting(actual, expected, ())
    if parting is not None:
        raise AssertionError(f"{what} did not come back equal: {parting}")


def _parting(actual: object, expected: object, path: Path) -> str | None:
    """Where and how two values part, as a sentence; None where they are the same."""
    alike = isinstance(actual, Value) and type(actual) is type(expected)
    if alike and canonical(actual) == canonical(expected):  # quicker than to walk both
        return None
    at = path_of(path) or "the value itself"
    kind, wanted = _kind(actual), _kind(expected)
    if kind is not wanted:
        return f"at {at}: a {kind.__name__} where a {wanted.__name__} was expected"
    parts, wanted_parts = _parts(actual), _parts(expected)
    if parts is None or wanted_parts is None:
        return _leaf(canonical(actual), canonical(expected), at)
    for step, part in wanted_parts.items():
        if step not in parts:
            return f"at {path_of((*path, step))}: nothing where a value was expected"
        inner = _parting(parts[step], part, (*path, step))
        if inner is not None:
            return inner
    for step in parts:
        if step not in wanted_parts:
            return f"at {path_of((*path, step))}: a value where none was expected"
    if list(parts) != list(wanted_parts):
        return f"at {at}: the keys are in another order"
    return None


def _kind(value: object) -> type:
    return tuple if isinstance(value, list | tuple) else type(value)


def _parts(value: object) -> Mapping[Any, object] | None:
    """What a value is made of, by step of its path; None for a value without parts."""
    if isinstance(value, Value):
        given = value.model_fields_set
        known = {name: value.__dict__[name] for name in type(value).model_fields if name in given}
        return {**known, **(value.model_extra or {})}
    if isinstance(value, Shape):
        return value.__dict__
    if isinstance(value, Mapping):
        return cast("Mapping[Any, object]", value)
    if isinstance(value, list | tuple):
        return dict(enumerate(cast("Sequence[object]", value)))
    return None


def _leaf(actual: str, expected: str, at: str) -> str | None:
    if actual == expected:
        return None
    pairs = enumerate(zip(actual, expected, strict=False))
    shorter = min(len(actual), len(expected))
    offset = next((index for index, (one, other) in pairs if one != other), shorter)
    return (
        f"at {at}, character {offset} of its JSON text: found {_excerpt(actual, offset)} "
        f"({len(actual)} characters), expected {_excerpt(expected, offset)} ({len(expected)})"
    )


def _excerpt(text: str, offset: int) -> str:
    start = max(0, offset - EXCERPT // 3)
    cut = text[start : start + EXCERPT]
    return f"{'…' if start else ''}{cut!a}{'…' if start + EXCERPT < len(text) else ''}"
