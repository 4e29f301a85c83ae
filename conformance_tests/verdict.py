"""The verdict: what a run of the suite says about each guarantee."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from conformance_tests.contract import NOT_SHOWN, SHOWN_BY_TIER, UNPROVABLE, Guarantee
from conformance_tests.proves import AMID, TIERS
from conformance_tests.record import Ended, Outcome, Record
from stores_core.backend import Backend

CONFORMANT, FAILED, COULD_NOT_RUN, PARTIAL = 0, 1, 2, 3
"""The exit codes."""

WORDS = {CONFORMANT: "conformant", FAILED: "failed", PARTIAL: "partial"}
"""What the exit codes stand for; any other is "could not run"."""


class State(StrEnum):
    """What a run says about one guarantee."""

    PROVED = "proved"
    PARTLY = "partly run"
    FAILED = "FAILED"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"
    UNPROVABLE = "unprovable"


NEVER_OPTIONAL = frozenset({"ALL-10"})
"""Guarantees that apply to every backend, whichever stores it has."""

FINE = frozenset({State.PROVED, State.NOT_APPLICABLE, State.UNPROVABLE})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of the backend itself; ``opener`` is what opened it.

    ``versions`` are those of its server and stored format, where its admin tells.
    """

    opener: str
    name: str
    durability: str
    capabilities: tuple[str, ...]
    offered: tuple[str, ...]
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, opener: str, backend: Backend, versions: Mapping[str, str]) -> "Facts":
        return cls(
            opener,
            backend.name,
            backend.durability.value,
            tuple(sorted(capability.value for capability in backend.capabilities)),
            tuple(sorted(backend.offered)),
            versions,
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """One guarantee: its state, how many checks passed, which failed, and the reasons.

    ``tiers`` are those of which a check passed.
    """

    guarantee: Guarantee
    state: State
    passed: int
    failed: tuple[str, ...]
    why: tuple[str, ...]
    tiers: frozenset[str] = frozenset()

    @property
    def not_shown(self) -> str:
        """The part that these checks leave unproved, "" where there is none."""
        number = self.guarantee.number
        lifted = SHOWN_BY_TIER.get(number) in self.tiers
        return "" if lifted else NOT_SHOWN.get(number, "")


@dataclass(frozen=True, slots=True)
class Tier:
    """What became of the checks of one tier, and why some were left out."""

    name: str
    passed: int
    failed: int
    left_out: int
    why: tuple[str, ...]

    @classmethod
    def of(cls, name: str, ended: Collection[Ended]) -> "Tier":
        count = Counter(each.outcome for each in ended)
        out = (Outcome.NOT_RUN, Outcome.NOT_APPLICABLE)
        why = dict.fromkeys(each.why for each in ended if each.outcome in out)
        left_out = sum(count[outcome] for outcome in out)
        return cls(name, count[Outcome.PASSED], count[Outcome.FAILED], left_out, tuple(why))


def judge(
    guarantee: Guarantee,
    checks: Mapping[str, Ended],
    tier_of: Callable[[str], str] = lambda _: "A",
) -> Judged:
    """One guarantee by the checks that prove it, of which each is of a tier."""
    of = {outcome: [c for c in checks if checks[c].outcome is outcome] for outcome in Outcome}
    left_out = of[Outcome.NOT_RUN] or of[Outcome.NOT_APPLICABLE]
    why = tuple(dict.fromkeys(checks[check].why for check in left_out))
    if of[Outcome.FAILED]:
        state = State.FAILED
    elif of[Outcome.PASSED]:
        state = State.PARTLY if of[Outcome.NOT_RUN] else State.PROVED
    elif of[Outcome.NOT_RUN]:
        state = State.NOT_RUN
    elif of[Outcome.NOT_APPLICABLE] and guarantee.number not in NEVER_OPTIONAL:
        state = State.NOT_APPLICABLE
    elif of[Outcome.NOT_APPLICABLE]:
        state = State.NOT_RUN
    elif guarantee.number in UNPROVABLE:
        state, why = State.UNPROVABLE, (UNPROVABLE[guarantee.number],)
    else:
        state, why = State.NOT_RUN, ("no test of this run proves it",)
    passed, failed = of[Outcome.PASSED], tuple(of[Outcome.FAILED])
    return Judged(guarantee, state, len(passed), failed, why, frozenset(map(tier_of, passed)))


class Verdict:
    """A run, judged. ``pytest_code`` is pytest's own exit code, ``seconds`` how long it took.

    ``modules`` are the file names of the test modules that there are, ``started`` is in UTC.
    """

    def __init__(
        self,
        facts: Facts,
        record: Record,
        known: Mapping[str, Guarantee],
        *,
        modules: Iterable[str],
        pytest_code: int,
        quick: bool,
        seed: int,
        started: datetime,
        seconds: float,
    ) -> None:
        self.facts, self.quick, self.seed = facts, quick, seed
        self.started, self.seconds = started, seconds
        self._pytest_code = pytest_code
        self.left_out = sorted(set(modules) - record.modules)
        self.cut = len(record.cut)
        became = {check: record.became_of(check) for check in record.numbers}
        self._ended = {check: ended for check, ended in became.items() if ended}
        self._failed = [c for c, ended in record.ended.items() if ended.outcome is Outcome.FAILED]
        self.judged = [
            judge(
                guarantee,
                {c: end for c, end in self._ended.items() if guarantee.number in record.numbers[c]},
                record.tier_of,
            )
            for guarantee in known.values()
        ]
        self.tiers = [
            Tier.of(tier, [end for c, end in self._ended.items() if record.tier_of(c) == tier])
            for tier in TIERS
        ]
        passed = [c for c, end in self._ended.items() if end.outcome is Outcome.PASSED]
        self.amid = {what: sum(record.amid(c) == what for c in passed) for what in AMID}

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(ended.outcome is outcome for ended in self._ended.values())

    @property
    def checks(self) -> int:
        """How many checks came to an end."""
        return self.count(Outcome.PASSED) + self.count(Outcome.FAILED)

    @property
    def exit_code(self) -> int:
        """0 conformant, 1 failed, 2 could not run, 3 partial."""
        if self._failed:
            return FAILED
        if self._pytest_code > 1 or not self.count(Outcome.PASSED):
            return COULD_NOT_RUN
        if self._pytest_code:
            return FAILED
        whole = not self.left_out and all(judged.state in FINE for judged in self.judged)
        return CONFORMANT if whole else PARTIAL

    @property
    def word(self) -> str:
        """The verdict in a word or three."""
        return WORDS.get(self.exit_code, "could not run")

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        profile = " (quick profile)" if self.quick else ""
        passed = self.count(Outcome.PASSED)
        if self.exit_code == CONFORMANT:
            return (
                f"conformant{profile}: every guarantee that applies was proved, by {passed} checks"
            )
        if self.exit_code == FAILED:
            broken = sum(judged.state is State.FAILED for judged in self.judged)
            return f"not conformant{profile}: {broken} of {len(self.judged)} guarantees failed"
        if self.exit_code == COULD_NOT_RUN:
            return f"could not run: no verdict from {passed} passed checks (pytest: {self._code})"
        open_ones = sum(judged.state not in FINE for judged in self.judged)
        missing = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return (
            f"partial{profile}: {open_ones} of {len(self.judged)} guarantees were not or not "
            f"fully examined, so this says nothing about conformance{missing}"
        )

    @property
    def _code(self) -> str:
        names = ("passed", "failed", "interrupted", "internal error", "usage error", "no tests")
        return names[self._pytest_code] if self._pytest_code < len(names) else "unknown"
