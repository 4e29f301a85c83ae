"""The rules of what is accepted: ids, labels, JSON values, times.

A value is accepted when every backend can give it back equal, and refused before anything is
written when one of them could not. There is one rule for all of them.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stores_core.errors import InvalidRequestError
from stores_core.shape import EPOCH, AsDict, Shape, path_of

MAX_ID_BYTES = 512
MAX_LABELS = 64
MAX_DEPTH = 100
MAX_INT_DIGITS = 4300  # what CPython converts between text and int without being asked

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """Now, aware, in UTC, with microseconds."""
    return datetime.now(UTC)


def new_id(now: datetime) -> str:
    """A run id or ref that nobody can guess and that sorts by time to the millisecond.

    12 hexadecimal digits of milliseconds since 1970, then 128 bits from ``secrets``.
    """
    milliseconds = max(0, int(now.timestamp() * 1000))
    return f"{milliseconds:012x}-{secrets.token_hex(16)}"


def _id_fault(value: str) -> str | None:
    if "\0" in value:
        return "an id without NUL"
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return "an id without lone surrogates"
    return None if size <= MAX_ID_BYTES else f"an id of up to {MAX_ID_BYTES} bytes of UTF-8"


def _check_id_or_empty(value: str) -> str:
    fault = _id_fault(value)
    if fault:
        raise PydanticCustomError("id", "{allowed}", {"allowed": fault})
    return value


def _check_id(value: str) -> str:
    if not value:
        raise PydanticCustomError("id", "an id that is not empty")
    return _check_id_or_empty(value)


def _check_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PydanticCustomError("text", "text without lone surrogates") from None
    return value


Id = Annotated[str, AfterValidator(_check_id)]
IdOrEmpty = Annotated[str, AfterValidator(_check_id_or_empty)]
Text = Annotated[str, AfterValidator(_check_text)]


def _in_64_bits(value: int) -> int:
    # No log is longer, so a larger number says the same, and every database takes this one.
    return max(-(2**63), min(value, 2**63 - 1))


Position = Annotated[int, AfterValidator(_in_64_bits)]
Count = Annotated[int, Field(ge=0), AfterValidator(_in_64_bits)]


def _check_label_count(labels: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(labels) > MAX_LABELS:
        raise PydanticCustomError("labels", "up to {most} labels", {"most": MAX_LABELS})
    return labels


Labels = Annotated[Mapping[Id, Id], AsDict(), AfterValidator(_check_label_count)]
LabelChanges = Annotated[Mapping[Id, Id | None], AsDict(), AfterValidator(_check_label_count)]


def merge_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """``labels`` with ``changes`` applied key by key; None removes one.

    Raises InvalidRequestError when more than 64 would be left.
    """
    merged = {**labels, **changes}
    kept = {key: value for key, value in merged.items() if value is not None}
    if len(kept) > MAX_LABELS:
        raise too_many_labels(len(kept))
    return kept


def too_many_labels(count: int) -> InvalidRequestError:
    """What refuses a merge that would leave so many labels."""
    return InvalidRequestError(
        field="labels", found=f"{count} labels after the merge", allowed=f"{MAX_LABELS}"
    )


def utc(moment: datetime) -> datetime:
    """The same instant in UTC. Raises InvalidRequestError where UTC has no such year."""
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidRequestError(
            field="timestamp",
            found="a time that leaves the years 1 to 9999 in UTC",
            allowed="an aware time within them",
        ) from None


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exact; the form in which times are compared and indexed."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_micros(value: int) -> datetime:
    """The inverse of :func:`micros`."""
    return EPOCH + timedelta(microseconds=value)


# JSON values. The check walks Python objects by exact type: a subclass (numpy.float64, an enum)
# would come back as something else than it was.

_SCALARS = frozenset({str, bool, type(None)})
_MAY_BE_INFINITE = frozenset({float, dict, list})


def check_json(value: object, path: tuple[object, ...] = (), depth: int = 0) -> None:
    """Raise InvalidRequestError at the first thing in ``value`` that JSON cannot give back equal.

    Lone surrogates are left to the encoder, which meets every character anyway.
    """
    kind = type(value)
    if kind in _SCALARS:
        return
    if kind is int:
        if not -(2**63) <= cast(int, value) < 2**64:
            _check_digits(cast(int, value), path)
    elif kind is float:
        if not isfinite(cast(float, value)):
            raise _unfit(path, "NaN or an infinity", "a finite number")
    elif kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            raise _unfit(path, f"more than {MAX_DEPTH} levels of nesting", "fewer")
        if kind is list:
            for index, item in enumerate(cast("list[object]", value)):
                if type(item) not in _SCALARS:
                    check_json(item, (*path, index), depth + 1)
            return
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise _unfit(path, f"a key of type {type(key).__name__}", "string keys")
            if type(item) not in _SCALARS:
                check_json(item, (*path, key), depth + 1)
    elif isinstance(value, Shape):
        raise _unfit(path, kind.__name__, "its fields as a dict")
    else:
        raise _unfit(
            path, f"{kind.__module__}.{kind.__name__}", "str, int, float, bool, None, list, dict"
        )


def is_finite(value: object) -> bool:
    """Whether JSON that was parsed has no NaN and no infinity, which a long number becomes."""
    kind = type(value)
    if kind is dict:
        items: Iterable[object] = cast("dict[str, object]", value).values()
    elif kind is list or kind is tuple:
        items = cast("Sequence[object]", value)
    else:
        return kind is not float or isfinite(cast(float, value))
    for item in items:  # noqa: SIM110 - a generator would cost more than the work
        if type(item) in _MAY_BE_INFINITE and not is_finite(item):
            return False
    return True


def _check_digits(value: int, path: tuple[object, ...]) -> None:
    if abs(value) >= 10**MAX_INT_DIGITS:
        raise _unfit(path, f"an integer of over {MAX_INT_DIGITS} digits", "a shorter one, or text")


def find_surrogate(value: object, path: tuple[object, ...] = ()) -> tuple[object, ...] | None:
    """Where in ``value`` a lone surrogate stands; only called once an encoder met one."""
    if isinstance(value, str):
        return None if not any("\ud800" <= char <= "\udfff" for char in value) else path
    inner: Any = ()
    if isinstance(value, Shape):
        inner = {**value.__dict__, **(value.__pydantic_extra__ or {})}.items()
    elif isinstance(value, dict):
        inner = cast("dict[str, object]", value).items()
    elif isinstance(value, list | tuple):
        inner = enumerate(cast("list[object]", value))
    for step, item in inner:
        if isinstance(step, str) and find_surrogate(step) is not None:
            return (*path, "a key")
        found = find_surrogate(item, (*path, step))
        if found is not None:
            return found
    return None


def _unfit(path: tuple[object, ...], found: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(field=path_of(path) or "value", found=found, allowed=allowed)


# Filters on metadata. A value is reduced to a digest once, in core, so that every backend
# filters by comparing equal-sized opaque tokens and no key or value becomes query text.

Scalar = str | int | float | bool | None


def filter_digest(key: str, value: Scalar) -> str:
    """32 hexadecimal digits that are equal when key and value are, by the rules of `where`.

    2 equals 2.0, true is not 1, null is a value. BLAKE2b, 128 bits.
    """
    if value is None or isinstance(value, bool):
        token = repr(value)
    elif isinstance(value, str):
        token = "s" + value
    else:
        token = f"n{int(value)}" if value == int(value) else f"n{value!r}"
    text = f"{len(key)} {key}{token}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def filter_digests(metadata: Mapping[str, object]) -> frozenset[str]:
    """The digests of all entries of ``metadata`` that `where` can ask for: its scalars."""
    return frozenset(
        filter_digest(key, value)
        for key, value in metadata.items()
        if value is None or isinstance(value, str | int | float | bool)
    )


def _check_where(where: dict[str, object]) -> dict[str, object]:
    for key, value in where.items():
        _check_text(key)
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, float) and not isfinite(value):
            raise PydanticCustomError("where", "finite numbers")
        elif isinstance(value, int) and abs(value) >= 10**MAX_INT_DIGITS:
            raise PydanticCustomError("where", "integers of up to 4,300 digits")
        elif value is not None and not isinstance(value, int | float):
            raise PydanticCustomError("where", "strings, numbers, booleans and null as values")
    return where


Where = Annotated[Mapping[str, Any], AsDict(), AfterValidator(_check_where)]
