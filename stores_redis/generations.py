"""Generations of vectors: each is of one embedder, and a note has at most one vector in each.

The first generation of a bucket is the one in use. A script that changes notes has to reach the
vectors of all of them, so it is passed those that the client knows of; where it finds another one
it writes nothing and names them all. A generation is never used again once it was given up, so
whatever a cut leaves of it is never taken for a vector.
"""

import secrets
from hashlib import blake2b

from stores_core.moving import EmbedderInfo
from stores_redis.keys import Bucket


def info_of(text: bytes) -> EmbedderInfo:
    """An embedder from its text as it is stored."""
    dimensions, _, name = text.partition(b" ")
    return EmbedderInfo(name=name.decode(), dimensions=int(dimensions))


def info_text(info: EmbedderInfo | None) -> str:
    """The inverse."""
    return "" if info is None else f"{info.dimensions} {info.name}"


def _mark(info: EmbedderInfo) -> str:
    return blake2b(info_text(info).encode(), digest_size=8).hexdigest()


class Generations:
    """What one client knows of the generations of a tenant's buckets."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def known(self, bucket: Bucket) -> str:
        """The generations, a space between them."""
        return self._known.get(bucket.tag, "")

    def learn(self, bucket: Bucket, names: bytes) -> None:
        """Take over what a script found."""
        self._known[bucket.tag] = names.decode()

    def of(self, bucket: Bucket, info: EmbedderInfo) -> str:
        """The generation of an embedder; the name of a new one where none is known."""
        mark = _mark(info)
        for name in self.known(bucket).split():
            if name.startswith(mark):
                return name
        return f"{mark}-{secrets.token_hex(4)}"

    def passed(self, bucket: Bucket, mine: str) -> list[str]:
        """The generations that a script is to be passed."""
        names = self.known(bucket).split()
        return names if not mine or mine in names else [*names, mine]
