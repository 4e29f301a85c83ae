"""The arguments and options that many commands share, each declared once."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from typer import Argument, Option

from stores_cli.urls import VARIABLE
from stores_core.errors import InvalidRequestError

Url = Annotated[
    str, Argument(metavar="URL", help=f"The backend, as sqlite:agent.db. Default: ${VARIABLE}.")
]
RunId = Annotated[str, Argument(metavar="RUN", help="The id of a run.")]
Json = Annotated[bool, Option("--json", help="JSON for programs in place of text.")]
Tenant = Annotated[str, Option("--tenant", metavar="NAME", help="Whose data; default: the URL's.")]
AllTenants = Annotated[bool, Option("--all-tenants", help="One tenant after the other.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int, Option("--limit", min=1, metavar="N", help="At most so many.")]
LabelFilter = Annotated[
    list[str] | None,
    Option("--label", metavar="KEY=VALUE", help="Only those with this label; may be repeated."),
]
Namespace = Annotated[str, Option("--namespace", "-n", metavar="NAME", help="Of which namespace.")]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"([0-9]{1,6})([smhdw])")


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """``["a=1", "b=2"]`` as a dict. Raises InvalidRequestError for what has no ``=``."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            # Not quoted: it may be a URL that was put in the wrong place.
            raise InvalidRequestError(field=option, found="no such pair", allowed="KEY=VALUE")
        found[key] = value
    return found


def age(text: str, option: str) -> timedelta:
    """``90s``, ``30m``, ``12h``, ``7d`` or ``4w``. Raises InvalidRequestError."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            field=option, found=repr(text[:40]), allowed="a number and s, m, h, d or w, as 30d"
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def since_option(text: str, option: str, now: datetime) -> datetime | None:
    """A time in ISO 8601, of UTC where it names no zone, or an age before ``now``; "" is None."""
    if not text:
        return None
    if _AGE.fullmatch(text):
        return now - age(text, option)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            field=option, found=repr(text[:40]), allowed="as 2026-01-31T12:00:00Z, or an age as 7d"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
