"""The verdict: what a run of the suite says about each guarantee, as a table and as JSON."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

from conformance_tests.contract import CONTRACT_VERSION, NOT_SHOWN, UNPROVABLE, Guarantee
from conformance_tests.record import Ended, Outcome, Record
from stores_core.backend import Backend

CONFORMANT, FAILED, COULD_NOT_RUN, PARTIAL = 0, 1, 2, 3
"""The exit codes."""

NAMES_SHOWN, REASONS_SHOWN = 5, 2
MARGIN = " " * 11


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
    """What is said of the backend itself; ``opener`` is what opened it."""

    opener: str
    name: str
    durability: str
    capabilities: tuple[str, ...]
    offered: tuple[str, ...]

    @classmethod
    def of(cls, opener: str, backend: Backend) -> "Facts":
        return cls(
            opener,
            backend.name,
            backend.durability.value,
            tuple(sorted(capability.value for capability in backend.capabilities)),
            tuple(sorted(backend.offered)),
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """One guarantee: its state, how many checks passed, which failed, and the reasons."""

    guarantee: Guarantee
    state: State
    passed: int
    failed: tuple[str, ...]
    why: tuple[str, ...]

    def detail(self) -> str:
        """What stands beside the state in the table."""
        checks = f"{self.passed} check{'' if self.passed == 1 else 's'}"
        if self.state is State.PROVED:
            return checks
        if self.state is State.FAILED:
            return f"{len(self.failed)} of {self.passed + len(self.failed)} checks failed"
        more = "; …" if len(self.why) > REASONS_SHOWN else ""
        why = "; ".join(self.why[:REASONS_SHOWN]) + more
        return f"{checks}; {why}" if self.state is State.PARTLY else why


def judge(guarantee: Guarantee, checks: Mapping[str, Ended]) -> Judged:
    """One guarantee by the checks that prove it."""
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
    return Judged(guarantee, state, len(of[Outcome.PASSED]), tuple(of[Outcome.FAILED]), why)


class Verdict:
    """A run, judged. ``pytest_code`` is pytest's own exit code, ``seconds`` how long it took.

    ``modules`` are the file names of the test modules that there are.
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
        seconds: float,
    ) -> None:
        self.facts, self.quick, self.seed, self.seconds = facts, quick, seed, seconds
        self._pytest_code = pytest_code
        self._missing = sorted(set(modules) - record.modules)
        self._cut = len(record.cut)
        became = {check: record.became_of(check) for check in record.numbers}
        self._ended = {check: ended for check, ended in became.items() if ended}
        self._failed = [c for c, ended in record.ended.items() if ended.outcome is Outcome.FAILED]
        self.judged = [
            judge(
                guarantee,
                {c: end for c, end in self._ended.items() if guarantee.number in record.numbers[c]},
            )
            for guarantee in known.values()
        ]

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(ended.outcome is outcome for ended in self._ended.values())

    @property
    def exit_code(self) -> int:
        """0 conformant, 1 failed, 2 could not run, 3 partial."""
        if self._failed:
            return FAILED
        if self._pytest_code > 1 or not self.count(Outcome.PASSED):
            return COULD_NOT_RUN
        if self._pytest_code:
            return FAILED
        whole = not self._missing and all(judged.state in FINE for judged in self.judged)
        return CONFORMANT if whole else PARTIAL

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
        missing = f"; left out: {', '.join(self._missing)}" if self._missing else ""
        return (
            f"partial{profile}: {open_ones} of {len(self.judged)} guarantees were not or not "
            f"fully examined, so this says nothing about conformance{missing}"
        )

    @property
    def _code(self) -> str:
        names = ("passed", "failed", "interrupted", "internal error", "usage error", "no tests")
        return names[self._pytest_code] if self._pytest_code < len(names) else "unknown"

    def table(self) -> str:
        """All of it for people."""
        facts = self.facts
        declared = ", ".join(facts.capabilities) or "nothing"
        cut = f", {self._cut} samples cut" if self._cut else ""
        lines = [
            f"Verdict on {facts.name}, opened by {facts.opener}",
            f"  offers {', '.join(facts.offered) or 'nothing'}",
            f"  declares {declared}; durability {facts.durability}",
            f"  {'quick' if self.quick else 'full'} profile{cut}, seed {self.seed}; "
            f"{len(self._ended)} checks in {self.seconds:.1f} s",
            "",
        ]
        for judged in self.judged:
            lines.append(
                f"  {judged.guarantee.number:<8} {judged.state:<15} {judged.detail()}".rstrip()
            )
            if judged.state is State.FAILED:
                lines.append(textwrap.indent(textwrap.fill(judged.guarantee.text, 88), MARGIN))
                lines += [f"{MARGIN}- {check}" for check in judged.failed[:NAMES_SHOWN]]
        notes = [j for j in self.judged if j.passed and j.guarantee.number in NOT_SHOWN]
        if notes:
            lines += ["", "  No black box shows:"]
            lines += [f"  {j.guarantee.number:<8} {NOT_SHOWN[j.guarantee.number]}" for j in notes]
        return "\n".join([*lines, "", self.sentence])

    def as_json(self) -> dict[str, object]:
        """All of it for programs."""
        words = {CONFORMANT: "conformant", FAILED: "failed", PARTIAL: "partial"}
        return {
            "verdict": words.get(self.exit_code, "could not run"),
            "conformant": self.exit_code == CONFORMANT,
            "sentence": self.sentence,
            "contract_version": CONTRACT_VERSION,
            "package_version": version("agent-stores"),
            "profile": "quick" if self.quick else "full",
            "seed": self.seed,
            "duration_seconds": round(self.seconds, 3),
            "backend": {
                "opener": self.facts.opener,
                "name": self.facts.name,
                "durability": self.facts.durability,
                "capabilities": list(self.facts.capabilities),
                "offered": list(self.facts.offered),
            },
            "checks": {
                **{outcome.value: self.count(outcome) for outcome in Outcome},
                "cut": self._cut,
            },
            "states": {
                state.value.lower(): sum(judged.state is state for judged in self.judged)
                for state in State
            },
            "modules_left_out": self._missing,
            "guarantees": [
                {
                    "number": judged.guarantee.number,
                    "text": judged.guarantee.text,
                    "home": judged.guarantee.home,
                    "state": judged.state.value.lower(),
                    "passed": judged.passed,
                    "failed": list(judged.failed),
                    "why": list(judged.why),
                    "not_shown": NOT_SHOWN.get(judged.guarantee.number, ""),
                }
                for judged in self.judged
            ],
        }
