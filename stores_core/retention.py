"""How long tool results are kept (TOOL-5)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """What to give up, oldest first: results older than ``age`` seconds, beyond ``count``, beyond
    ``bytes`` of JSON in all. 0 keeps all; the newest one stays."""

    age: float = 0
    count: int = 0
    bytes: int = 0

    def is_set(self) -> bool:
        return bool(self.age or self.count or self.bytes)
