"""Location and contents of a query's checkpoint on Spark's file systems."""

from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation, local_folder
from oncegate_spark.spark.checkpoint.notes import DriverNotes
from oncegate_spark.spark.checkpoint.offset_log import BatchInput, NoOffsets, find_input, newest_input, read_input
from oncegate_spark.spark.checkpoint.stores import OutOfReach, Store

__all__ = [
    "BatchInput",
    "CheckpointLocation",
    "DriverNotes",
    "NoOffsets",
    "OutOfReach",
    "Store",
    "find_input",
    "local_folder",
    "newest_input",
    "read_input",
]
