"""The command line of long runs on simulated disks: how many, which seed, and what came of them."""

import argparse
import json
import os
from pathlib import Path


def arguments(module: str, counted: str, default: int) -> argparse.Namespace:
    """``number`` of what is ``counted``, ``seed``, ``processes``, ``json``."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument(f"--{counted}", dest="number", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="the counts and faults as JSON")
    return parser.parse_args()


def conclude(
    options: argparse.Namespace, counted: str, number: int, seconds: float, faults: list[str]
) -> int:
    """Print what came of it, as JSON; the exit code, which is 0 only if nothing was found."""
    told = {
        counted: number,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "faults": faults[:20],
    }
    text = json.dumps(told)
    print(text)
    if options.json is not None:
        options.json.write_text(text, "utf-8")
    return 1 if faults else 0
