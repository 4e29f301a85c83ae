"""What is listed newest first, ties by id: runs and tool results."""

import json
from collections.abc import Callable, Iterator

from stores_core.limits import looked_at_most

from lmdb_stores.storage import Transaction

_LAST = 2**63 - 1
_KEPT = 480
"""So many bytes of an id fit into a key beside tenant and time."""


class Order:
    """The ids of one tenant in one table. A key's value lists the ids that begin alike."""

    def __init__(self, table: str, tenant: bytes) -> None:
        self._table, self._tenant = table, tenant

    def add(self, t: Transaction, created: int, id: str) -> None:
        """Enter an id; ``created`` is in microseconds since 1970."""
        key = self._tenant + _key(created, id)
        ids: list[str] = json.loads(t.get(self._table, key) or b"[]")
        t.put_record(self._table, key, sorted([*ids, id]))

    def remove(self, t: Transaction, created: int, id: str) -> None:
        key = self._tenant + _key(created, id)
        ids: list[str] = json.loads(t.get(self._table, key) or b"[]")
        ids.remove(id)
        if ids:
            t.put_record(self._table, key, ids)
        else:
            t.delete(self._table, key)

    def page(
        self, t: Transaction, cursor: str, limit: int, keep: Callable[[str], bool] | None
    ) -> tuple[list[str], str]:
        """Ids after a cursor, and the cursor to go on with: "" at the end.

        A page with a filter ends when it has looked at so many, and may be short (RUN-Q4).
        """
        most = limit if keep is None else looked_at_most(limit)
        found: list[str] = []
        last, looked = "", 0
        for created, id in self._after(t, cursor):
            if len(found) == limit or looked == most:
                return found, last
            last, looked = f"{created} {id}", looked + 1
            if keep is None or keep(id):
                found.append(id)
        return found, ""

    def _after(self, t: Transaction, cursor: str) -> Iterator[tuple[int, str]]:
        moment, _, last = cursor.partition(" ")
        start = _key(int(moment), last) if cursor else b""
        for key, held in t.walk(self._table, self._tenant, start):
            created = _LAST - int.from_bytes(key[:8])
            for id in json.loads(held):
                if key != start or id > last:
                    yield created, id


def _key(created: int, id: str) -> bytes:
    return (_LAST - created).to_bytes(8) + id.encode()[:_KEPT]
