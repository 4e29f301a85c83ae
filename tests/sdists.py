"""Source distributions of the runtimes, which bring their own tests."""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest


def source_of(distribution: str, config: pytest.Config) -> Path:
    """The unpacked source of the installed version; fetched once, into pytest's cache."""
    pinned = version(distribution)
    name = f"{distribution.replace('-', '_')}-{pinned}"
    assert config.cache
    folder = config.cache.mkdir("sdists")
    if not (folder / name).is_dir():
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        done = subprocess.run(
            [*fetch, "--no-binary", distribution, f"{distribution}=={pinned}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"the source of {distribution} {pinned} cannot be had from the index")
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / name
