"""Lets the conformance suite examine a backend, in a process of its own, with a progress bar."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

CHECK = re.compile(r"::(\w+).*\[ *(\d+)%\]\s*$")


def examine(url: str, console: Console) -> int:
    """Run the quick profile and print the verdict. The suite's exit code: 0 when conformant."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "verdict.json"
        # Twice -v shows a line for each check, with the percentage at its end.
        command = ["-m", "conformance_tests", "--url", url, "--quick", "--json", report, "-vv"]
        with subprocess.Popen(
            [sys.executable, *command],
            env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        ) as suite:
            said = _follow(suite, console)
        code = suite.returncode
        if not report.exists():
            console.print(escape("".join(said[-20:])))
            return code or 1
        verdict = json.loads(report.read_text("utf-8"))
    colour = "green" if verdict["conformant"] else "red"
    for guarantee in verdict.get("guarantees", ()):
        if guarantee["state"] == "failed":
            console.print(f"[red]{guarantee['number']}[/] {escape(guarantee['text'])}")
            console.print(*(f"  {escape(check)}" for check in guarantee["failed"]), sep="\n")
    console.print(f"[bold {colour}]{escape(verdict.get('sentence') or verdict['why'])}[/]")
    return code


def _follow(suite: subprocess.Popen[str], console: Console) -> list[str]:
    """Move the bar as the suite goes on; all that it printed."""
    said: list[str] = []
    title = TextColumn("[bold]Conformance suite[/], quick")
    percent = TextColumn("{task.percentage:>3.0f} %")
    with Progress(title, BarColumn(), percent, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("", total=100)
        for line in suite.stdout or ():
            said.append(line)
            check = CHECK.search(line)
            if check:
                progress.update(bar, completed=int(check[2]))
    return said
