"""LangGraph on a backend: its checkpointer on runs, its store on working memory."""

from stores_core.extras import need

need("langgraph.checkpoint.base", extra="langgraph", field="stores_adapters.langgraph")

from stores_adapters.langgraph.checkpointer import BackendCheckpointSaver  # noqa: E402 - after need
from stores_adapters.langgraph.store import BackendStore  # noqa: E402 - after need

__all__ = ["BackendCheckpointSaver", "BackendStore"]
