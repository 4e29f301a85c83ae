"""Every key and hash tag, in one place.

A key is ``<prefix>:{<tenant>.<bucket>}:<kind>:<name>``. Our tag is the first one in it, and nothing
behind it holds a brace, so that a bucket lies in one slot of a cluster, whatever ids there are. A
tenant's data lies in its buckets, each of them a small store of its own; scripts never reach from
one into another. Within a bucket a script derives keys from the tag that it is given: which logs a
run refers to, only the run's own header knows.
"""

import hashlib
import re
from typing import NamedTuple

from stores_core.errors import InvalidRequestError

PREFIX = "agent-stores"

_PREFIX = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_ESCAPED = re.compile(r"[\x00-\x20!{}:*?\[\]\\%\x7f.]")


def check_prefix(prefix: str) -> str:
    """The prefix, if it may begin our keys. Raises InvalidRequestError."""
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequestError(
            field="prefix",
            found="other characters, or none, or more than 64",
            allowed="up to 64 letters, digits and _ . : / -",
        )
    return prefix


def encoded(name: str) -> str:
    """A name as it stands in keys: each name has one, and no two share it."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02x}", name)


def decoded(name: str) -> str:
    """The inverse of :func:`encoded`."""
    return re.sub(r"%([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)


def bucket_of(name: str, buckets: int) -> int:
    """The home bucket of a name among so many."""
    if buckets == 1:
        return 0
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % buckets


def filter_name(key: str, value: str) -> str:
    """What stands for a label in the name of its index: 32 hexadecimal digits. BLAKE2b, 128 bits.

    A label is up to 1,024 bytes, and the index of it would bear them in each script's arguments.
    """
    text = f"{len(key)} {key}{value}".encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def tenants(prefix: str) -> bytes:
    """The names of the tenants that were opened: a sorted set, all scores 0."""
    return f"{prefix}:tenants".encode()


def storage_meta(prefix: str) -> bytes:
    """What holds for all tenants of a prefix: a hash."""
    return f"{prefix}:storage".encode()


def tenant_meta(prefix: str, tenant: str) -> bytes:
    """A tenant's stored-format version and number of buckets: a hash."""
    return f"{prefix}:{{{encoded(tenant)}}}:meta".encode()


def keys_pattern(prefix: str, tenant: str) -> bytes:
    """What matches all keys in a tenant's buckets, and no other key."""
    return f"{prefix}:{{{encoded(tenant)}.*".encode()


class Bucket:
    """The keys of one bucket of a tenant. ``tag`` is what they all begin with."""

    __slots__ = ("number", "tag")

    def __init__(self, prefix: str, tenant: str, number: int) -> None:
        self.number = number
        self.tag = f"{prefix}:{{{encoded(tenant)}.{number}}}:".encode()

    def step(self) -> bytes:
        """The number of the latest step between revisions that worked here."""
        return self.tag + b"step"

    # Runs. The scripts derive the keys of logs and segments, and those of filters.

    def run(self, id: str) -> bytes:
        """A run's header: a hash."""
        return self._named(b"run", id)

    def run_keys(self, id: str) -> bytes:
        """A run's latest idempotency keys: a hash."""
        return self._named(b"keys", id)

    def runs(self) -> bytes:
        """All runs, newest first: a sorted set of ids by minus their creation."""
        return self.tag + b"runs"

    def forks(self, parent: str) -> bytes:
        """The forks made of an id, in the same order."""
        return self._named(b"forks", parent)

    def label(self, name: str) -> bytes:
        """The runs that bear a label, named by :func:`filter_name`, in the same order."""
        return self.tag + b"label:" + name.encode()

    def segments(self, log: str) -> bytes:
        """Where the segments of a log begin: a sorted set; there is none for a single segment."""
        return self._named(b"segs", log)

    def segment(self, name: str) -> bytes:
        """Entries of a log: a list. ``name`` is one that scripts made, encoded already."""
        return self.tag + b"seg:" + name.encode()

    def users(self, log: str) -> bytes:
        """Who reads a log, by the length needed: a sorted set; none while its owner is alone."""
        return self._named(b"users", log)

    def staged(self) -> bytes:
        """Segments and logs that nothing refers to yet, by the time they were brought."""
        return self.tag + b"staged"

    def trimmable(self) -> bytes:
        """Logs that may hold more than anyone needs: a set."""
        return self.tag + b"trimmable"

    def births(self) -> bytes:
        """Runs whose ids have their home elsewhere, by when they were written, until sweep has seen
        to them: a sorted set."""
        return self.tag + b"births"

    def deaths(self) -> bytes:
        """Such runs that were removed, until sweep has seen that their claims are too: a set."""
        return self.tag + b"deaths"

    # Notes. A namespace is a handful of keys; its vectors have one for each generation.

    def memory(self) -> bytes:
        """Generations of vectors, counts, the floor of versions: a hash."""
        return self.tag + b"memory"

    def embedder(self) -> bytes:
        """The embedder of all buckets, in the first of them: a text."""
        return self.tag + b"embedder"

    def namespaces(self) -> bytes:
        """The namespaces that hold notes: a sorted set, all scores 0."""
        return self.tag + b"namespaces"

    def note_counts(self) -> bytes:
        """The same, by how many notes they hold: a sorted set."""
        return self.tag + b"note-counts"

    def pending_notes(self) -> bytes:
        """The namespaces that have a batch which was decided and is not taken in yet: a set."""
        return self.tag + b"pending-notes"

    def note_batch(self, namespace: str) -> bytes:
        """That batch: a list."""
        return self._named(b"note-batch", namespace)

    def laid_notes(self, token: str) -> bytes:
        """A batch that is being laid out, or was: a list."""
        return self.tag + b"notes-laid:" + token.encode()

    def notes_told(self, token: str) -> bytes:
        """What became of a batch, for the one who put it: a list that ends by itself."""
        return self.tag + b"notes-told:" + token.encode()

    def staged_notes(self) -> bytes:
        """Bodies that no note refers to yet, by the time they were brought: a sorted set."""
        return self.tag + b"staged-notes"

    def notes(self, namespace: str) -> bytes:
        """Records of notes by key: a hash."""
        return self._named(b"notes", namespace)

    def note_order(self, namespace: str) -> bytes:
        """Places of notes, oldest first, each with its key: a sorted set, all scores 0."""
        return self._named(b"note-order", namespace)

    def note_changes(self, namespace: str) -> bytes:
        """Keys of notes by their latest change: a sorted set."""
        return self._named(b"note-changes", namespace)

    def notes_gone(self, namespace: str) -> bytes:
        """Keys of notes that were removed lately, by when: a sorted set."""
        return self._named(b"notes-gone", namespace)

    def note_state(self, namespace: str) -> bytes:
        """Counters of a namespace: a hash."""
        return self._named(b"note-state", namespace)

    def note_bodies(self, namespace: str) -> bytes:
        """Long texts of notes: a hash."""
        return self._named(b"note-bodies", namespace)

    def vectors(self, namespace: str, generation: str) -> bytes:
        """Vectors of one generation by the keys of notes: a hash."""
        return self._named(b"vectors", namespace) + b":" + generation.encode()

    def vector_index(self, namespace: str, generation: str) -> bytes:
        """The same as a vector set, which proposes."""
        return self._named(b"vector-index", namespace) + b":" + generation.encode()

    def vector_keys(self, namespace: str, generation: str) -> tuple[bytes, bytes]:
        """Both keys of a generation."""
        return self.vectors(namespace, generation), self.vector_index(namespace, generation)

    # Tool results.

    def results(self) -> bytes:
        """Headers of results by ref: a hash."""
        return self.tag + b"results"

    def result_order(self) -> bytes:
        """Places of results, newest first, each with its ref: a sorted set, all scores 0."""
        return self.tag + b"result-order"

    def result_labels(self) -> bytes:
        """For each label of a result its :func:`filter_name` and the result's place."""
        return self.tag + b"result-labels"

    def result_bytes(self) -> bytes:
        """How many bytes of JSON all results are: a number."""
        return self.tag + b"result-bytes"

    def result(self, ref: str) -> bytes:
        """The parts of a result, its text first: a list."""
        return self._named(b"result", ref)

    def staged_result(self, token: str) -> bytes:
        """Parts of a result that is being put: a list that ends by itself."""
        return self.tag + b"result-staged:" + token.encode()

    def _named(self, kind: bytes, name: str) -> bytes:
        return self.tag + kind + b":" + encoded(name).encode()


class Place(NamedTuple):
    """Where a run lies, or would: at home, under its id, or in another bucket, under a token that
    no other run ever bears. The home then holds a claim, which names this place."""

    bucket: Bucket
    id: str
    token: str = ""

    @property
    def run(self) -> bytes:
        """The run's header: a hash."""
        if self.token:  # no encoded id has a point
            return self.bucket.tag + b"run:." + self.token.encode()
        return self.bucket.run(self.id)

    @property
    def keys(self) -> bytes:
        """The run's latest idempotency keys: a hash."""
        if self.token:
            return self.bucket.tag + b"keys:." + self.token.encode()
        return self.bucket.run_keys(self.id)

    @property
    def member(self) -> str:
        """What stands for the run in indexes; it sorts as the id does, since no id has a NUL."""
        return f"{self.id}\0{self.token}" if self.token else self.id

    @classmethod
    def of(cls, bucket: Bucket, member: str) -> "Place":
        """The inverse of ``member``."""
        id, _, token = member.partition("\0")
        return cls(bucket, id, token)
