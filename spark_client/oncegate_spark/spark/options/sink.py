"""Options of the Spark sink: parsed once and checked on the driver, and passed to the tasks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.names import TOPIC
from oncegate_spark.protocol.outage import BLOCK
from oncegate_spark.spark.options.guarantees import chosen_write
from oncegate_spark.spark.options.refusals import check_names, credentials_of, lower_names, on_down_of, topic_of, url_of
from oncegate_spark.spark.options.table import BY_ID, BY_NAME

ASYNC_PROGRESS = "asyncprogresstrackingenabled"  # Spark's own option, in lower case
TOPIC_COLUMN = "topic"  # as in Spark's Kafka sink: has the topic of its row if no option does
TOPICS_OF_ROWS = "topics-of-rows"  # replaces the topic in names of batches and lanes whose rows have their own


@dataclass(frozen=True)
class Options:
    """Options of one write, parsed and checked.

    raw          all options with lower-case names: a sink finds its own there
    lane_names   columns of a row's producer and sequence, in place of an id
    is_scoped    ids belong to the query's batch, and are forgotten when it is acked
    id_set       dedup scope of the ids; None for the write mode's default
    digest_names  columns of the payload of a row's id; `on_conflict`: treatment of a row whose id is written with
                 another payload
    merges       columns that the topic lacks are added to it
    by_row       each row names its topic; `topic` is TOPICS_OF_ROWS then
    kafka_config_file, transaction_ms  of write=direct
    on_down      whether calls wait for a gateway that is down
    """

    url: str
    namespace: str
    topic: str
    write: str
    id_names: tuple[str, ...]
    id_set: str | None
    lane_names: tuple[str, str] | None
    is_scoped: bool
    digest_names: tuple[str, ...]
    on_conflict: str
    key_names: tuple[str, ...]
    sink: str
    lease_ms: int | None
    timeout_ms: int
    app: str | None
    version: str | None
    write_id: str
    first_wins: bool
    checkpoint: str | None
    checkpoint_url: str | None
    credentials: Credentials = NONE
    kafka_config_file: str | None = None
    transaction_ms: int | None = None
    merges: bool = False
    by_row: bool = False
    on_down: str = BLOCK
    raw: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: Mapping[str, str], columns: Collection[str] = ()) -> "Options":
        """Parses and checks the user's options. `columns`: of the rows, one of which may have each row's topic.

        Raises BadOption with the line to write instead.
        """
        raw = lower_names(texts)
        write = chosen_write(raw)
        check_names(raw, write)
        topic = topic_of(raw)
        by_row = not topic and write not in ("claim", "direct") and TOPIC_COLUMN in columns
        options = cls(
            url=url_of(raw),
            namespace=BY_NAME["namespace"].text(raw) or "",
            topic=TOPICS_OF_ROWS if by_row else topic,
            write=write,
            id_names=BY_NAME["idCol"].names(raw),
            id_set=BY_NAME["idSet"].text(raw),
            lane_names=lane_in(raw),
            is_scoped=BY_NAME["scope"].choice(raw) == "retry",
            digest_names=BY_NAME["digestCols"].names(raw),
            on_conflict=BY_NAME["onConflict"].choice(raw),
            key_names=BY_NAME["keyCol"].names(raw),
            sink=raw.get("sink", ""),
            lease_ms=BY_NAME["leaseMs"].number(raw),
            timeout_ms=BY_NAME["timeoutMs"].number(raw) or TIMEOUT_MS,
            app=raw.get("txnappid"),
            version=raw.get("txnversion"),
            write_id=raw.get("writeid", ""),
            first_wins=BY_NAME["onReplayMismatch"].choice(raw) == "first_wins",
            checkpoint=raw.get("checkpointlocation"),
            checkpoint_url=raw.get("checkpointurl"),
            credentials=credentials_of(raw),
            kafka_config_file=BY_NAME["kafkaConfigFile"].text(raw),
            transaction_ms=BY_NAME["transactionMs"].number(raw),
            merges=BY_NAME["mergeSchema"].truth(raw),
            by_row=by_row,
            on_down=on_down_of(raw),
            raw=raw,
        )
        options.check()
        return options

    def check(self) -> None:
        """Raises BadOption if options contradict each other; nothing was written."""
        if self.version is not None and self.app is None:
            raise BadOption(
                'txnVersion has no effect without txnAppId; add .option("txnAppId", "<a name for this job>")'
            )
        if self.write in BY_ID:
            self._check_ids()
        if self.write == "direct" and self.lane_names is None:
            raise BadOption(
                "write=direct recognises a row only by its sequence; add producerCol and sequenceCol, as "
                "assign_sequences "
                'creates them, or set .option("write", "ids") with idCol'
            )
        if self.transaction_ms is not None and self.transaction_ms < self.set_timeout_ms:
            raise BadOption(
                f"transactionMs is {self.transaction_ms}, and a commit may take timeoutMs, {self.set_timeout_ms}: "
                "brokers would abort a transaction that is still being committed; write "
                f'.option("transactionMs", "{self.set_timeout_ms}") or omit it'
            )
        if self.write == "claim":
            self._check_claim()
        elif not self.topic:
            raise self.without_topic
        elif TOPIC.fullmatch(self.topic) is None:
            raise BadOption(
                f"topic is {self.topic[:80]!r}; a topic name has 1 to 249 of A-Z a-z 0-9 . _ - and starts with a "
                "letter, digit or _; nothing was written"
            )

    @property
    def without_topic(self) -> BadOption:
        """The error for a write without a topic."""
        return BadOption(f'write={self.write} needs a topic; add .option("topic", "<topic>")')

    def _check_ids(self) -> None:
        if not self.id_names and self.lane_names is None:
            raise BadOption(
                f'write={self.write} needs ids of rows; add .option("idCol", "<column>[,<column>]"), or, for '
                "rows of a source that numbers them (assign_sequences), producerCol and sequenceCol"
            )
        if self.id_names and self.lane_names is not None:
            raise BadOption("rows are recognised by idCol, or by producerCol and sequenceCol; omit one of them")
        if self.lane_names is not None and self.is_scoped:
            raise BadOption("scope=retry is for idCol: sequences are forgotten when they are acked; omit scope")
        if self.lane_names is not None and self.id_set is not None:
            raise BadOption(
                "idSet is for idCol: a lane is identified by its producer and the target that it writes to; omit it"
            )
        self._check_payloads()
        if self.app is not None and not self.has_driver:
            raise BadOption(
                f"txnAppId has no effect with write={self.write}; it names the driver with producerCol or "
                'scope=retry, and the batch with .option("write", "staged"): omit it'
            )
        if self.has_driver and self.raw.get(ASYNC_PROGRESS, "").lower() == "true":
            raise BadOption(
                "asyncProgressTrackingEnabled writes the commit log late, so it is unknown when a batch can no longer "
                "be retried and may be acked: omit it, or write without producerCol and scope"
            )

    def _check_payloads(self) -> None:
        if self.lane_names is not None and self.digest_names and self.write != "ids":
            raise BadOption(
                "digestCols compares payloads of sequences only if the gateway writes the rows: omit it, or set "
                '.option("write", "ids")'
            )
        if "onconflict" in self.raw and not self.digest_names:
            raise BadOption(
                "onConflict has no effect unless payloads are compared; add "
                '.option("digestCols", "<column>[,<column>]") or omit it'
            )

    @property
    def set_timeout_ms(self) -> int:
        """Option timeoutMs, in milliseconds; 0 if it is not set."""
        return self.timeout_ms if BY_NAME["timeoutMs"].key in self.raw else 0

    @property
    def has_driver(self) -> bool:
        """True if a driver has to ack, since rows are kept until they can no longer be retried."""
        return self.write in BY_ID and (self.lane_names is not None or self.is_scoped)

    @property
    def known_by(self) -> str:
        """How rows are recognised, in words: by id in a dedup scope, or by sequence."""
        if self.lane_names is not None:
            return "sequence"
        own = self.topic if self.write == "ids" else ""
        return f'id in dedup scope "{own if self.id_set is None else self.id_set}"'

    @property
    def target(self) -> str:
        """Target of the write, as part of a lane's name: the topic, or the sink with its path and name."""
        parts = (self.topic,) if self.write == "ids" else (self.sink, self.raw.get("sinkpath", ""), self.topic)
        return "/".join(quote(part, safe="") for part in parts)

    def _check_claim(self) -> None:
        if not self.sink:
            raise BadOption(
                'write=claim needs a sink; add .option("sink", "my_module:factory"), or '
                '.option("sink", "oncegate_spark.spark.sinks:files").option("sinkPath", "/data/out")'
            )


def lane_in(raw: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the columns of a row's producer and sequence; None without both. Raises BadOption for one without the
    other.
    """
    producer, sequence = raw.get("producercol", "").strip(), raw.get("sequencecol", "").strip()
    if bool(producer) != bool(sequence):
        missing = "sequenceCol" if producer else "producerCol"
        raise BadOption(f'producerCol and sequenceCol are used together; add .option("{missing}", "<column>")')
    return (producer, sequence) if producer else None
