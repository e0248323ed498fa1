"""Spark sink and Python client of the Oncegate gateway.

The clients (`Gateway`, and `AsyncGateway` for asyncio) need only pyarrow. Modules that need Spark are imported on first
use. Every error that a caller can catch is exported here; `errors` draws their hierarchy.
"""

from typing import Any

from oncegate_spark.aio.attempt import AsyncAttempt
from oncegate_spark.aio.gateway import AsyncGateway
from oncegate_spark.aio.producers import AsyncDriver, AsyncProducer
from oncegate_spark.credentials import Credentials
from oncegate_spark.errors import (
    BadId,
    BadOption,
    BatchConflict,
    BatchForgotten,
    BatchOver,
    BrokenMessages,
    Fenced,
    Gap,
    InDoubt,
    LedgerBehind,
    LostClaim,
    MissingStage,
    NoIdentity,
    NotCompleted,
    NotDriver,
    NotEmpty,
    NotFound,
    NotRegistered,
    OffsetTrimmed,
    OlderBatch,
    OncegateError,
    OtherDriver,
    Outcome,
    OutOfOrder,
    PayloadConflict,
    ProducerBusy,
    Refused,
    SecondWrite,
    SinkRefused,
    SourceReplaced,
    SpillFull,
    StillBusy,
    Stopped,
    TaskFailed,
    TooManyNamespaces,
    TurnedAway,
    Unanswered,
    Unavailable,
    Unreachable,
    Unreadable,
    Unsettled,
)
from oncegate_spark.kafka_records import RecordCheck
from oncegate_spark.protocol.answers import (
    Acked,
    Claimed,
    ClaimedSequences,
    Drained,
    Produced,
    RefusedPart,
    Registered,
    Taken,
    Topic,
    Written,
)
from oncegate_spark.protocol.calls.namespace import LookedUp
from oncegate_spark.protocol.names import WriterId
from oncegate_spark.protocol.packed import Place
from oncegate_spark.spark import pickling
from oncegate_spark.spark.acks import acknowledger
from oncegate_spark.spark.assign_ids import assign_ids
from oncegate_spark.spark.assign_sequences import assign_sequences
from oncegate_spark.spark.audit import Audit, audit
from oncegate_spark.spark.check_records import check_records
from oncegate_spark.spark.committed_offsets import committed_offsets
from oncegate_spark.spark.dedup import dedup
from oncegate_spark.spark.foreach_batch import foreach_batch
from oncegate_spark.spark.observe import observe
from oncegate_spark.spark.observe.counts import BatchCounts, WriteCounts
from oncegate_spark.spark.verify import Verified, verify
from oncegate_spark.spark.writers.explain_job import JobPromise, explain_job
from oncegate_spark.spark.writers.named import NamedBatch, NamedBatches
from oncegate_spark.spill import Spill
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.gateway import Gateway
from oncegate_spark.sync.producers import Driver, Producer
from oncegate_spark.version import __version__ as __version__


def register(spark: Any) -> None:
    """Registers `format("oncegate")` with a session; unnecessary where the package is installed.

    The format then reads checkpoints with the session's current Hadoop settings.

    Raises BadOption, with the line to write instead, if Spark's workers or planner could not import the package.
    """
    from oncegate_spark.spark.checkpoint import hadoop
    from oncegate_spark.spark.datasource import source_of

    pickling.check(spark)
    with pickling.unwarned(spark):
        spark.dataSource.register(source_of(hadoop.of_session(spark)))


__all__ = [
    "Acked",
    "AsyncAttempt",
    "AsyncDriver",
    "AsyncGateway",
    "AsyncProducer",
    "Attempt",
    "Audit",
    "BadId",
    "BadOption",
    "BatchConflict",
    "BatchCounts",
    "BatchForgotten",
    "BatchOver",
    "BrokenMessages",
    "Claimed",
    "ClaimedSequences",
    "Credentials",
    "Drained",
    "Driver",
    "Fenced",
    "Gap",
    "Gateway",
    "InDoubt",
    "JobPromise",
    "LedgerBehind",
    "LookedUp",
    "LostClaim",
    "MissingStage",
    "NamedBatch",
    "NamedBatches",
    "NoIdentity",
    "NotCompleted",
    "NotDriver",
    "NotEmpty",
    "NotFound",
    "NotRegistered",
    "OffsetTrimmed",
    "OlderBatch",
    "OncegateError",
    "OtherDriver",
    "OutOfOrder",
    "Outcome",
    "PayloadConflict",
    "Place",
    "Produced",
    "Producer",
    "ProducerBusy",
    "RecordCheck",
    "Refused",
    "RefusedPart",
    "Registered",
    "SecondWrite",
    "SinkRefused",
    "SourceReplaced",
    "Spill",
    "SpillFull",
    "StillBusy",
    "Stopped",
    "Taken",
    "TaskFailed",
    "TooManyNamespaces",
    "Topic",
    "TurnedAway",
    "Unanswered",
    "Unavailable",
    "Unreachable",
    "Unreadable",
    "Unsettled",
    "Verified",
    "WriteCounts",
    "WriterId",
    "Written",
    "acknowledger",
    "assign_ids",
    "assign_sequences",
    "audit",
    "check_records",
    "committed_offsets",
    "dedup",
    "explain_job",
    "foreach_batch",
    "observe",
    "register",
    "verify",
]
