"""The shim by which Spark finds format("oncegate"): it takes the DefaultSource of every module named pyspark_*."""

from oncegate_spark.spark.datasource import OncegateSource as DefaultSource

__all__ = ["DefaultSource"]
