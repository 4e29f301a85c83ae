"""One module for each kind of work. `run` yields rows: what was done, and each contender's time."""

from collections.abc import AsyncIterator, Callable, Mapping
from types import ModuleType

from benchmarks.contender import Contender
from benchmarks.workloads import append, fork, listing, load, many_runs, recall, tool_results

Row = tuple[str, dict[str, float]]
Workload = Callable[[Mapping[str, Contender], float], AsyncIterator[Row]]

WORKLOADS: dict[str, ModuleType] = {
    "append": append,
    "many": many_runs,
    "load": load,
    "fork": fork,
    "list": listing,
    "recall": recall,
    "results": tool_results,
}
