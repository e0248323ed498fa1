"""Registers `format("oncegate")` for examples that are called in this process."""

from typing import Any

import pytest

import oncegate_spark


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    oncegate_spark.register(spark)
    return spark
