"""The storages that the tests of the adapters run on."""

import secrets
from pathlib import Path

import pytest

from stores_core.opening import schemes

BACKENDS = ("memory", "sqlite", "file", "redis", "postgresql")
SHARED = ("sqlite", "file", "redis", "postgresql")
"""Those that several processes may open at once."""


def storage(backend: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a storage of ``backend`` that no other test has; its files are in ``folder``."""
    if backend not in schemes():
        pytest.skip(f"no {backend}: backend is installed")
    if backend == "redis":
        return request.getfixturevalue("redis_url")
    if backend == "postgresql":
        tenant = f"test-{secrets.token_hex(6)}"
        return f"{request.getfixturevalue('shared_postgres_url')}?tenant={tenant}"
    places = {"memory": "memory:", "sqlite": f"sqlite:{folder}/stores.db"}
    return places.get(backend, f"{backend}:{folder}/stores")


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage that no other test has, once for each backend that is installed."""
    return storage(request.param, request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """As `url`, for the backends that several processes may open at once."""
    return storage(request.param, request, tmp_path)
