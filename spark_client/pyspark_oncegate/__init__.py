"""Entry point through which Spark finds `format("oncegate")`: Spark imports `DefaultSource` from modules named
`pyspark_*`.
"""

from oncegate_spark.spark.datasource import OncegateSource as DefaultSource

__all__ = ["DefaultSource"]
