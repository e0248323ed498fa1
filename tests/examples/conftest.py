"""The examples that are called in this process know `format("oncegate")`."""

from typing import Any

import pytest

import oncegate_spark


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    oncegate_spark.register(spark)
    return spark
