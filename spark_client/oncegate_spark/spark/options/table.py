"""The options of `format("oncegate")`, declared once: parsing, checks and the documentation's table derive from it."""

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
BY_ID = ("ids", "claim")  # write modes that recognise a row by its id or sequence
BY_SEQUENCE = (*BY_ID, "direct")  # those that recognise it by its sequence
SCOPES = ("namespace", "retry")
EFFECTIVELY_ONCE, AT_LEAST_ONCE = "effectively_once", "at_least_once"
TRUTHS = ("true", "false")


EVERYWHERE = (*WRITE_MODES, READ)
TOPICS = ("staged", "ids", "plain")
PEM = "path of a PEM file"
COLUMNS = "column names, comma separated"
OFFSETS = 'earliest, latest, or JSON with an offset for each partition, {"0": 17}, or as in Kafka, {"t": {"0": -1}}'

OPTIONS: tuple[Option, ...] = (
    Option(
        "url",
        EVERYWHERE,
        "Address of the gateway.",
        words="http://host:port or https://host:port",
        missing="required",
    ),
    Option("namespace", EVERYWHERE, "Namespace of the gateway to which topics and ids belong.", default="default"),
    Option(
        "topic",
        EVERYWHERE,
        "Topic of the gateway to write or read. It may be given as the path instead: `.save(topic)`, "
        "`.start(topic)`, `.load(topic)`. With write=claim it is only a name that is passed to the sink. If the "
        "gateway "
        "writes into Kafka topics it is one of those, and takes precedence over the column `topic`.",
        missing="required, not with write=claim; into Kafka topics: the row's own, in the column `topic`",
    ),
    Option(
        "apiKeyFile",
        EVERYWHERE,
        "File with the API key, on the driver and at the same path on each executor; it is read for each request.",
        words="path",
        missing="the environment variable ONCEGATE_API_KEY",
    ),
    Option(
        "ca",
        EVERYWHERE,
        "File with the authorities that may sign the gateway's certificate, on each machine. Used with https.",
        words=PEM,
        missing="the system's",
    ),
    Option(
        "certificate",
        EVERYWHERE,
        "File with the client's certificate, for a gateway that requires one, on each machine. Used with https.",
        words=PEM,
    ),
    Option(
        "certificateKey",
        EVERYWHERE,
        "File with the private key of the certificate, on each machine. Used with certificate.",
        words=PEM,
        missing="the key in the file of the certificate",
    ),
    Option(
        "timeoutMs",
        EVERYWHERE,
        "Timeout of one call to the gateway, including its retries.",
        missing=str(TIMEOUT_MS),
        least=1_000,
        most=86_400_000,
        unit="milliseconds",
    ),
    Option(
        "onDown",
        EVERYWHERE,
        "Behaviour of a task while the gateway is down: it retries for timeoutMs, or fails at once. Calls that end "
        "begun work (complete, commit) retry for timeoutMs in either case. A reading query fails with it.",
        default=BLOCK,
        allowed=ON_DOWN[:2],
    ),
    Option(
        "checkpointLocation",
        EVERYWHERE,
        "Spark's checkpoint of the streaming query, with which the input of a replayed batch is compared: on the "
        "driver's disk, where completed work can also be acked, or in S3, GCS, ABFS or HDFS. For a df.write inside "
        "foreachBatch: the checkpoint of the surrounding query.",
        words="path",
        missing="spark.sql.streaming.checkpointLocation with the query's name, as `register` reads it",
    ),
    Option(
        "checkpointUrl",
        ("staged",),
        "Address of the same checkpoint for this client, if it cannot read it as Spark does: an address of pyarrow.fs, "
        "or of WebHDFS. Pass keys in environment variables.",
        words="s3://, gs://, abfss://, file:/// or webhdfs://host:port/folder",
        missing="checkpointLocation, with the Hadoop settings that `register` reads",
        only=(WRITE_STREAM, FOREACH_BATCH),
    ),
    Option(
        "write",
        WRITE_MODES,
        "How rows take effect once: staged publishes each batch as a whole, ids drops rows whose id is written, claim "
        "lets your own sink write, plain accepts duplicates, direct has the tasks write into Kafka.",
        default="staged",
        allowed=WRITE_MODES,
    ),
    Option(
        "guarantee",
        WRITE_MODES,
        "Required guarantee, in place of `write`: effectively_once selects ids if the rows have an id, else staged; "
        "at_least_once selects claim with a sink, ids with an id, else plain. It is rejected with a `write` that "
        "guarantees less.",
        missing="the guarantee of `write`",
        allowed=(EFFECTIVELY_ONCE, AT_LEAST_ONCE),
    ),
    Option(
        "idCol",
        BY_ID,
        "Columns of a row's id; several columns form one id, in the order given.",
        words=COLUMNS,
        missing="required, unless producerCol and sequenceCol are given",
    ),
    Option(
        "idSet",
        BY_ID,
        "Dedup scope of the rows' ids: an id counts once in each scope. Writes with the same scope share their ids. "
        "Used with idCol.",
        missing="write=ids: the topic's name, required if each row names its own; write=claim: the empty one",
    ),
    Option(
        "producerCol",
        BY_SEQUENCE,
        "Column of a row's producer, as assign_sequences creates it. Used with sequenceCol, in place of idCol.",
        words="column name",
    ),
    Option(
        "sequenceCol",
        BY_SEQUENCE,
        "Column of a row's sequence number, increasing within its producer. Used with producerCol.",
        words="column name",
    ),
    Option(
        "scope",
        BY_ID,
        "How long an id is kept: for the namespace's retention of ids, for ever without one; or with retry only as "
        "long as Spark may retry its batch.",
        default="namespace",
        allowed=SCOPES,
    ),
    Option(
        "digestCols",
        BY_ID,
        "Columns of the payload of a row's id, or with write=ids of its sequence until that is acked: the same id with "
        "another payload is a conflict.",
        words=COLUMNS,
        missing="payloads are not compared",
    ),
    Option(
        "onConflict",
        BY_ID,
        "Treatment of a row whose id is written with another payload: the task fails, or the row is dropped, "
        "counted and logged. Used with digestCols.",
        default="fail",
        allowed=ON_CONFLICT,
    ),
    Option(
        "keyCol",
        TOPICS,
        "Columns that choose a row's partition: rows with equal values go to one partition. Rejected for Kafka topics, "
        "where the column `key` does this.",
        words=COLUMNS,
        missing="the next partition for each request",
    ),
    Option(
        "mergeSchema",
        TOPICS,
        "Whether columns that the topic lacks are added to it, permanently, after its own; earlier rows have nulls "
        "there. Otherwise such rows are rejected. Rejected for Kafka topics.",
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
        "Folder of the sink included in the client, oncegate_spark.spark.sinks:files.",
        words="path",
    ),
    Option(
        "leaseMs",
        ("claim",),
        "Lease of a task's claims; it is renewed after each third of it while the sink writes.",
        missing="the gateway's",
        least=1_000,
        most=900_000,
        unit="milliseconds",
    ),
    Option(
        "kafkaConfigFile",
        ("direct",),
        "File on each executor with settings of the Kafka client (librdkafka), one `name=value` per line.",
        words="path",
        missing="the gateway's brokers",
    ),
    Option(
        "transactionMs",
        ("direct",),
        "Time after which brokers abort a task's open transaction; readers with `read_committed` wait that long for "
        "the transaction of a dead task. At least timeoutMs if that is set. Brokers limit it to "
        "`transaction.max.timeout.ms`.",
        missing="60000, or timeoutMs if that is set and longer",
        least=10_000,
        most=86_400_000,
        unit="milliseconds",
    ),
    Option(
        "txnAppId",
        ("staged", *BY_ID),
        "Name of the job, the same in every run. With write=staged it replaces the query's id in a batch's name; with "
        "ids and claim it names the driver, if there is a producerCol or scope=retry.",
        missing="the id of the streaming query",
    ),
    Option(
        "txnVersion",
        ("staged",),
        "Version of the job's input: a re-run with the same name and version has no effect. Numbers increase, as in "
        "Delta Lake: a number below a committed one is skipped, with a warning. Other texts, such as 2026-11-20, have "
        "no order. Used with txnAppId.",
        missing="the id of the micro-batch",
        only=(WRITE, FOREACH_BATCH),
    ),
    Option(
        "writeId",
        ("staged",),
        "Distinguishes several writes of one batch to one topic; each after the first needs one, the same in every "
        "run.",
        missing="empty",
    ),
    Option(
        "onReplayMismatch",
        ("staged",),
        "Treatment of a batch that is repeated under its name with other rows, if it is unknown whether it reads the "
        "same input: it fails, or with first_wins the published rows stay and these are dropped. A batch known to read "
        "other input fails in either case; one known to read the same input is dropped in either case.",
        default="fail",
        allowed=("fail", "first_wins"),
    ),
    Option(
        "startingOffsets",
        (READ,),
        "Start of a read; for a stream, of its first start.",
        default="earliest",
        words=OFFSETS,
    ),
    Option(
        "endingOffsets",
        (READ,),
        "End of a batch read; rows at these offsets are not read.",
        missing="latest, as of planning",
        words=OFFSETS,
        only=(READ_BATCH,),
    ),
    Option(
        "maxRowsPerBatch",
        (READ,),
        "Maximum number of rows in a micro-batch.",
        missing="unlimited",
        least=1,
        most=1_000_000_000,
        unit="rows",
        only=(READ_STREAM,),
    ),
    Option(
        "failOnDataLoss",
        (READ,),
        "Whether a read fails if retention dropped rows before they were read; otherwise this is only logged.",
        default="true",
        allowed=TRUTHS,
    ),
    Option(
        "waitForTopic",
        (READ,),
        "Whether a stream may start before its topic exists or has columns: it waits for the first row, and reads "
        "from there. Used with `.schema(…)`, since a query must know its columns.",
        default="false",
        allowed=TRUTHS,
        only=(READ_STREAM,),
    ),
    Option(
        "columns",
        (READ,),
        "Columns to read; Spark requests all columns from a source of this kind.",
        words=COLUMNS,
        missing="all",
    ),
    Option(
        "includeOffsets",
        (READ,),
        "Whether rows have the additional columns `_partition` and `_offset`.",
        default="false",
        allowed=TRUTHS,
    ),
)

BY_NAME: dict[str, Option] = {option.name: option for option in OPTIONS}
NAMES: dict[str, str] = {option.key: option.name for option in OPTIONS}


def option_rows() -> list[tuple[str, str, str, str, str, str]]:
    """Returns the documentation's table: name, values, default, write modes, calls and meaning of each option."""
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
