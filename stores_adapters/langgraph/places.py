"""Where a thread's checkpoints are: LangGraph's configs, the ids and labels of runs."""

import hashlib
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig

from stores_core.errors import InvalidRequestError

KIND = "langgraph.kind"
CHECKPOINTS = "checkpoints"
THREAD = "langgraph.thread"
"""The labels of a run that holds checkpoints: what it is and of which thread."""


class Place(NamedTuple):
    """What a config points at; an empty ``checkpoint`` means the newest."""

    thread: str
    namespace: str
    checkpoint: str


def place_of(config: RunnableConfig) -> Place:
    """The place that ``config`` names. Raises InvalidRequestError where it names no thread."""
    given = config.get("configurable", {})
    thread = given.get("thread_id")
    if thread is None or thread == "":
        raise InvalidRequestError(
            field="config.configurable.thread_id", found="nothing", allowed="the id of a thread"
        )
    return Place(
        str(thread), given.get("checkpoint_ns") or "", str(given.get("checkpoint_id") or "")
    )


def config_of(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint,
        }
    }


def digest(text: str) -> str:
    """32 hexadecimal digits for a text of any length. BLAKE2b, 128 bits."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def run_of(thread: str, namespace: str) -> str:
    """The id of the run that keeps the checkpoints of one namespace of one thread."""
    return f"langgraph:{digest(thread)}:{digest(namespace)}"


def run_beside(thread: str, run_id: str) -> str:
    """The id for the namespace of ``run_id`` in another thread."""
    return f"langgraph:{digest(thread)}:{run_id.rpartition(':')[2]}"


def labels_of(thread: str) -> dict[str, str]:
    return {KIND: CHECKPOINTS, THREAD: thread}
