"""What lies in Redis under a prefix: looked at, taken away, written down and put there again."""

import re
from collections.abc import Mapping, Sequence
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


async def commands_of(url: str) -> dict[str, list[str]]:
    """What makes each key under the prefix of a URL: the arguments of one command, keys without the
    prefix, each byte a character. No server that reads them need be of the same version.
    """
    prefix = re.findall("prefix=([^&]+)", url)[0]
    found: dict[str, list[str]] = {}
    async with Redis.from_url(url.partition("?")[0]) as client:
        for name, kind in sorted((await keys_of(url)).items()):
            key = name.encode()
            match kind:
                case "string":
                    parts = ["SET", await client.get(key)]
                case "list":
                    parts = ["RPUSH", *await client.lrange(key, 0, -1)]
                case "set":
                    parts = ["SADD", *sorted(await client.smembers(key))]
                case "hash":
                    pairs = sorted((await client.hgetall(key)).items())
                    parts = ["HSET", *(part for pair in pairs for part in pair)]
                case "zset":
                    pairs = await client.zrange(key, 0, -1, withscores=True)
                    parts = ["ZADD", *(part for member, score in pairs for part in (score, member))]
                case _:
                    raise AssertionError(f"nothing writes down a {kind}")
            found[name.removeprefix(f"{prefix}:")] = [_characters(part) for part in parts]
    return found


async def put_there(url: str, commands: Mapping[str, Sequence[str]]) -> None:
    """The inverse of :func:`commands_of`, under the prefix of a URL."""
    prefix = re.findall("prefix=([^&]+)", url)[0]
    async with Redis.from_url(url.partition("?")[0], encoding="latin-1") as client:
        for key, (name, *parts) in commands.items():
            await client.execute_command(name, f"{prefix}:{key}".encode(), *parts)


def _characters(part: object) -> str:
    if isinstance(part, bytes):
        return part.decode("latin-1")
    return f"{part:.17g}" if isinstance(part, float) else str(part)
