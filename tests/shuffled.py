"""A pytest plugin that runs checks in the order that ``--shuffle SEED`` gives.

No check of the suite may depend on what ran before it. Named on the command line:
``python -m conformance_tests --url memory: -p tests.shuffled --shuffle 7``.
"""

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="the seed of the order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed: int | None = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
