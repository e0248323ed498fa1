"""Options of `format("oncegate")`: declared in `table`, parsed once on the driver, and passed to the tasks."""

from oncegate_spark.spark.options.guarantees import PROMISES, promise_rows
from oncegate_spark.spark.options.habits import HABITS, habit_rows
from oncegate_spark.spark.options.option import Option
from oncegate_spark.spark.options.sink import Options
from oncegate_spark.spark.options.table import OPTIONS, option_rows

__all__ = ["HABITS", "OPTIONS", "PROMISES", "Option", "Options", "habit_rows", "option_rows", "promise_rows"]
