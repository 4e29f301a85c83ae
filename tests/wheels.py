"""Wheels of this tree and of the template, and fresh venvs that hold nothing else."""

import os
import sys
import tempfile
from pathlib import Path

from tests.conftest import ROOT, run_python

TEMPLATE = ROOT / "examples" / "backend_template"


def built(project: Path, folder: Path) -> Path:
    """The wheel of a project, made in a folder that is empty or not there yet."""
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, project)
    ran = run_python(ROOT, *build, seconds=200)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (found,) = folder.glob("*.whl")
    return found


def clean_venv(folder: Path, *what: str | Path) -> Path:
    """The Python of a new venv in a folder, with these wheels and what they depend on."""
    venv = folder / "venv"
    made = run_python(folder, "-m", "venv", "--without-pip", venv)
    assert made.returncode == 0, made.stderr
    executable = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = ("-m", "pip", "--python", executable, "install", "--quiet")
    pinned = ("--constraint", ROOT / "constraints.txt")
    # The warnings of pip are its own business, so they are no errors here.
    ran = run_python(folder, *pip, *pinned, *what, seconds=300, warnings="default")
    assert ran.returncode == 0, ran.stderr
    return executable


def strangers_python(folder: Path) -> Path:
    """The Python of a new venv that holds our wheel with the suite, and the template's."""
    ours = built(ROOT, folder / "ours")
    return clean_venv(folder, f"{ours}[conformance]", built(TEMPLATE, folder / "theirs"))


def main() -> int:
    """The whole suite on the template's backend; what is said beside goes to pytest."""
    with tempfile.TemporaryDirectory(prefix="stranger-") as place:
        folder = Path(place)
        command = ("-m", "conformance_tests", "--url", f"lmdb:{folder / 'kept'}", *sys.argv[1:])
        ran = run_python(folder, *command, executable=strangers_python(folder), seconds=3_600)
    print(ran.stdout, ran.stderr)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
