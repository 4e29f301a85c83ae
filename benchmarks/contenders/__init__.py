"""One module for each backend: the raw limit and ours."""

from collections.abc import Callable

from benchmarks.contender import Entry
from benchmarks.contenders import files, in_memory, postgres, redis, sqlite

BACKENDS: dict[str, Callable[[], list[Entry]]] = {
    "memory": in_memory.entries,
    "sqlite": sqlite.entries,
    "files": files.entries,
    "postgres": postgres.entries,
    "redis": redis.entries,
}
