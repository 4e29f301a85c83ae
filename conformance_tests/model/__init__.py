"""What stores must hold and answer, as plain lists and dicts: the oracle of the random sequences.

It shares nothing with the stores but the models of requests, answers and values. One `World` is
one tenant. Each operation takes the request as a caller makes it, and the moment, and gives the
answer that the contract prescribes; it raises `Refused` where it prescribes an error for bad
input. Listings are given whole, without cursors. Labels come sorted, as their order means nothing.
"""

from collections.abc import Callable, Sequence

from conformance_tests.model.memory import Memory
from conformance_tests.model.refused import Refused
from conformance_tests.model.runs import KEYS_KEPT, Runs
from conformance_tests.model.tool_results import ToolResults

__all__ = ["KEYS_KEPT", "Memory", "Refused", "Runs", "ToolResults", "World"]


class World:
    """All that one tenant holds. ``vector_of`` is what its embedder makes of a text."""

    def __init__(self, vector_of: Callable[[str], Sequence[float]] | None = None) -> None:
        self.runs = Runs()
        self.memory = Memory(vector_of)
        self.tool_results = ToolResults()
