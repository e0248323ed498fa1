"""spark.readStream: Spark stores the offsets in its checkpoint; this package stores nothing."""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from oncegate_spark.errors import BadOption
from oncegate_spark.spark import logs
from oncegate_spark.spark.readers import common, offsets, schema
from oncegate_spark.spark.readers.common import Slice
from oncegate_spark.spark.readers.offsets import Ends, PartitionOffsets
from oncegate_spark.spark.readers.options import ReadOptions
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")

OffsetJson = dict[str, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads a stream: offsets on the driver, rows in the tasks.

    One instance lives beside the driver as long as its query, and returns offsets; copies read in the tasks.
    """

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        self.options = options.of_a_stream()
        self.wanted = wanted
        self._target: PartitionOffsets | None = None  # with availableNow: end of this run of the query
        self._high: PartitionOffsets | None = None
        self._columns: tuple[str, ...] | None = None
        self._gateway: Gateway | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_gateway": None}

    def initialOffset(self) -> OffsetJson:
        """Returns the start of a query without a checkpoint; {} if its topic does not exist yet."""
        options, ends = self.options, self._ends_if_there()
        if ends is not None:
            return offsets.to_json(offsets.resolve("startingOffsets", options.starting, ends, options.topic))
        if isinstance(options.starting, dict):
            raise BadOption(
                f"startingOffsets has offsets, and topic {options.topic}, which is waited for, has no row yet: omit "
                "it, "
                "and the stream starts with the first row"
            )
        logs.be_heard()
        log.warning("topic %s does not exist yet, or has no columns: the stream waits for its first row", options.topic)
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end of the read at the topic's current end."""
        ends = self._ends_if_there()
        self._target = {} if ends is None else ends.high

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit of one micro-batch: maxRowsPerBatch, else unlimited."""
        return ReadAllAvailable() if self.options.max_rows is None else ReadMaxRows(self.options.max_rows)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Returns the end of the next batch; `start` if there is nothing to read.

        Raises LedgerBehind if the topic ends before `start`. Trimmed rows are skipped, and do not count towards the
        limit.
        """
        ends = self._ends() if start else self._ends_if_there()
        if ends is None or self._target == {}:
            return start
        begin = offsets.begun(start, ends)
        offsets.check_known(begin, ends, self.options.topic)
        high = ends.high if self._target is None else self._target
        first = {
            partition: min(max(offset, ends.low[partition]), max(offset, high[partition]))
            for partition, offset in begin.items()
        }
        return offsets.to_json(offsets.limited(first, high, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

    def reportLatestOffset(self) -> OffsetJson | None:
        """Returns the topic's last known end, which Spark displays with its progress."""
        return None if self._high is None else offsets.to_json(self._high)

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[Slice]:
        """Returns a batch's slices; a replayed batch has the same offsets."""
        if not end:
            return []  # the topic was not there yet
        ends, upto = self._ends(), offsets.from_json(end)
        offsets.check_known(upto, ends, self.options.topic)
        return common.sliced(offsets.begun(start, ends), upto, ends, self.options, self._columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: yields the rows of one slice. Raises TaskFailed."""
        return common.read_slice(self.options, self.wanted, partition)

    def commit(self, end: OffsetJson) -> None:
        """Does nothing: the gateway keeps rows by retention, independent of readers."""

    def stop(self) -> None:
        if self._gateway is not None:
            self._gateway.close()

    def _ends(self) -> Ends:
        """Returns the topic's current ends. The first call also checks that the wanted columns exist."""
        return self._noted(*common.look(self._connected(), self.options.topic))

    def _ends_if_there(self) -> Ends | None:
        """Like `_ends`; None if waitForTopic is set and the topic does not exist yet."""
        if not self.options.waits:
            return self._ends()
        topic = common.look_if_there(self._connected(), self.options.topic)
        return None if topic is None else self._noted(*topic)

    def _connected(self) -> Gateway:
        if self._gateway is None:
            logs.be_heard()
            self._gateway = self.options.gateway()
        return self._gateway

    def _noted(self, ends: Ends, columns: pa.Schema) -> Ends:
        if self._high is None:
            schema.check_wanted(self.wanted, columns, self.options)
            self._columns = schema.asked_for(self.wanted, columns)
        self._high = ends.high
        return ends
