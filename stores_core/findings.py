"""What a verification checked and found."""

from collections import Counter
from collections.abc import Callable

from stores_core.admin import Problem
from stores_core.errors import StoreError


class Findings:
    """What was checked, by kind, and what was found."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.problems: list[Problem] = []

    def add(self, store: str, id: str, what: str, position: int = -1) -> None:
        """Note a problem."""
        self.problems.append(Problem(store=store, id=id, position=position, what=what))

    def check(self, store: str, id: str, work: Callable[[], object], position: int = -1) -> None:
        """Note a problem if ``work`` meets one."""
        what = damage(work)
        if what:
            self.add(store, id, what, position)


def damage(work: Callable[[], object]) -> str:
    """What is wrong with a record that ``work`` reads; "" if nothing."""
    try:
        work()
    except StoreError as error:
        return str(error)
    return ""
