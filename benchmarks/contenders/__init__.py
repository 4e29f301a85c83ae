"""One module for each backend: the raw limit and ours."""

from collections.abc import Callable

from benchmarks.contender import Entry
from benchmarks.contenders import in_memory, postgres, sqlite

BACKENDS: dict[str, Callable[[], list[Entry]]] = {
    "memory": in_memory.entries,
    "sqlite": sqlite.entries,
    "postgres": postgres.entries,
}
