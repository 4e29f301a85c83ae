"""What lies in Redis under a prefix."""

import re
from typing import Any

from redis.asyncio import Redis as TypedRedis

from stores_core import Message

Redis: Any = TypedRedis  # its types are partly unknown


def turn(count: int, text: str = "x") -> list[Message]:
    return [Message(role="user", text=f"{text} {n}") for n in range(count)]


async def keys_of(url: str) -> dict[str, str]:
    """The keys under the prefix of a URL, with their types."""
    prefix = re.findall("prefix=([^&]+)", url)[0]
    async with Redis.from_url(url.partition("?")[0], decode_responses=True) as client:
        return {key: await client.type(key) async for key in client.scan_iter(f"{prefix}:*")}


async def remove(url: str, part: str) -> None:
    """Remove the keys under the prefix whose name holds ``part``, as an evicting server would."""
    found = [key for key in await keys_of(url) if part in key]
    assert found
    async with Redis.from_url(url.partition("?")[0]) as client:
        await client.delete(*found)
