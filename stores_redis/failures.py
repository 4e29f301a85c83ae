"""What errors of Redis and of its driver mean to a caller: the one place that looks at them.

Nothing of an error's own text is passed on but its first word, which is a code: the rest may show
data. The driver's error stays as the cause, with its text taken out.
"""

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    InvalidResponse,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from stores_core.errors import (
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)

_REFUSED = {
    "ASK": "the slot is being moved",
    "BUSY": "another script keeps the server busy",
    "CLUSTERDOWN": "the cluster serves no part of this slot",
    "CROSSSLOT": "the server wants the keys of one call in one slot",
    "LOADING": "the server is loading its data",
    "MASTERDOWN": "the server is a replica that lost its primary",
    "MISCONF": "the server cannot save to its disk and takes no writes",
    "MOVED": "this node of a cluster does not serve the slot",
    "NOAUTH": "the server wants a password",
    "NOPERM": "the user lacks a right",
    "NOREPLICAS": "the server has too few replicas to take writes",
    "OOM": "the server has reached its maxmemory",
    "READONLY": "the server is read-only, as a replica is",
    "TRYAGAIN": "the slot is being moved",
    "WRONGPASS": "the server refused the name or password",
    "WRONGTYPE": "a key of another type stands where ours belong",
}


_IN_SCRIPT = re.compile(r"@user_script: ?\d+: -?([A-Z]+) ")

_ELSEWHERE = {"READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN"}
"""Whoever answers so may not be the server that a new connection would reach."""


def is_unknown_script(reply: object) -> bool:
    """Whether the server asks for the text of the script; it has done nothing then."""
    return isinstance(reply, NoScriptError)


def is_refusal(error: BaseException) -> bool:
    """Whether the server itself said no, so that nothing was applied."""
    return isinstance(error, ResponseError | BusyLoadingError | AuthenticationError)


def is_elsewhere(error: BaseException) -> bool:
    """Whether a new connection may reach another server, which does better."""
    return code_of(error) in _ELSEWHERE


def code_of(error: BaseException) -> str:
    """The code that an error of the server begins with, or ""."""
    if not isinstance(error, RedisError) or not is_refusal(error):
        return ""
    text = str(error)
    if "ACL failure in script" in text or "user executing the script can't" in text:
        return "NOPERM"
    # Redis 6 names what a command in a script met behind where it stands in the script.
    inner = _IN_SCRIPT.search(text)
    first = inner[1] if inner else text.partition(" ")[0]
    own = "" if inner else error.status_code
    return own or (first if first.isupper() and first.isalpha() else "")


def not_applied(error: Exception) -> Exception:
    """The error of a read, or of a write that certainly did not happen."""
    if isinstance(error, StoreError) or not isinstance(error, _DRIVERS):
        return error
    meaning = StoreUnavailableError(f"{_why(error)}; nothing was applied")
    meaning.__cause__ = _without_text(error)
    return meaning


def of_write(error: Exception) -> Exception:
    """The error of a write that was under way: what the server refused has not happened."""
    if isinstance(error, StoreError) or not isinstance(error, _DRIVERS):
        return error
    if is_refusal(error):
        return not_applied(error)
    meaning = OutcomeUnknownError(
        f"the answer of Redis was lost ({type(error).__name__}); what was written may or may not "
        "be there"
    )
    meaning.__cause__ = _without_text(error)
    return meaning


_DRIVERS = (RedisError, OSError, EOFError)


def _why(error: Exception) -> str:
    code = code_of(error)
    if not is_refusal(error):
        lost = isinstance(error, RedisConnectionError | RedisTimeoutError | InvalidResponse)
        what = type(error).__name__
        return f"Redis cannot be reached ({what})" if lost else f"Redis failed ({what})"
    return f"{_REFUSED.get(code, 'Redis refused')} ({code or type(error).__name__})"


def _without_text(error: Exception) -> Exception:
    if not isinstance(error, OSError):
        error.args = (code_of(error) or type(error).__name__,)
    error.__cause__ = error.__context__ = None
    return error
