"""The one front before every store.

All checks, defaults, generated ids, stamps, limits, cursors, time-outs and interceptors are here,
once, so that a backend receives only valid, complete requests and all backends refuse alike.
"""

from stores_core.front.opened import NewForkId, Opened
from stores_core.front.stores import (
    AdminFront,
    MemoryFront,
    MovingFront,
    RunsFront,
    ToolResultsFront,
)

__all__ = [
    "AdminFront",
    "MemoryFront",
    "MovingFront",
    "NewForkId",
    "Opened",
    "RunsFront",
    "ToolResultsFront",
]
