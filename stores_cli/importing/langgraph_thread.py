"""States of LangGraph threads as its server gives them out, and recorded runs."""

from collections.abc import Generator

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.langchain_messages import plain, say_langchain
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source


def recognises(source: Source) -> bool:
    document = as_dict(source.document)
    about = any(name in document for name in ("checkpoint", "checkpoint_id", "next"))
    return about and "messages" in as_dict(document.get("values"))


def _is_replay(source: Source) -> bool:
    turns = as_list(as_dict(source.document).get("turns"))
    return bool(turns) and "output" in as_dict(turns[0]) and "caller" in as_dict(turns[0])


def read(source: Source) -> Generator[Session]:
    """The thread: its messages, and all other channels as its state."""
    document = as_dict(source.document)
    values = as_dict(document.get("values"))
    checkpoint, metadata = as_dict(document.get("checkpoint")), as_dict(document.get("metadata"))
    thread = checkpoint.get("thread_id") or metadata.get("thread_id")
    session = source.session(str(thread or source.unnamed(*as_list(values.get("messages"))[:1])))
    for message in source.objects_of(values, "messages"):
        fields = plain(message)
        if fields:
            say_langchain(session, fields)
        else:
            session.happen("message", source=message)
    state = without(document, "values") | {"values": without(values, "messages")}
    session.stand(state)
    yield session


def _read_replay(source: Source) -> Generator[Session]:
    """A recorded run: its prompt and the answers; those of other callers are events."""
    document = as_dict(source.document)
    turns = as_list(document.get("turns"))
    first = as_dict(turns[0]).get("caller") if turns else None
    session = source.session(source.unnamed(document.get("prompt"), document.get("scenario")))
    session.happen("session", source=without(document, "turns", "prompt"))
    session.say("user", document.get("prompt"))
    for turn in source.objects_of(document, "turns"):
        fields = plain(turn.get("output"))
        if fields and turn.get("caller") == first:
            say_langchain(session, fields, source=without(turn, "output"))
        else:
            session.happen(str(turn.get("caller") or "turn"), source=turn)
    yield session


LANGGRAPH_THREAD = Format("langgraph-thread", "LangGraph thread states (JSON)", recognises, read)
LANGGRAPH_EVENTS = Format(
    "langgraph-events", "Recorded LangGraph runs with answers (JSON)", _is_replay, _read_replay
)
