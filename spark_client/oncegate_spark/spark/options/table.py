"""The options of format("oncegate"), declared once: parsing, refusals and the documentation's table derive from it."""

from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.outage import BLOCK, ON_DOWN
from oncegate_spark.protocol.payloads import ON_CONFLICT
from oncegate_spark.spark.options.option import (
    FOREACH_BATCH,
    READ,
    READ_BATCH,
    READ_STREAM,
    WRITE,
    WRITE_STREAM,
    Option,
)

WRITE_MODES = ("staged", "ids", "claim", "plain", "direct")
BY_ID = ("ids", "claim")  # the write modes that know a row by its id or sequence
BY_SEQUENCE = (*BY_ID, "direct")  # those that know it by its sequence
SCOPES = ("namespace", "retry")
EFFECTIVELY_ONCE, AT_LEAST_ONCE = "effectively_once", "at_least_once"
TRUTHS = ("true", "false")


EVERYWHERE = (*WRITE_MODES, READ)
TOPICS = ("staged", "ids", "plain")
PEM = "path of a PEM file"
COLUMNS = "column names, comma separated"
OFFSETS = 'earliest, latest, or JSON with an offset for each partition, {"0": 17}, or as Kafka has it, {"t": {"0": -1}}'

OPTIONS: tuple[Option, ...] = (
    Option(
        "url",
        EVERYWHERE,
        "Where the gateway listens.",
        words="http://host:port or https://host:port",
        missing="required",
    ),
    Option("namespace", EVERYWHERE, "The namespace of the gateway that topics and ids belong to.", default="default"),
    Option(
        "topic",
        EVERYWHERE,
        "The topic of the gateway that is written or read. It may be given as the path instead: `.save(topic)`, "
        "`.start(topic)`, `.load(topic)`. With write=claim it is only a name that the sink is told. Of a gateway that "
        "writes into Kafka topics it is one of those, and goes before the column `topic`.",
        missing="required, not with write=claim; into Kafka topics: the row's own, in the column `topic`",
    ),
    Option(
        "apiKeyFile",
        EVERYWHERE,
        "File with the key that the gateway asks for, on the driver and at the same path on each executor; it is read "
        "with each request.",
        words="path",
        missing="the environment's ONCEGATE_API_KEY",
    ),
    Option(
        "ca",
        EVERYWHERE,
        "File with the authorities that may have signed the gateway's certificate, on each machine. Goes with https.",
        words=PEM,
        missing="the system's",
    ),
    Option(
        "certificate",
        EVERYWHERE,
        "File with the client's own certificate, for a gateway that asks for one, on each machine. Goes with https.",
        words=PEM,
    ),
    Option(
        "certificateKey",
        EVERYWHERE,
        "File with the private key of the certificate, on each machine. Goes with certificate.",
        words=PEM,
        missing="that in the file of the certificate",
    ),
    Option(
        "timeoutMs",
        EVERYWHERE,
        "How long one call to the gateway may take with all its tries.",
        missing=str(TIMEOUT_MS),
        least=1_000,
        most=86_400_000,
        unit="milliseconds",
    ),
    Option(
        "onDown",
        EVERYWHERE,
        "What a task does while the gateway is down: it tries for timeoutMs, or fails at once. What ends work that was "
        "begun (complete, commit) is tried for timeoutMs in either case. A reading query ends with it.",
        default=BLOCK,
        allowed=ON_DOWN[:2],
    ),
    Option(
        "checkpointLocation",
        EVERYWHERE,
        "Spark's own checkpoint of a streaming query, by which a replayed batch is compared by its input: on the "
        "driver's disk, where what is done can be acked too, in S3, GCS, ABFS or HDFS. On a df.write inside "
        "foreachBatch: that of the query around it.",
        words="path",
        missing="spark.sql.streaming.checkpointLocation with the query's name, as `register` finds it",
    ),
    Option(
        "checkpointUrl",
        ("staged",),
        "Where this client reads the same checkpoint, when it cannot as Spark does: an address of pyarrow.fs, or of "
        "WebHDFS. Keys are better put into the environment.",
        words="s3://, gs://, abfss://, file:/// or webhdfs://host:port/folder",
        missing="checkpointLocation, by the Hadoop settings that `register` finds",
        only=(WRITE_STREAM, FOREACH_BATCH),
    ),
    Option(
        "write",
        WRITE_MODES,
        "How rows take effect once: staged publishes each batch whole, ids drops rows whose id is written, claim "
        "leaves the writing to a sink of yours, plain accepts duplicates, direct has the tasks write into Kafka.",
        default="staged",
        allowed=WRITE_MODES,
    ),
    Option(
        "guarantee",
        WRITE_MODES,
        "What is to be kept, in place of `write`: effectively_once takes ids where the rows have an id, else staged; "
        "at_least_once takes claim with a sink, ids with an id, else plain. Beside a `write` that keeps less it is "
        "refused.",
        missing="what `write` keeps",
        allowed=(EFFECTIVELY_ONCE, AT_LEAST_ONCE),
    ),
    Option(
        "idCol",
        BY_ID,
        "The columns that are a row's id; several together are one id, in the order given.",
        words=COLUMNS,
        missing="required, unless producerCol and sequenceCol are given",
    ),
    Option(
        "idSet",
        BY_ID,
        "The set that the rows' ids are of: an id counts once in each set. Writes that name one set meet in it. Goes "
        "with idCol.",
        missing="write=ids: the topic's name, required where each row names its own; write=claim: the empty one",
    ),
    Option(
        "producerCol",
        BY_SEQUENCE,
        "The column of a row's producer, as assign_sequences makes it. Goes with sequenceCol, in place of idCol.",
        words="column name",
    ),
    Option(
        "sequenceCol",
        BY_SEQUENCE,
        "The column of a row's sequence number, increasing within its producer. Goes with producerCol.",
        words="column name",
    ),
    Option(
        "scope",
        BY_ID,
        "How long an id counts: until the namespace's horizon, for ever without one; or with retry only as long as "
        "Spark may run its batch again.",
        default="namespace",
        allowed=SCOPES,
    ),
    Option(
        "digestCols",
        BY_ID,
        "The columns that are the payload of a row's id, or with write=ids of its sequence until that is acked: one "
        "that comes again with another payload is a conflict.",
        words=COLUMNS,
        missing="payloads are not compared",
    ),
    Option(
        "onConflict",
        BY_ID,
        "What becomes of a row whose id is written with another payload: the task fails, or the row is dropped, "
        "counted and logged. Goes with digestCols.",
        default="fail",
        allowed=ON_CONFLICT,
    ),
    Option(
        "keyCol",
        TOPICS,
        "The columns that choose a row's partition: rows of equal values go to one partition. Refused where topics are "
        "Kafka's: there the column `key` does.",
        words=COLUMNS,
        missing="the next partition for each request",
    ),
    Option(
        "mergeSchema",
        TOPICS,
        "Whether columns that the topic does not have are added to it, for good, behind its own; rows from before have "
        "nulls there. Without it such rows are refused. Refused where topics are Kafka's.",
        default="false",
        allowed=TRUTHS,
    ),
    Option(
        "sink",
        ("claim",),
        "The factory of the sink that writes the rows; see `oncegate_spark.spark.sinks`.",
        words="module:factory",
        missing="required",
    ),
    Option(
        "sinkPath",
        ("claim",),
        "The folder of the sink that ships with the client, oncegate_spark.spark.sinks:files.",
        words="path",
    ),
    Option(
        "leaseMs",
        ("claim",),
        "How long a claim is a task's alone without being renewed; it is renewed at each third of it while the sink "
        "writes.",
        missing="the gateway's",
        least=1_000,
        most=900_000,
        unit="milliseconds",
    ),
    Option(
        "kafkaConfigFile",
        ("direct",),
        "File on each executor with settings of Kafka's client (librdkafka), one `name=value` a line.",
        words="path",
        missing="the gateway's brokers",
    ),
    Option(
        "transactionMs",
        ("direct",),
        "How long a task's transaction may be open before brokers abort it; as long readers with `read_committed` wait "
        "behind a task that died. It is never less than timeoutMs where that is given. Brokers bound it by "
        "`transaction.max.timeout.ms`.",
        missing="60000, or timeoutMs where that is given and more",
        least=10_000,
        most=86_400_000,
        unit="milliseconds",
    ),
    Option(
        "txnAppId",
        ("staged", *BY_ID),
        "The name of the job, the same at every run. With write=staged it takes the place of the query's id in a "
        "batch's name; with ids and claim it names the driver, where there is a producerCol or scope=retry.",
        missing="the id of the streaming query",
    ),
    Option(
        "txnVersion",
        ("staged",),
        "Which run of the job this is: a re-run under the same name and version takes no effect. Numbers rise, as in "
        "Delta Lake: one below a number that is committed is skipped, with a warning. Other texts, as 2026-11-20, have "
        "no order. Goes with txnAppId.",
        missing="the id of the micro-batch",
        only=(WRITE, FOREACH_BATCH),
    ),
    Option(
        "writeId",
        ("staged",),
        "Tells several writes of one batch to one topic apart; from the second on each needs one, the same at "
        "every run.",
        missing="empty",
    ),
    Option(
        "onReplayMismatch",
        ("staged",),
        "What becomes of a batch that comes again under its name with other rows, where it is unknown whether it reads "
        "the same input: it fails, or with first_wins the rows that were published stay and these are dropped. A batch "
        "that is known to read another input fails in either case; one that is known to read the same is dropped in "
        "either.",
        default="fail",
        allowed=("fail", "first_wins"),
    ),
    Option(
        "startingOffsets",
        (READ,),
        "Where a read begins; of a stream, at its first start.",
        default="earliest",
        words=OFFSETS,
    ),
    Option(
        "endingOffsets",
        (READ,),
        "Where a batch read ends; the offsets named are not read.",
        missing="latest, as of planning",
        words=OFFSETS,
        only=(READ_BATCH,),
    ),
    Option(
        "maxRowsPerBatch",
        (READ,),
        "At most so many rows in one micro-batch.",
        missing="all there are",
        least=1,
        most=1_000_000_000,
        unit="rows",
        only=(READ_STREAM,),
    ),
    Option(
        "failOnDataLoss",
        (READ,),
        "Whether rows that retention dropped before they were read stop the read, or are only logged.",
        default="true",
        allowed=TRUTHS,
    ),
    Option(
        "waitForTopic",
        (READ,),
        "Whether a stream may begin before its topic is there, or has columns: it waits for the first row, and reads "
        "from it on. Goes with `.schema(…)`, since a query has to know its columns.",
        default="false",
        allowed=TRUTHS,
        only=(READ_STREAM,),
    ),
    Option(
        "columns",
        (READ,),
        "The columns to read; Spark asks a source of this kind for all of them.",
        words=COLUMNS,
        missing="all",
    ),
    Option(
        "includeOffsets",
        (READ,),
        "Whether rows come with the columns `_partition` and `_offset`.",
        default="false",
        allowed=TRUTHS,
    ),
)

BY_NAME: dict[str, Option] = {option.name: option for option in OPTIONS}
NAMES: dict[str, str] = {option.key: option.name for option in OPTIONS}


def option_rows() -> list[tuple[str, str, str, str, str, str]]:
    """The documentation's table: name, values, default, write modes, calls and meaning of each option, as texts."""
    return [
        (
            option.name,
            option.values,
            option.missing if option.default is None else option.default,
            ", ".join(mode for mode in option.modes if mode != READ) or "–",
            ", ".join(option.calls),
            option.meaning,
        )
        for option in OPTIONS
    ]
