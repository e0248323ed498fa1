"""One Spark session and one gateway per test process; each test has its own namespace."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncegate_spark import Gateway
from tests.spark.jobs.job import Job
from tests.support.gateway_process import GatewayProcess
from tests.support.spark_session import set_environment

COUNT = itertools.count()

set_environment()


@pytest.fixture(scope="session")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def gateway(gateway_process: GatewayProcess) -> Iterator[Gateway]:
    """Yields a client in a namespace that no other test uses."""
    with Gateway(gateway_process.url, f"test-{next(COUNT)}") as client:
        client.create_namespace()
        yield client


@pytest.fixture
def job(spark: Any, gateway: Gateway, tmp_path: Path, spark_log: Path) -> Job:
    return Job(spark, gateway, tmp_path, spark_log)


@pytest.fixture
def small_batches(spark: Any) -> Iterator[None]:
    """Limits Arrow batches to ten rows."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "10")
    yield
    spark.conf.set(name, before)
