"""The five backends, each with a storage that no other test has."""

from pathlib import Path

import pytest

BACKENDS = ("memory", "sqlite", "file", "redis", "postgres")


def url_of(backend: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a new storage; the servers are those of the fixtures."""
    if backend in ("redis", "postgres"):
        return request.getfixturevalue(f"{backend}_url")
    places = {"memory": f"memory:{folder.name}", "sqlite": f"sqlite:{folder}/stores.db"}
    return places.get(backend, f"file:{folder}/stores")


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new storage, once on each backend."""
    return url_of(request.param, request, tmp_path)
