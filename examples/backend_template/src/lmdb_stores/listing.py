"""What is listed newest first, ties by id: runs and tool results."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from stores_core.limits import looked_at_most

from lmdb_stores.storage import Transaction, name_key

_LAST = 2**63 - 1
_KEPT = 470
"""So many bytes of an id fit into a key beside tenant, filter and time."""


def filters_of(labels: Mapping[str, str], parent: str | None = None) -> list[str]:
    """What stands for labels, and for a parent, as filters."""
    found = [json.dumps(label) for label in labels.items()]
    return [*found, json.dumps(parent)] if parent else found


class Order:
    """The ids of one tenant: in one order all of them, in one for each filter those that fit it.

    A key's value lists the ids that begin alike.
    """

    def __init__(self, table: str, tenant: bytes) -> None:
        self._table, self._tenant = table, tenant

    def add(self, t: Transaction, created: int, id: str, filters: Sequence[str]) -> None:
        """Enter an id; ``created`` is in microseconds since 1970."""
        for key in self._keys(created, id, filters):
            t.put_record(self._table, key, sorted({*self._ids(t, key), id}))

    def remove(self, t: Transaction, created: int, id: str, filters: Sequence[str]) -> None:
        for key in self._keys(created, id, filters):
            left = [one for one in self._ids(t, key) if one != id]
            if left:
                t.put_record(self._table, key, left)
            else:
                t.delete(self._table, key)

    def _keys(self, created: int, id: str, filters: Sequence[str]) -> list[bytes]:
        return [self._home(filter) + _key(created, id) for filter in ("", *filters)]

    def _home(self, filter: str) -> bytes:
        return self._tenant + name_key(filter)

    def _ids(self, t: Transaction, key: bytes) -> list[str]:
        return json.loads(t.get(self._table, key) or b"[]")

    def page(
        self,
        t: Transaction,
        cursor: str,
        limit: int,
        filters: Sequence[str],
        keep: Callable[[str], bool] | None,
    ) -> tuple[list[str], str]:
        """Ids after a cursor that ``keep`` keeps, and the cursor to go on with: "" at the end.

        The order of the first filter is walked. A page ends when it has looked at so many, and may
        be short (RUN-Q4).
        """
        most = limit if keep is None else looked_at_most(limit)
        found: list[str] = []
        last, looked = "", 0
        for created, id in self._after(t, self._home(filters[0] if filters else ""), cursor):
            if len(found) == limit or looked == most:
                return found, last
            last, looked = f"{created} {id}", looked + 1
            if keep is None or keep(id):
                found.append(id)
        return found, ""

    def _after(self, t: Transaction, home: bytes, cursor: str) -> Iterator[tuple[int, str]]:
        moment, _, last = cursor.partition(" ")
        start = _key(int(moment), last) if cursor else b""
        for key, held in t.walk(self._table, home, start):
            created = _LAST - int.from_bytes(key[:8])
            for id in json.loads(held):
                if key != start or id > last:
                    yield created, id


def _key(created: int, id: str) -> bytes:
    return (_LAST - created).to_bytes(8) + id.encode()[:_KEPT]
