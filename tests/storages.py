"""The storages that the tests of the adapters run on."""

from pathlib import Path

import pytest

from stores_core.opening import schemes


@pytest.fixture(params=["memory", "sqlite", "file", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage that no other test has, once for each backend that is installed."""
    if request.param not in schemes():
        pytest.skip(f"no {request.param}: backend is installed")
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    places = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path}/stores.db"}
    return places.get(request.param, f"{request.param}:{tmp_path}/stores")
