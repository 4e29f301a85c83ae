"""Trees of records as lines of talk: the first way taken is the run, later ones are its forks.

Works in the order of the file, so that what was decided for a record never changes when the
session grows.
"""

from collections.abc import Callable

from stores_cli.importing.sessions import Session

GoesOn = Callable[[Session, int], bool]


def only_results(session: Session, at: int) -> bool:
    """A rule for ``goes_on``: all that came after the parent are results of tools, which ran side
    by side."""
    return all(said.role == "tool" for said in session.messages[at:])


class Branches:
    """Which session each node of a tree stands in, and after how many messages."""

    def __init__(self, first: Session) -> None:
        self._first = first
        self._places: dict[str, tuple[Session, int]] = {}
        self.sessions = [first]

    def __contains__(self, node: str) -> bool:
        return node in self._places

    def follow(self, node: str, parent: str, goes_on: GoesOn | None = None) -> Session:
        """The session for a message: that of its parent, or a fork that begins behind the parent
        where the talk went on from there already.

        ``goes_on`` may say that ``node`` belongs to the line all the same: it gets the session and
        how many messages of it came up to the parent. After an unknown parent the first session
        goes on. Call :meth:`place` once the messages of ``node`` are added.
        """
        session, at = self._place_of(parent)
        if len(session.messages) > at and not (goes_on and goes_on(session, at)):
            session = session.branch(f"{self._first.key}/{node}", at)
            self.sessions.append(session)
        return session

    def place(self, node: str, session: Session) -> None:
        """Put on record that ``node`` is the latest of ``session``."""
        if node:
            self._places.setdefault(node, (session, len(session.messages)))

    def beside(self, node: str, parent: str) -> Session:
        """The session for an event, which stands where its parent does and never branches."""
        session, at = self._place_of(parent)
        if node:
            self._places.setdefault(node, (session, at))
        return session

    def _place_of(self, parent: str) -> tuple[Session, int]:
        return self._places.get(parent) or (self._first, len(self._first.messages))
