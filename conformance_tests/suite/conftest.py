"""Keeps the suite from being run in a way that could say nothing."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("conformance_tests.plugin"):
        raise pytest.UsageError(
            "run the suite with `python -m conformance_tests MODULE:OPENER` or `--url URL`: "
            "it brings its own event loop, settings and verdict"
        )
