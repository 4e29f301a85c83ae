"""Which runs were written to while they were read: fingerprints of headers, eight bytes each."""

from array import array
from collections.abc import AsyncGenerator
from hashlib import blake2b

import numpy as np

from stores_cli.transfer import Names, Piece, Selection, infos_of
from stores_core.backend import Backend
from stores_core.codec import canonical
from stores_core.moving import ImportRunRequest
from stores_core.runs import RunInfo


class Watch:
    """Remembers how runs were, so that a look at their headers afterwards tells which moved."""

    def __init__(self) -> None:
        self._seen = array("Q")

    async def over(self, pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
        """The same pieces, remembering the runs among them."""
        async for piece in pieces:
            if isinstance(piece, ImportRunRequest):
                self._seen.append(_fingerprint(piece.run.info))
            yield piece

    async def name_moved(self, source: Backend, selection: Selection, moved: Names) -> None:
        """Name the wanted runs that are not as they were: written to since, or made since."""
        seen = np.sort(np.array(self._seen, dtype=np.uint64))
        async for info in infos_of(source.runs, selection):
            fingerprint = np.uint64(_fingerprint(info))
            place = int(np.searchsorted(seen, fingerprint))
            if place == len(seen) or seen[place] != fingerprint:
                moved.add(info.id)


def _fingerprint(info: RunInfo) -> int:
    return int.from_bytes(blake2b(canonical(info).encode(), digest_size=8).digest())
