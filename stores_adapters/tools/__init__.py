"""What any runtime can use: large results kept apart, notes for the model, turns in one commit."""

from stores_adapters.tools.notes import memory_summary, memory_tools, recall_relevant
from stores_adapters.tools.offload import Offload
from stores_adapters.tools.recorder import TurnRecorder
from stores_adapters.tools.tool import Tool

__all__ = [
    "Offload",
    "Tool",
    "TurnRecorder",
    "memory_summary",
    "memory_tools",
    "recall_relevant",
]
