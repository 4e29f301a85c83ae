"""Sessions that begin with a copy of another one, found by equal messages at equal times.

Some programs continue a session in a new file that repeats the old one and names no link. Where
each message bears the source's own time, an equal beginning is no accident.
"""

from hashlib import blake2b

from stores_cli.importing.sessions import Session
from stores_core.codec import encode


class Lineage:
    """The beginnings of the sessions seen so far, each as one digest."""

    def __init__(self) -> None:
        self._beginnings: dict[bytes, str] = {}

    def settle(self, session: Session) -> None:
        """Make ``session`` a branch of the one that it begins like, if it names no parent."""
        digest = b""
        for at, message in enumerate(session.messages, 1):
            if message.timestamp is None:
                return
            digest = blake2b(digest + encode(message), digest_size=16).digest()
            first = self._beginnings.setdefault(digest, session.key)
            if first == session.key:
                continue
            if session.parent in ("", first) or at > session.at_message:
                session.parent, session.at_message = first, at
