"""Options of the Spark source: parsed once, on the driver, before a job starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.outage import BLOCK
from oncegate_spark.spark.options.habits import in_our_names
from oncegate_spark.spark.options.refusals import check_names, credentials_of, lower_names, topic_of, url_of
from oncegate_spark.spark.options.table import BY_NAME
from oncegate_spark.spark.readers import offsets
from oncegate_spark.spark.readers.offsets import EARLIEST, KAFKA_EARLIEST, KAFKA_LATEST, LATEST, PartitionOffsets
from oncegate_spark.sync.gateway import Gateway


@dataclass(frozen=True)
class ReadOptions:
    """Options of one read, parsed and checked.

    columns   None for all of the topic's
    max_rows  limit for one micro-batch, None without a limit
    waits     whether to wait for a topic that does not exist yet; None if not set
    """

    url: str
    namespace: str
    topic: str
    starting: str | PartitionOffsets
    ending: str | PartitionOffsets | None
    max_rows: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...] | None
    include_offsets: bool
    waits: bool | None
    timeout_ms: int
    credentials: Credentials = NONE
    on_down: str = BLOCK

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Parses and checks the user's options. Raises BadOption with the line to write instead."""
        raw = in_our_names(lower_names(options))
        check_names(raw)
        topic, ending = topic_of(raw), raw.get("endingoffsets")
        if not topic:
            raise BadOption('a read needs a topic; add .option("topic", "<topic>")')
        return cls(
            url=url_of(raw),
            namespace=BY_NAME["namespace"].text(raw) or "",
            topic=topic,
            starting=offsets.parse("startingOffsets", BY_NAME["startingOffsets"].text(raw) or "", topic),
            ending=None if ending is None else offsets.parse("endingOffsets", ending, topic),
            max_rows=BY_NAME["maxRowsPerBatch"].number(raw),
            fail_on_data_loss=BY_NAME["failOnDataLoss"].truth(raw),
            columns=_columns(raw),
            include_offsets=BY_NAME["includeOffsets"].truth(raw),
            waits=BY_NAME["waitForTopic"].truth(raw) if "waitfortopic" in raw else None,
            timeout_ms=BY_NAME["timeoutMs"].number(raw) or TIMEOUT_MS,
            credentials=credentials_of(raw),
            on_down=BY_NAME["onDown"].choice(raw),
        )

    def of_a_batch(self) -> "ReadOptions":
        """Returns the options for spark.read. Raises BadOption for options of streams only."""
        if self.max_rows is not None:
            raise BadOption("maxRowsPerBatch is for spark.readStream; for spark.read use .option('endingOffsets', …)")
        if self.waits is not None:
            raise BadOption("waitForTopic is for spark.readStream: spark.read reads the rows present at planning")
        if _says(self.starting, LATEST, KAFKA_LATEST) or _says(self.ending, EARLIEST, KAFKA_EARLIEST):
            raise BadOption("startingOffsets=latest and endingOffsets=earliest leave nothing for spark.read to read")
        return self

    def of_a_stream(self) -> "ReadOptions":
        """Returns the options for spark.readStream. Raises BadOption for options of batches only."""
        if self.ending is not None:
            raise BadOption("endingOffsets is for spark.read: a stream ends with .trigger(availableNow=True)")
        return self

    def gateway(self) -> Gateway:
        """Returns a new gateway, which connects on first use."""
        return Gateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            credentials=self.credentials,
            on_down=self.on_down,
        )


def _says(offsets_: str | PartitionOffsets | None, name: str, kafkas: int) -> bool:
    """True if an offset is this name, or Kafka's number for it in any partition."""
    return offsets_ == name or (isinstance(offsets_, dict) and kafkas in offsets_.values())


def _columns(raw: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in raw:
        return None
    columns = BY_NAME["columns"].names(raw)
    if not columns or len(set(columns)) != len(columns):
        raise BadOption(f'columns is {raw["columns"]!r}; write .option("columns", "<column>[,<column>]"), each once')
    return columns
