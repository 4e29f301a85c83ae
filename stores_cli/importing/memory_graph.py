"""Memory of knowledge-graph servers: JSON lines of entities and relations, as notes."""

from collections.abc import Generator
from typing import Any

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.moments import moment
from stores_cli.importing.sessions import Note
from stores_cli.importing.sources import Source
from stores_core import MemoryItem


def recognises(source: Source) -> bool:
    return any(
        ("entityType" in record and "observations" in record)
        or ("relationType" in record and "from" in record)
        for record in source.sample
    )


def read(source: Source) -> Generator[Note]:
    """A note for each entity, with its observations as lines, and one for each relation."""
    namespace = f"memory-graph:{source.path.name.partition('.')[0]}"
    for record in source.records():
        seen = as_list(record.get("observations"))
        texts = [
            str(as_dict(one).get("text", "")) if isinstance(one, dict) else str(one) for one in seen
        ]
        if "relationType" in record:
            key = " ".join(str(record.get(name)) for name in ("from", "relationType", "to"))
            texts = [key]
        else:
            key = str(record.get("name") or "")
        metadata = without(record, "name", "observations")
        about = [without(as_dict(one), "text") for one in seen]
        metadata |= {"observations": about} if any(about) else {}
        times = [found for one in [*about, record] if (found := moment(_time(one)))]
        try:
            item = MemoryItem(key=key, value="\n".join(texts), metadata=metadata,
                              created_at=min(times) if times else None)  # fmt: skip
        except ValueError:
            source.leave_out("an entity whose name makes no key")
            continue
        source.account.taken += 1
        yield Note(namespace, item)


def _time(record: dict[str, Any]) -> Any:
    return record.get("timestamp") or record.get("_savedAt")


MEMORY_GRAPH = Format("memory-graph", "Knowledge-graph memory (JSON lines)", recognises, read)
