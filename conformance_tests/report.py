"""A verdict for people and programs: a table, JSON, a Markdown section and a badge."""

import platform
import textwrap
from collections.abc import Iterable
from html import escape
from importlib.metadata import version

from conformance_tests.contract import CONTRACT_VERSION, SECTIONS
from conformance_tests.proves import TIERS
from conformance_tests.record import Outcome
from conformance_tests.verdict import (
    CONFORMANT,
    FAILED,
    FINE,
    PARTIAL,
    Judged,
    State,
    Tier,
    Verdict,
)

NAMES_SHOWN, REASONS_SHOWN = 5, 2
MARGIN = " " * 11

_COLOURS = {CONFORMANT: "#2c7a3f", PARTIAL: "#8a6d00", FAILED: "#b3261e"}
_LETTER = 6.6  # pixels that a letter of 11px Verdana takes on average
_PADDING = 12


def table(verdict: Verdict) -> str:
    """All of it for people."""
    facts = verdict.facts
    declared = ", ".join(facts.capabilities) or "nothing"
    cut = f", {verdict.cut} samples cut" if verdict.cut else ""
    lines = [
        f"Verdict on {facts.name}, opened by {facts.opener}",
        f"  offers {', '.join(facts.offered) or 'nothing'}",
        f"  declares {declared}; durability {facts.durability}",
        f"  {_versions(verdict)}; contract {CONTRACT_VERSION}",
        f"  {_profile(verdict)} profile{cut}, seed {verdict.seed}, {_date(verdict)}; "
        f"{verdict.checks} checks in {verdict.seconds:.1f} s",
        "",
    ]
    for judged in verdict.judged:
        lines.append(
            f"  {judged.guarantee.number:<8} {judged.state:<15} {_detail(judged)}".rstrip()
        )
        if judged.state is State.FAILED:
            lines.append(textwrap.indent(textwrap.fill(judged.guarantee.text, 88), MARGIN))
            lines += [f"{MARGIN}- {check}" for check in judged.failed[:NAMES_SHOWN]]
    notes = [j for j in verdict.judged if j.passed and j.not_shown]
    if notes:
        lines += ["", "  This run does not show:"]
        lines += [f"  {j.guarantee.number:<8} {j.not_shown}" for j in notes]
    lines += ["", *(f"  {_tier(tier)}" for tier in verdict.tiers)]
    lines.append(f"  {_amid(verdict)}")
    return "\n".join([*lines, "", verdict.sentence])


def as_json(verdict: Verdict) -> dict[str, object]:
    """All of it for programs."""
    facts = verdict.facts
    return {
        "verdict": verdict.word,
        "conformant": verdict.exit_code == CONFORMANT,
        "sentence": verdict.sentence,
        "contract_version": CONTRACT_VERSION,
        "package_version": version("agent-stores"),
        "python_version": platform.python_version(),
        "profile": _profile(verdict),
        "seed": verdict.seed,
        "started": verdict.started.isoformat(timespec="seconds"),
        "duration_seconds": round(verdict.seconds, 3),
        "backend": {
            "opener": facts.opener,
            "name": facts.name,
            "versions": dict(facts.versions),
            "durability": facts.durability,
            "capabilities": list(facts.capabilities),
            "offered": list(facts.offered),
        },
        "checks": {
            **{outcome.value: verdict.count(outcome) for outcome in Outcome},
            "cut": verdict.cut,
        },
        "tiers": {
            tier.name: {
                "what": TIERS[tier.name],
                "passed": tier.passed,
                "failed": tier.failed,
                "left out": tier.left_out,
                "why": list(tier.why),
            }
            for tier in verdict.tiers
        },
        "amid": verdict.amid,
        "states": {
            state.value.lower(): sum(judged.state is state for judged in verdict.judged)
            for state in State
        },
        "modules_left_out": verdict.left_out,
        "guarantees": [
            {
                "number": judged.guarantee.number,
                "text": judged.guarantee.text,
                "home": judged.guarantee.home,
                "state": judged.state.value.lower(),
                "passed": judged.passed,
                "failed": list(judged.failed),
                "why": list(judged.why),
                "tiers": sorted(judged.tiers),
                "not_shown": judged.not_shown,
            }
            for judged in verdict.judged
        ],
    }


def as_markdown(verdict: Verdict) -> str:
    """A section to paste into a README: the facts, and a row for each part of the contract."""
    facts = verdict.facts
    rows = [
        ("Verdict", verdict.sentence),
        ("Durability", facts.durability),
        ("Declares", ", ".join(facts.capabilities) or "nothing"),
        ("Versions", f"contract {CONTRACT_VERSION}, {_versions(verdict)}"),
        (
            "Run",
            f"{_profile(verdict)} profile, seed {verdict.seed}, {_date(verdict)}, "
            f"{verdict.checks} checks in {verdict.seconds:.0f} s",
        ),
    ]
    lines = [f"**{_cell(facts.name)}: {verdict.word}**", "", "| | |", "| --- | --- |"]
    rows += [(f"Tier {tier.name}", _tier(tier)) for tier in verdict.tiers]
    rows.append(("Among them", _amid(verdict)))
    lines += [f"| {name} | {_cell(text)} |" for name, text in rows]
    lines += ["", "| Part of the contract | proved | not proved |", "| --- | ---: | --- |"]
    for kind, title in SECTIONS:
        of = [j for j in verdict.judged if j.guarantee.home.partition(".")[0] == kind.__name__]
        proved = sum(judged.state is State.PROVED for judged in of)
        if of:
            lines.append(f"| {title} | {proved} of {len(of)} | {_cell(_others(of))} |")
    return "\n".join(lines) + "\n"


def as_badge(verdict: Verdict) -> str:
    """A picture for a README, as SVG: which contract, and what came out."""
    left, right = f"agent-stores contract {CONTRACT_VERSION}", verdict.word
    if verdict.exit_code == CONFORMANT:
        profile = ", quick" if verdict.quick else ""
        right = f"{verdict.word} · {verdict.count(Outcome.PASSED):,} checks{profile}"
    a, b = (round(len(text) * _LETTER) + _PADDING for text in (left, right))
    colour = _COLOURS.get(verdict.exit_code, "#5a5a5a")
    title = escape(f"{left}: {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{a + b}" height="20" rx="3" fill="#3c3c3c"/>'
        f'<path d="M{a} 0h{b - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{b - 3}z" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="{a / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{a + b / 2:g}" y="14">{escape(right)}</text></g></svg>\n'
    )


def _detail(judged: Judged) -> str:
    """What stands beside the state in the table."""
    checks = f"{judged.passed} check{'' if judged.passed == 1 else 's'}"
    if judged.state is State.PROVED:
        return checks
    if judged.state is State.FAILED:
        return f"{len(judged.failed)} of {judged.passed + len(judged.failed)} checks failed"
    more = "; …" if len(judged.why) > REASONS_SHOWN else ""
    why = "; ".join(judged.why[:REASONS_SHOWN]) + more
    return f"{checks}; {why}" if judged.state is State.PARTLY else why


def _tier(tier: Tier) -> str:
    """What was run of a tier, and why the rest was not."""
    name = f"tier {tier.name} ({TIERS[tier.name]})"
    ran = f"{tier.passed + tier.failed} checks" if tier.passed + tier.failed else "NOT RUN"
    if not tier.left_out:
        return f"{name}: {ran}"
    more = "; …" if len(tier.why) > REASONS_SHOWN else ""
    return f"{name}: {ran}, {tier.left_out} left out: {'; '.join(tier.why[:REASONS_SHOWN])}{more}"


def _amid(verdict: Verdict) -> str:
    return (
        f"{verdict.amid['others']} checks passed amid other writers, "
        f"{verdict.amid['faults']} amid faults"
    )


def _others(of: Iterable[Judged]) -> str:
    """The guarantees that were not proved, by state."""
    by_state: dict[State, list[str]] = {}
    for judged in of:
        if judged.state is not State.PROVED:
            by_state.setdefault(judged.state, []).append(judged.guarantee.number)
    # What failed or was left out comes first.
    states = sorted(by_state, key=lambda state: state in FINE)
    return "; ".join(f"{state.value}: {', '.join(by_state[state])}" for state in states)


def _versions(verdict: Verdict) -> str:
    ours = [("agent-stores", version("agent-stores")), ("Python", platform.python_version())]
    return ", ".join(f"{name} {text}" for name, text in [*ours, *verdict.facts.versions.items()])


def _profile(verdict: Verdict) -> str:
    return "quick" if verdict.quick else "full"


def _date(verdict: Verdict) -> str:
    return verdict.started.date().isoformat()


def _cell(text: str) -> str:
    """Text that stays in its cell, whatever a stranger's backend calls itself."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")
