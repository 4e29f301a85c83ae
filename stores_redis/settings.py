"""What the server is and how it is set: as much as it will say, and what that means."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from stores_core.capabilities import Durability
from stores_core.errors import InvalidRequestError, StoreUnavailableError
from stores_redis.keys import tenants
from stores_redis.scripts import Arg
from stores_redis.storage import Storage

OLDEST = (6, 2)

_NAMES = (
    "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy",
    "min-replicas-to-write", "aof-load-truncated",
)  # fmt: skip
_HELLO = ("server", "version", "mode", "role")
_TOLD = {
    "aof_enabled": "appendonly",
    "maxmemory": "maxmemory",
    "maxmemory_policy": "maxmemory-policy",
    "role": "role",
    "connected_slaves": "replicas",
    "redis_version": "version",
    "server_name": "server",
    "valkey_version": "valkey",
    "redis_mode": "mode",
}


_BY_STRENGTH = (
    Durability.CLIENT,
    Durability.UNVERIFIED,
    Durability.BOUNDED,
    Durability.DISK,
    Durability.REPLICATED,
)


class Settings(NamedTuple):
    """What was found. ``found`` has the server's own names; what it would not say is not there."""

    version: tuple[int, ...]
    has_vector_sets: bool
    found: Mapping[str, str]


async def read_settings(storage: Storage) -> list[Settings]:
    """Ask each server; rights that are missing are no error."""
    return [await _settings_of(node) for node in storage.nodes()]


async def _settings_of(storage: Storage) -> Settings:
    hello: list[Any] = await _asked(storage, "HELLO") or []
    told = {_text(name): value for name, value in zip(hello[::2], hello[1::2], strict=True)}
    found = {name: _text(told[name]) for name in _HELLO if name in told}
    for section in ("server", "persistence", "memory", "replication"):
        info = await _asked(storage, "INFO", section)
        if info is None:
            break  # and so would be the others
        found |= _told(info)
    if "appendonly" in found:
        found["appendonly"] = {"0": "no", "1": "yes"}.get(found["appendonly"], "")
    for name in _NAMES:
        pair = await _asked(storage, "CONFIG", "GET", name)
        if pair is None:
            break
        if pair:
            found[name] = _text(pair[1])
    # Any key will do. Where there are no vector sets, the server does not know the command.
    has_vector_sets = await _asked(storage, "VCARD", tenants(storage.prefix) + b":none") is not None
    return Settings(_version(found.get("version", "")), has_vector_sets, found)


async def _asked(storage: Storage, *command: Arg) -> Any:
    """The reply; None where the server refuses."""
    try:
        return await storage.read(*command)
    except StoreUnavailableError as error:
        if isinstance(error.__cause__, ResponseError):
            return None
        raise


def _told(info: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {_TOLD[name]: value for name, _, value in pairs if name in _TOLD}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _version(text: str) -> tuple[int, ...]:
    """(8, 2, 3) for "8.2.3"; (0,) where the server does not say."""
    parts = [part for part in text.split(".") if part.isdigit()]
    return tuple(map(int, parts)) or (0,)


def take(storage: Storage, settings: Sequence[Settings], *, allow_eviction: bool) -> None:
    """Let the storage know what was found of its servers: what the least of them can do.

    Raises InvalidRequestError for a server that is too old or forgets what it was told, and
    StoreUnavailableError for a replica.
    """
    for one in settings:
        _check(one, allow_eviction=allow_eviction)
    storage.version = min(one.version for one in settings)
    storage.has_vector_sets = all(one.has_vector_sets for one in settings)
    storage.durability = least_durability(settings, storage.wait_replicas)


def least_durability(settings: Sequence[Settings], wait_replicas: int) -> Durability:
    """What an acknowledged write survives, whichever server has it."""
    found = [durability_of(one.found, wait_replicas) for one in settings]
    return min(found, key=_BY_STRENGTH.index)


def _check(settings: Settings, *, allow_eviction: bool) -> None:
    found = settings.found
    if (0,) < settings.version < OLDEST:
        raise InvalidRequestError(
            field="url",
            found=f"a server of version {found['version']}",
            allowed="Redis 6.2 or newer, or Valkey",
        )
    if found.get("role") in ("slave", "replica"):
        raise StoreUnavailableError(
            "the server is a replica: what was just written may not be there yet; name the primary"
        )
    if evicts(found) and not allow_eviction:
        raise InvalidRequestError(
            field="url",
            found=f"a server with maxmemory-policy {found['maxmemory-policy']}, which removes keys "
            "when memory is full",
            allowed="maxmemory-policy noeviction, or allow_eviction=True, with which runs, notes "
            "and results may vanish",
        )


def evicts(found: Mapping[str, str]) -> bool:
    """Whether keys of ours, which have no expiry, may be removed."""
    return found.get("maxmemory-policy", "").startswith("allkeys")


def durability_of(found: Mapping[str, str], wait_replicas: int) -> Durability:
    """What an acknowledged write survives."""
    if wait_replicas:
        return Durability.REPLICATED
    if found.get("appendonly") == "no":
        return Durability.CLIENT
    if "appendonly" not in found or "appendfsync" not in found:
        return Durability.UNVERIFIED
    if found["appendfsync"] == "always":
        rewrites = found.get("no-appendfsync-on-rewrite") == "yes"
        # Read back wrongly after a crash, see docs/redis.md, "A torn transaction".
        cuts = found.get("aof-load-truncated") != "no"
        return Durability.BOUNDED if rewrites or cuts else Durability.DISK
    return Durability.BOUNDED if found["appendfsync"] == "everysec" else Durability.CLIENT


def warnings_of(found: Mapping[str, str], wait_replicas: int) -> list[str]:
    """What to change, and how."""
    warnings: list[str] = []
    if found.get("appendonly") == "no":
        warnings.append(
            "appendonly is no: a crash of the server loses all since its last snapshot; CONFIG SET "
            "appendonly yes"
        )
    elif found.get("appendfsync") in ("everysec", "no"):
        warnings.append(
            f"appendfsync is {found['appendfsync']}: a crash of the server loses the last moments; "
            "CONFIG SET appendfsync always"
        )
    if found.get("appendonly") == "yes" and found.get("aof-load-truncated") == "yes":
        warnings.append(
            "aof-load-truncated is yes: what a crash tore in the middle of a transaction comes "
            "back in part at the start after the next; CONFIG SET aof-load-truncated no, and where "
            "the server then refuses to start, redis-check-aof --fix"
        )
    if found.get("no-appendfsync-on-rewrite") == "yes":
        warnings.append(
            "no-appendfsync-on-rewrite is yes: while the append-only file is rewritten nothing is "
            "forced to the disk; CONFIG SET no-appendfsync-on-rewrite no"
        )
    if evicts(found):
        warnings.append(
            f"maxmemory-policy is {found['maxmemory-policy']}: runs, notes and results may vanish; "
            "CONFIG SET maxmemory-policy noeviction"
        )
    if found.get("maxmemory") == "0":
        warnings.append(
            "maxmemory is 0: the server takes memory until the system ends it; CONFIG SET maxmemory"
        )
    if wait_replicas > int(found.get("replicas", wait_replicas)):
        warnings.append(
            f"wait_replicas is {wait_replicas}, {found['replicas']} are connected: every write is "
            "of unknown outcome until there are more"
        )
    if "appendfsync" not in found:
        warnings.append(
            "the server does not say how it keeps data: the durability is unverified; allow this "
            "user CONFIG GET, or look yourself"
        )
    return warnings
