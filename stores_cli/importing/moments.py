"""Times as the formats write them."""

from datetime import UTC, datetime
from typing import Any

_MILLISECONDS_FROM = 1e11  # seconds up to the year 5138; anything larger counts milliseconds


def moment(value: Any) -> datetime | None:
    """The time meant, aware and in UTC, or None where none can be made out.

    Text is ISO 8601, taken as UTC where it names no zone; a number counts seconds or milliseconds
    since 1970.
    """
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
            aware = read if read.tzinfo else read.replace(tzinfo=UTC)
            return aware.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
