"""What became of the mutants: docs/mutants.json, and docs/mutants.md, the page made of it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.mutants.subjects import ROOT, SUBJECTS

JSON = ROOT / "docs" / "mutants.json"
LEAST_KILLED = 0.9

_HEAD = """\
# Mutants

A mutant is a store of ours with one small change to its code, made by a machine: `<` becomes
`<=`, a call is left out, a condition of a query is gone. The conformance suite alone is run against
each, with the checks that reach the changed lines. A mutant that it does not notice shows a hole in
the suite, or is listed here with the reason why no test has to notice it. `make mutants` draws the
mutants by a seed and runs those that have no result yet; it makes this page and `mutants.json`, but
for the reasons, which are kept there by hand. A store that is not listed has not been run, and one
with fewer mutants than 200 not to the end.

Some survivors are the same to everybody: nothing that is stored, told or measured is another. The
last column is the share that was killed of all others. Modules that only a damaged file, a failing
driver or an older format reaches are left out, since our own tests reach them:
{left_out}.
"""


@dataclass(slots=True)
class Fate:
    """``by`` is the test that failed, ``how`` it ended; both are empty where none did.

    ``tests`` is how many were picked, ``why`` a reason why none has to notice it; it is the
    ``same`` where nothing that is stored, told or measured is another.
    """

    by: str
    how: str
    tests: int
    why: str = ""
    same: bool = False


@dataclass(slots=True)
class Draw:
    """A sample of mutants of one store: so many ``of`` those that there are, and their fates."""

    seed: int
    of: int
    fates: dict[str, Fate] = field(default_factory=dict[str, Fate])

    @property
    def survivors(self) -> dict[str, Fate]:
        return {name: fate for name, fate in self.fates.items() if not fate.by}

    @property
    def killed(self) -> float:
        """The share of mutants that the suite noticed."""
        return 1 - len(self.survivors) / len(self.fates)

    @property
    def killed_of_others(self) -> float:
        """The share that it noticed of the mutants that are not the same to everybody."""
        same = sum(fate.same for fate in self.survivors.values())
        return 1 - (len(self.survivors) - same) / (len(self.fates) - same)


def read(path: Path = JSON) -> dict[str, Draw]:
    if not path.exists():
        return {}
    held = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Draw(
            seed=draw["seed"],
            of=draw["of"],
            fates={mutant: Fate(**fate) for mutant, fate in draw["fates"].items()},
        )
        for name, draw in held.items()
    }


def write(draws: dict[str, Draw], path: Path = JSON) -> None:
    """Write the results and the page."""
    held = {name: asdict(draws[name]) for name in sorted(draws)}
    path.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(draws), encoding="utf-8")


def page(draws: dict[str, Draw]) -> str:
    left_out = sorted(
        f"`{subject.folder}/{name}`" for subject in SUBJECTS.values() for name in subject.left_out
    )
    lines = [_HEAD.format(left_out=", ".join(left_out))]
    lines += [
        "| store | mutants | of | seed | killed | by an assertion | otherwise | survivors "
        "| the same | killed of the others |"
    ]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, draw in sorted(draws.items()):
        asserted = sum(fate.how == "caught" for fate in draw.fates.values())
        died = len(draw.fates) - len(draw.survivors)
        same = sum(fate.same for fate in draw.survivors.values())
        lines.append(
            f"| {name} | {len(draw.fates)} | {draw.of} | {draw.seed} | {draw.killed:.1%} "
            f"| {asserted} | {died - asserted} | {len(draw.survivors)} "
            f"| {same} | {draw.killed_of_others:.1%} |"
        )
    lines.append(
        "\n“Otherwise” is an error that is no assertion, a hang, or a store that does not open."
    )
    for name, draw in sorted(draws.items()):
        lines.append(f"\n## Survivors of {name}\n")
        for mutant, fate in sorted(draw.survivors.items()):
            why = fate.why or "Not yet explained."
            lines.append(
                f"{why} Tests that may reach it: {fate.tests}.\n\n```text\n{mutant}\n```\n"
            )
    return "\n".join(lines) + "\n"
