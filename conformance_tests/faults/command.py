"""The command line of what makes faults in large numbers, and what came of them."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

LEAST = 20
"""Acknowledged operations within the window of a fault, below which it is no proof of anything."""

SOUND, FAULTY, COULD_NOT_RUN, TOO_LITTLE = 0, 1, 2, 3
"""The exit codes."""


@dataclass
class Tally:
    """Faults that were made, and what was acknowledged and found wrong.

    ``not_run`` counts the faults within whose window too little was acknowledged; they are no part
    of ``made``. ``lost`` counts what was acknowledged and is gone, where that may be. ``unproved``
    is why nothing can be said, "" where something is; ``unseen`` names what was not looked at.
    """

    made: int = 0
    not_run: int = 0
    acknowledged: int = 0
    lost: int = 0
    faults: list[str] = field(default_factory=list[str])
    unproved: str = ""
    unseen: list[str] = field(default_factory=list[str])

    def count(self, made: int, acknowledged: int) -> None:
        """Count the faults of one window."""
        if acknowledged < LEAST:
            self.not_run += made
        else:
            self.made += made
            self.acknowledged += acknowledged

    @property
    def exit_code(self) -> int:
        if self.faults:
            return FAULTY
        return SOUND if self.made and not self.unproved else TOO_LITTLE


def arguments(
    module: str, made: str, given: Sequence[str] | None = None, *, fault: Sequence[str] = ()
) -> argparse.Namespace:
    """``opener``, ``url`` and ``server``, the storage; ``number`` of what is made, ``seed``,
    ``json``; and ``fault``, one of those that there are."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", allow_abbrev=False)
    parser.add_argument(
        "opener", nargs="?", metavar="MODULE:OPENER", help="- to read it as JSON, with url, server"
    )
    parser.add_argument("--url", help="open by URL")
    parser.add_argument("--server", metavar="HOST:PORT", help="where the server of an opener is")
    add_number(parser, made)
    if fault:
        parser.add_argument("--fault", choices=fault, default=fault[0])
    options = parser.parse_args(given)
    if options.opener == "-":  # a URL may hold a password, and arguments of a process are public
        vars(options).update(json.loads(sys.stdin.readline()))
    return options


def add_number(parser: argparse.ArgumentParser, made: str) -> None:
    """The options that each of them has: ``number``, ``seed``, ``json``."""
    parser.add_argument(f"--{made}", dest="number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="the counts and faults as JSON")


def conclude(options: argparse.Namespace, made: str, tally: Tally) -> int:
    """Print what came of it, as JSON; the exit code."""
    counts = asdict(tally)
    for name in [name for name in ("unproved", "unseen") if not counts[name]]:
        del counts[name]
    told = {made: counts.pop("made"), **counts, "seed": options.seed}
    told["faults"] = tally.faults[:20]
    text = json.dumps(told)
    print(text)
    if options.json is not None:
        options.json.write_text(text, "utf-8")
    return tally.exit_code
