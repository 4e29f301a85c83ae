"""The kill matrix as a page."""

import sys
from collections.abc import Mapping
from itertools import groupby

from conformance_tests.broken.defect import Defect
from conformance_tests.broken.matrix import Base

NAMES_SHOWN = 4

_HEAD = """\
# Which test catches which defect

A suite that finds nothing may be a suite that looks at nothing. So it is run against stores of
which each has one plausible defect; they lie in `conformance_tests/broken/defects`. A defect stands
behind the front of a good backend and changes a request or an answer, or does in two steps what has
to be one; so the same class spoils every backend. It counts as caught only when the test named here
fails by an assertion: not by a crash, not by the end of its time.

This page is made by `make kill-matrix` from [kill-matrix.json](kill-matrix.json).
"""

_SAMPLES = """\
Samples: "all" runs every check; "first" runs the first sample of each test that does not take long,
with the numbers of the quick profile, and all samples of each test that is named here; "named" runs
for each defect only the test that is named for it, so it says nothing of how much else a defect
passes. Tests that say that they need other stores alone are not run against a defect, and count as
passed. Programs and histories at random, and tests that start programs of their own, are not run.
The base "amid faults" has the defects that show only when something breaks: each on a backend where
that can happen (files, Redis, memory), against the test that is named for it.
"""


def page(defects: Mapping[str, Defect], bases: Mapping[str, Base]) -> str:
    """The page, as Markdown."""
    parts = [_HEAD, _facts(defects, bases), *_defects(defects, bases), *_tests(defects, bases)]
    return "\n".join(parts)


def _facts(defects: Mapping[str, Defect], bases: Mapping[str, Base]) -> str:
    lines = [
        "",
        "| base | defects | caught by the named test | samples | tests | checks | fewest passed |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for name, base in sorted(bases.items()):
        known = [defect for defect in defects.values() if defect.name in base.defects]
        caught = sum(map(base.is_caught, known))
        checks = sum(checks for _, checks in base.tests.values())
        least = f"{min((base.passed(one.name) for one in known), default=1.0):.1%}"
        lines.append(
            f"| {name} | {len(known)} | {caught} | {base.samples} | {len(base.tests)} | {checks} "
            f"| {least if base.is_wide else 'not run'} |"
        )
    return "\n".join([*lines, "", _SAMPLES])


def _defects(defects: Mapping[str, Defect], bases: Mapping[str, Base]) -> list[str]:
    parts = ["## Defects\n"]
    ordered = sorted(defects.values(), key=_module)
    for module, group in groupby(ordered, _module):
        lines = [
            f"### {_title(module)}\n",
            "| defect | what it does | breaks | caught by | also by | passes |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for defect in group:
            also = [
                str(len(base.defects[defect.name].caught_by()) - base.is_caught(defect))
                for _, base in sorted(bases.items())
                if base.is_wide and defect.name in base.defects
            ]
            passes = [
                f"{base.passed(defect.name):.1%}"
                for _, base in sorted(bases.items())
                if base.is_wide and defect.name in base.defects
            ]
            lines.append(
                f"| `{defect.name}` | {defect.sentence} | {', '.join(defect.breaks)} "
                f"| `{defect.caught_by}` | {', '.join(also)} | {', '.join(passes)} |"
            )
        parts.append("\n".join([*lines, ""]))
    return parts


def _module(defect: Defect) -> str:
    return defect.broken.__module__


def _title(module: str) -> str:
    return (sys.modules[module].__doc__ or module).splitlines()[0].rstrip(".")


def _tests(defects: Mapping[str, Defect], bases: Mapping[str, Base]) -> list[str]:
    kills = _kills(defects, bases)
    idle = sum(not names for names in kills.values())
    parts = [
        "## Tests\n",
        f"{len(kills) - idle} of {len(kills)} tests catch at least one of these defects, on one "
        "base at least. First come those that the test has to catch, in bold, then those that few "
        "others catch. A test that catches none is marked: it guards against something that no "
        "defect here does, as what the front refuses before any store is asked; or it is worth "
        "nothing. This page cannot tell.\n",
    ]
    for file, group in groupby(kills.items(), lambda item: item[0].partition("::")[0]):
        lines = [f"### {file}\n", "| test | catches |", "| --- | --- |"]
        for test, names in group:
            told = [f"**{n}**" if defects[n].caught_by == test else n for n in names[:NAMES_SHOWN]]
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            caught = ", ".join(told) + more or "*none of these*"
            lines.append(f"| `{test.partition('::')[2]}` | {caught} |")
        parts.append("\n".join([*lines, ""]))
    return parts


def _kills(defects: Mapping[str, Defect], bases: Mapping[str, Base]) -> dict[str, list[str]]:
    """The defects that each test catches on any base."""
    found: dict[str, dict[str, int]] = {}
    for base in bases.values():
        for test in base.tests:
            found.setdefault(test, {})
        for name, column in base.defects.items():
            for test in column.caught_by() if name in defects else ():
                found.setdefault(test, {})[name] = len(column.caught_by())

    def rank(test: str, name: str) -> tuple[bool, int, str]:
        return defects[name].caught_by != test, found[test][name], name

    return {test: sorted(found[test], key=lambda name: rank(test, name)) for test in sorted(found)}
