"""Agent files of Letta: agents with their messages, and memory blocks as notes."""

from collections.abc import Generator, Iterator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import (
    as_dict,
    as_list,
    filled,
    given,
    read_json_text,
    without,
)
from stores_cli.importing.moments import moment
from stores_cli.importing.openai_chat import say_chat
from stores_cli.importing.sessions import Found, Note
from stores_cli.importing.sources import Source
from stores_core import InvalidRequestError, MemoryItem

_MESSAGES = "messages"


def recognises(source: Source) -> bool:
    document = _document(source)
    return "agents" in document and "blocks" in document


def _document(source: Source) -> dict[str, Any]:
    return as_dict(read_json_text(source.document))  # one kind of file is JSON in a JSON string


def read(source: Source) -> Generator[Found]:
    """A session for each agent, and a note for each of its blocks in a namespace of its own."""
    document = _document(source)
    blocks = {str(block.get("id")): block for block in source.objects_of(document, "blocks")
              if not source.fold()}  # fmt: skip
    for agent in source.objects_of(document, "agents"):
        messages = as_list(agent.get(_MESSAGES))
        key = f"{agent.get('name') or agent.get('id')}-{source.unnamed(*messages[:1])}"
        session = source.session(key, agent=agent.get("name"))
        source.fold()
        for message in source.objects(messages):
            said = filled(without(message, "created_at", "type"))
            say_chat(session, said, at=message.get("created_at"))
        beside = without(document, "agents", "blocks")
        session.stand({"agent": without(agent, _MESSAGES), "file": beside})
        for identity in map(str, as_list(agent.get("block_ids"))):
            if identity in blocks:
                yield from _note(source, f"letta:{key}", blocks[identity])
        yield session


def _note(source: Source, namespace: str, block: dict[str, Any]) -> Iterator[Note]:
    rest = given(without(block, "label", "value", "created_at"))
    try:
        item = MemoryItem(
            key=str(block.get("label") or block.get("id")),
            value=str(block.get("value") or ""),
            metadata=rest,
            created_at=moment(block.get("created_at")),
        )
    except (ValueError, InvalidRequestError):
        source.leave_out("a block whose label makes no key")
        return
    source.account.taken += 1
    yield Note(namespace, item)


LETTA = Format("letta", "Letta agent files", recognises, read)
