"""The shape that every model of the contract has: frozen, strict, silent about its content."""

from collections.abc import Iterable, Sized
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from stores_core.errors import InvalidRequestError

_SHOWN = frozenset(
    {"id", "run_id", "new_run_id", "parent_id", "ref", "log", "role", "kind", "name", "store"}
)
"""The fields whose text a repr shows: ids and words of the protocol."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def wire_name(name: str) -> str:
    """The name at rest and on the wire of a field that Python calls ``name``."""
    return "_meta" if name == "meta" else to_camel(name)


class Shape(BaseModel):
    """Base of values, requests and responses.

    Python speaks snake_case, the wire camelCase; only the codec reads the wire names. A
    ``repr`` shows what is there, never what it says.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=False,
        hide_input_in_errors=True,
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        given = {**self.__dict__, **(self.__pydantic_extra__ or {})}
        for name, value in given.items():
            yield name, value if name in _SHOWN and isinstance(value, str) else _Outline(value)


S = TypeVar("S", bound=Shape)


class _Outline:
    """Stands in a repr for a value: numbers, times and shapes as they are, text by its length."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        if value is None or isinstance(value, bool | int | float | datetime | Shape):
            return repr(value)
        if isinstance(value, str):
            return f"<{len(value)} characters>"
        if isinstance(value, Sized):
            return f"<{type(value).__name__} of {len(value)}>"
        return f"<{type(value).__name__}>"


class Value(Shape):
    """A value that callers hand in and get back whole, further fields included.

    ``encoded`` is where the codec keeps the text of a value that nobody can change any more;
    copies do not inherit it.
    """

    model_config = ConfigDict(extra="allow")
    __slots__ = ("_encoded",)


_KEPT: Any = Value.__dict__["_encoded"]


def kept_text(value: Value) -> bytes | None:
    """The text that :func:`replaced` was given for this very object, if any.

    Read from the slot itself: callers may name a further field as they like, so too like the slot.
    """
    try:
        return _KEPT.__get__(value)
    except AttributeError:
        return None


class Request(Shape):
    """What an operation takes.

    ``timeout`` is in seconds and stands in for the backend's own when it is given.
    """

    timeout: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None

    if not TYPE_CHECKING:  # a checker then sees the fields as keywords

        def __init__(self, /, **fields: object) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise refusal(error, type(self)) from None


class WriteRequest(Request):
    """A request that changes something. ``at`` is its moment: the front fills it in."""

    at: AwareDatetime = Field(default=EPOCH, init=False)


class Response(Shape):
    """What an operation answers."""


class AsTuple:
    """Marks a ``Sequence``: a list or tuple is accepted and kept as a tuple; sets are refused."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        items = handler.generate_schema(get_args(source)[0])
        kept = core_schema.tuple_variable_schema(items)
        taken = core_schema.no_info_before_validator_function(_list_to_tuple, kept)
        return core_schema.json_or_python_schema(json_schema=kept, python_schema=taken)


def _list_to_tuple(value: object) -> object:
    return tuple(value) if type(value) is list else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - a list of anything


class AsDict:
    """Marks a ``Mapping`` that is kept as a dict of our own."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        keys, values = get_args(source)
        return core_schema.dict_schema(
            handler.generate_schema(keys), handler.generate_schema(values), strict=False
        )


def refusal(
    error: ValidationError, model: type[BaseModel], path: tuple[object, ...] = ()
) -> InvalidRequestError:
    """The first complaint of pydantic in our words, with a path and without the input."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = path_of((*path, *first["loc"])) or model.__name__
    if first["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return InvalidRequestError(field=field, found="an unknown field", allowed=known)
    if first["type"] == "missing":
        return InvalidRequestError(field=field, found="nothing", allowed="a value; it is required")
    found = _kind(first["input"])
    return InvalidRequestError(field=field, found=found, allowed=_wanted(first["msg"]))


def path_of(steps: Iterable[object]) -> str:
    """``("messages", 2, "text")`` as ``messages[2].text``."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif isinstance(step, str) and step.isidentifier():
            path += f".{step}" if path else step
        else:
            path += f"[{step!r}]" if len(repr(step)) < 80 else "[a long key]"
    return path


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        text = (
            repr(value) if not isinstance(value, int) or value.bit_length() < 99 else "a huge int"
        )
        return f"{type(value).__name__} {text}"
    if isinstance(value, str):
        return f"a string of {len(value)} characters"
    return type(value).__name__


def _wanted(message: str) -> str:
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message


def replaced(shape: S, changes: dict[str, Any], encoded: bytes | None = None) -> S:
    """A copy of ``shape`` with some fields changed and nothing checked again.

    ``encoded`` is the JSON text that the codec shall give for the copy, a Value then.
    """
    copy = shape.__class__.__new__(shape.__class__)
    put = object.__setattr__
    put(copy, "__dict__", {**shape.__dict__, **changes})
    put(copy, "__pydantic_extra__", shape.__pydantic_extra__)
    put(copy, "__pydantic_fields_set__", {*shape.__pydantic_fields_set__, *changes})
    put(copy, "__pydantic_private__", None)
    if encoded is not None:
        put(copy, "_encoded", encoded)
    return copy
