"""What the settings of a server mean: durability, eviction, role, rights that are missing."""

from collections.abc import Mapping
from typing import Any

import pytest
from redis.asyncio import Redis as TypedRedis

from stores_core import (
    Durability,
    InvalidRequestError,
    StoreUnavailableError,
    open_backend,
)
from stores_redis.settings import Settings, durability_of, take
from stores_redis.storage import Storage
from tests.redis_embedded import embedded_redis

Redis: Any = TypedRedis  # its types are partly unknown

ALWAYS = {"appendonly": "yes", "appendfsync": "always"}
LEVELS: list[tuple[dict[str, str], Durability]] = [
    ({"appendonly": "no"}, Durability.CLIENT),
    ({"appendonly": "yes", "appendfsync": "no"}, Durability.CLIENT),
    ({"appendonly": "yes", "appendfsync": "everysec"}, Durability.BOUNDED),
    ({**ALWAYS, "aof-load-truncated": "yes"}, Durability.BOUNDED),
    ({**ALWAYS, "aof-load-truncated": "no"}, Durability.DISK),
    (
        {**ALWAYS, "aof-load-truncated": "no", "no-appendfsync-on-rewrite": "yes"},
        Durability.BOUNDED,
    ),
]


async def told(url: str, *command: str) -> Any:
    """What the server says to a command."""
    async with Redis.from_url(url, decode_responses=True) as client:
        return await client.execute_command(*command)


@pytest.mark.parametrize(("settings", "level"), LEVELS)
async def test_the_durability_is_what_the_settings_give(
    settings: dict[str, str], level: Durability
) -> None:
    with embedded_redis("8.2", **settings) as server:
        async with open_backend(server.url) as backend:
            assert backend.durability is level
            checked = await backend.admin.check()
    assert checked.durability is level
    assert {name: checked.settings[name] for name in settings} == settings
    words = ("loses", "forced", "tore")
    loses = [text for text in checked.warnings if any(word in text for word in words)]
    assert bool(loses) is (level is not Durability.DISK)


@pytest.mark.parametrize(
    "found", [{}, {"appendonly": "yes"}, {"appendfsync": "always"}], ids=["", "no fsync", "no aof"]
)
def test_what_the_server_does_not_say_is_unverified(found: Mapping[str, str]) -> None:
    assert durability_of(found, 0) is Durability.UNVERIFIED
    assert durability_of(found, 1) is Durability.REPLICATED


async def test_a_server_that_may_remove_our_keys_is_refused_unless_that_is_allowed() -> None:
    with embedded_redis(maxmemory_policy="allkeys-lru") as server:
        with pytest.raises(InvalidRequestError, match=r"allkeys-lru.*allow_eviction"):
            async with open_backend(server.url):
                pass
        assert await told(server.url, "DBSIZE") == 0, "nothing was to be written"
        async with open_backend(f"{server.url}?allow_eviction=true") as backend:
            warnings = (await backend.admin.check()).warnings
            assert [warning for warning in warnings if "noeviction" in warning]
        await told(server.url, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        async with open_backend(server.url):  # our keys have no expiry, so they stay
            pass


async def test_a_replica_is_refused() -> None:
    with embedded_redis() as primary, embedded_redis() as replica:
        await told(replica.url, "REPLICAOF", "127.0.0.1", str(primary.port))
        with pytest.raises(StoreUnavailableError, match=r"replica.*primary"):
            async with open_backend(replica.url):
                pass
        await told(replica.url, "REPLICAOF", "NO", "ONE")
        async with open_backend(replica.url):
            pass


@pytest.mark.parametrize("version", [(5, 0, 14), (6, 0, 20)])
def test_a_server_that_is_too_old_is_refused(version: tuple[int, ...]) -> None:
    found = {"version": ".".join(map(str, version))}
    storage = Storage(object(), "p")  # pyright: ignore[reportArgumentType] - nothing is sent
    with pytest.raises(InvalidRequestError, match=r"6\.2 or newer"):
        take(storage, [Settings(version, has_vector_sets=False, found=found)], allow_eviction=False)


async def test_check_says_what_is_there(redis_url: str) -> None:
    async with open_backend(redis_url) as backend:
        checked = await backend.admin.check()
    assert checked.schema_state == "current"
    assert checked.versions["format"] == "0002 (code: 0002)"
    assert {"redis", "valkey"} & set(checked.versions)
    assert checked.settings["role"] == "master"
    assert checked.settings["buckets"] == "1"
    assert [warning for warning in checked.warnings if "maxmemory is 0" in warning]
