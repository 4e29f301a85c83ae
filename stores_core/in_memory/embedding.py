"""Vectors in memory: one table for each embedder and namespace."""

from stores_core.moving import EmbedderInfo
from stores_core.ranking import VectorTable


class Vectors:
    """All vectors of a tenant: those in use, and those that a re-embedding is filling.

    ``active`` is the embedder whose vectors recall uses; None until the first were written.
    """

    def __init__(self) -> None:
        self.active: EmbedderInfo | None = None
        self._tables: dict[tuple[str, int], dict[str, VectorTable[str]]] = {}

    def table(self, embedder: EmbedderInfo, namespace: str) -> VectorTable[str]:
        tables = self._tables.setdefault((embedder.name, embedder.dimensions), {})
        if namespace not in tables:
            tables[namespace] = VectorTable(embedder.dimensions)
        return tables[namespace]

    def discard(self, namespace: str, key: str) -> None:
        """A note was changed or removed: no vector of it is right any more."""
        for tables in self._tables.values():
            if namespace in tables:
                tables[namespace].discard(key)
                if not len(tables[namespace]):
                    del tables[namespace]

    def activate(self, embedder: EmbedderInfo) -> None:
        """Use this embedder's vectors from now on and forget all others."""
        self.active = embedder
        kept = embedder.name, embedder.dimensions
        self._tables = {kept: self._tables.get(kept, {})}

    def count_bytes(self) -> int:
        return sum(
            4 * dimensions * len(table)
            for (_, dimensions), tables in self._tables.items()
            for table in tables.values()
        )
