"""Values inside LangGraph checkpoints: msgpack or JSON, as data alone.

Extension types of msgpack name a class and its arguments. They come out as {"constructor":
[module, name], "data": arguments}; nothing is imported or called. Pickle is never read.
"""

from base64 import b64encode
from typing import Any, cast

from stores_cli.importing.json_values import read_json
from stores_cli.importing.langchain_messages import CONSTRUCTOR
from stores_cli.importing.reports import FileReport
from stores_core.extras import need

REFUSED = "values that only running code could read (pickle): refused"
UNKNOWN = "values of an unknown encoding"

# The numbers of LangGraph's serializer: https://github.com/langchain-ai/langgraph, jsonplus.py.
_NUMPY_ARRAY, _DELTA_SNAPSHOT = 6, 7


def value_of(kind: str, data: bytes | None, account: FileReport) -> Any:
    """The value as JSON, or None where it is empty, refused or unknown; the account says which.

    Raises ValueError for damaged bytes.
    """
    if kind in ("empty", "null") or data is None:
        return None
    if kind == "msgpack":
        return _plain(_unpack(data))
    if kind == "json":
        return read_json(data, account.changed)
    if kind == "str":
        return data.decode()
    if kind in ("bytes", "bytearray"):
        return _plain(data)
    account.left_out[REFUSED if kind.startswith("pickle") else UNKNOWN] += 1
    return None


def _unpack(data: bytes) -> Any:
    ormsgpack: Any = need("ormsgpack", extra="langgraph", field="file")
    return ormsgpack.unpackb(data, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _extension(code: int, data: bytes) -> Any:
    held: Any = _unpack(data)
    if code == _DELTA_SNAPSHOT:
        return held
    if code == _NUMPY_ARRAY or not isinstance(held, list | tuple):
        return {"extension": code, "data": held}
    parts = cast("list[Any]", list(held))  # pyright: ignore[reportUnknownArgumentType] - of anything
    return {CONSTRUCTOR: parts[:2], "data": parts[2] if len(parts) > 2 else None}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {key if isinstance(key, str) else repr(key): _plain(item) for key, item in items}
    return value
