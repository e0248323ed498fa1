"""Order of tests: slow ones first, so that the last worker's remaining tests are short. No test depends on a quiet
machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from oncegate.settings import names
from oncegate.variables import unknown
from tests.support.spark_session import start

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# The longest first, by the duration of one test; a folder includes its files. `make test` prints the slow ones.
SLOWEST = (
    "tests/demo/test_whole.py",
    "tests/faults/server/test_kill_loop.py",
    "tests/spark/test_chain.py",
    "tests/spark/test_ways_to_run.py",
    "tests/engine/maintenance/test_year.py",
    "tests/spark",
    "tests/examples",
    "tests/matrix",
    "tests/deploy",
    "tests/faults",
    "tests/model",
    "tests/client",
    "tests/index",
    "tests/typing",
)

# Folders that start a JVM for most of their tests (Spark, Kafka brokers), and the longest of the others: `make
# test-long`.
LONG = (
    "tests/demo/",
    "tests/engine/maintenance/test_year.py",
    "tests/examples/",
    "tests/faults/kafka/",
    "tests/faults/server/test_kill_loop.py",
    "tests/matrix/",
    "tests/spark/",
    "tests/versions/",
)


@pytest.fixture(scope="session", autouse=True)
def no_variables_of_tests_alone() -> Iterator[None]:
    """Removes variables for tests, such as seeds, which were read at collection: a gateway that a test starts refuses
    such names."""
    with pytest.MonkeyPatch.context() as patch:
        for name in unknown(os.environ, names()):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = start(spark_log, tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


def rank(test: str) -> int:
    """Returns the position of a test's file in SLOWEST, or its length for a quick file."""
    return next((n for n, slow in enumerate(SLOWEST) if test.startswith(slow)), len(SLOWEST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests in `LONG`, and sorts tests by their file's rank; a file's tests stay together because they share
    fixtures."""
    for item in items:
        if item.nodeid.startswith(LONG):
            item.add_marker("long")
    items.sort(key=lambda item: rank(item.nodeid))
