"""The storages that tests run on: of each backend one that no other test has."""

import secrets
from pathlib import Path

import pytest

from stores_core.opening import schemes
from tests.redis_server import with_prefix

BACKENDS = ("memory", "sqlite", "file", "redis", "postgres")
SHARED = ("sqlite", "file", "redis", "postgres")
"""Those that several processes may open at once."""


def new_url(backend: str, request: pytest.FixtureRequest, *, alone: bool = False) -> str:
    """The URL of a storage of ``backend``, or of "redis-cluster", that no other test has.

    Its files are in the folder of the test. On Postgres it is a tenant of a database that tests
    share or, where it has to be ``alone``, a database.
    """
    if backend == "redis-cluster":
        return with_prefix(request.getfixturevalue("small_cluster").url)
    if backend not in schemes():
        pytest.skip(f"no {backend}: backend is installed")
    name = secrets.token_hex(4)
    if backend == "redis":
        return with_prefix(request.getfixturevalue("redis"))
    if backend == "postgres":
        if alone:
            return request.getfixturevalue("postgres_url")
        return f"{request.getfixturevalue('shared_postgres_url')}?tenant=test-{name}"
    if backend == "memory":
        return f"memory:{name}"
    folder: Path = request.getfixturevalue("tmp_path")
    return f"{backend}:{folder / name}"


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest) -> str:
    """A storage that no other test has, once for each backend that is installed."""
    return new_url(request.param, request)


@pytest.fixture(params=BACKENDS)
def url_alone(request: pytest.FixtureRequest) -> str:
    """As `url`, and no tenant of another test is in it."""
    return new_url(request.param, request, alone=True)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest) -> str:
    """As `url`, for the backends that several processes may open at once."""
    return new_url(request.param, request)
