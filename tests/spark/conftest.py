"""One Spark and one gateway for all tests of a process; each test has a namespace of its own."""

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncegate_spark import Gateway
from tests.spark.jobs.job import Job
from tests.support.gateway_process import GatewayProcess

ROOT = Path(__file__).parents[2]
COUNT = itertools.count()

# For the JVM's Python processes: the sinks and sources of these tests, and our own interpreter.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
# For every JVM that these tests start: one that lives for minutes has no use for the second compiler.
os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """What is started inside writes its standard error there: the JVM, and by it every Python process of Spark."""
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with stderr_into(spark_log):
        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.streaming.stopTimeout", "30s")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.python.task.killTimeout", "30s")  # how long a zombie lives
            .getOrCreate()
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def gateway(gateway_process: GatewayProcess) -> Iterator[Gateway]:
    """A client in a namespace that no other test uses."""
    with Gateway(gateway_process.url, f"test-{next(COUNT)}") as client:
        client.create_namespace()
        yield client


@pytest.fixture
def job(spark: Any, gateway: Gateway, tmp_path: Path, spark_log: Path) -> Job:
    return Job(spark, gateway, tmp_path, spark_log)


@pytest.fixture
def small_batches(spark: Any) -> Iterator[None]:
    """Ten rows an Arrow batch."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "10")
    yield
    spark.conf.set(name, before)
