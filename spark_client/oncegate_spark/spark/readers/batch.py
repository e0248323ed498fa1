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
    """Reads a range of offsets whose end is fixed. Made on the driver, pickled into every task.

    `wanted`: the columns that Spark asks for."""

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        self.options = options.of_a_batch()
        self.wanted = wanted

    def partitions(self) -> list[Slice]:
        """On the driver, once for each query that is planned: rows written later are not in it."""
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
                f"partition {turned[0]} of topic {options.topic} is to be read from {start[turned[0]]} up to "
                f"{end[turned[0]]}, which is before it; startingOffsets come first"
            )
        return common.sliced(start, end, ends, options, schema.asked_for(self.wanted, columns))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one slice. Raises TaskFailed."""
        return common.read_slice(self.options, self.wanted, partition)
