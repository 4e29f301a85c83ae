"""The few things that a backend may lack, declared once and read by runtime and suite alike."""

from enum import StrEnum


class Capability(StrEnum):
    """What a backend can do beyond what every backend must.

    Fork, tenants, listing order and idempotency are never optional, so they are not here.
    """

    SHARED = "shared"
    """Several clients and processes may open one storage at the same time, and each sees what
    any other was told is written. Without it a storage belongs to the process that opened it."""

    EMBEDDINGS = "embeddings"
    """Opened with an embedder, the memory store recalls by embedding. Without it an embedder is
    refused when the backend is opened, and recall is by substring."""

    MOVABLE = "movable"
    """The backend exports and imports what it holds, forks still sharing their prefixes, so data
    moves to and from any other such backend."""


class Durability(StrEnum):
    """What an acknowledged write survives: each level is named by what loses the write."""

    NONE = "none"
    """Lost when our process ends."""

    CLIENT = "client"
    """Survives our process; lost when the server or the machine crashes."""

    BOUNDED = "bounded"
    """A crash of the server or machine loses the last moments."""

    DISK = "disk"
    """Lost only with the disk."""

    REPLICATED = "replicated"
    """Lost only with all of the replicas."""

    UNVERIFIED = "unverified"
    """The server will not say; count on no more than ``client``."""
