"""The options of format("oncegate"): declared once in `table`, read once on the driver, carried to the tasks."""

from oncegate_spark.spark.options.sink import Options
from oncegate_spark.spark.options.table import OPTIONS, Option, option_rows

__all__ = ["OPTIONS", "Option", "Options", "option_rows"]
