"""Reads topics in Spark: `batch` for spark.read, `stream` for spark.readStream."""

from oncegate_spark.spark.readers.batch import BatchReader
from oncegate_spark.spark.readers.common import read_schema
from oncegate_spark.spark.readers.options import ReadOptions
from oncegate_spark.spark.readers.stream import StreamReader

__all__ = ["BatchReader", "ReadOptions", "StreamReader", "read_schema"]
