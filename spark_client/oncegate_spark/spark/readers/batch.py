"""spark.read: a range of offsets whose end is fixed when Spark plans the query."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from oncegate_spark.errors import BadOption
from oncegate_spark.spark import logs
from oncegate_spark.spark.readers import common, offsets, schema
from oncegate_spark.spark.readers.common import Slice
from oncegate_spark.spark.readers.offsets import LATEST
from oncegate_spark.spark.readers.options import ReadOptions


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads a range of offsets with a fixed end. Created on the driver, pickled into every task.

    `wanted`: the columns that Spark requests.
    """

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        self.options = options.of_a_batch()
        self.wanted = wanted

    def partitions(self) -> list[Slice]:
        """On the driver, once per planned query: returns the slices; later rows are not included."""
        logs.be_heard()
        options = self.options
        with options.gateway() as gateway:
            ends, columns = common.look(gateway, options.topic)
        schema.check_wanted(self.wanted, columns, options)
        start = offsets.resolve("startingOffsets", options.starting, ends, options.topic)
        end = offsets.resolve("endingOffsets", options.ending or LATEST, ends, options.topic)
        turned = [partition for partition in start if start[partition] > end[partition]]
        if turned:
            raise BadOption(
                f"partition {turned[0]} of topic {options.topic} would be read from {start[turned[0]]} to "
                f"{end[turned[0]]}, which is before it; startingOffsets must not exceed endingOffsets"
            )
        return common.sliced(start, end, ends, options, schema.asked_for(self.wanted, columns))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: yields the rows of one slice. Raises TaskFailed."""
        return common.read_slice(self.options, self.wanted, partition)
