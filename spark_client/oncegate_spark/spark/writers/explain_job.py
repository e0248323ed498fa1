"""Explains the guarantee of a write before it runs, from its options and plan."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncegate_spark.spark.checkpoint import hadoop
from oncegate_spark.spark.checkpoint.begun import placed
from oncegate_spark.spark.kafka_source import UNCOMMITTED, kafka_options, reads_uncommitted
from oncegate_spark.spark.options import PROMISES, Options
from oncegate_spark.spark.options.guarantees import Promise
from oncegate_spark.spark.pickling import is_connect
from oncegate_spark.spark.writers import check_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark's streaming sources that cannot deliver a batch's rows again.
NOT_REPLAYABLE = {"socket", "textsocket"}


@dataclass(frozen=True)
class JobPromise:
    """Guarantee of a write; `str` formats it for people.

    write      the write mode
    guarantee  effectively_once or at_least_once
    keeps      the promise, in words
    because    its preconditions that hold
    unless     its limits
    """

    write: str
    guarantee: str
    keeps: str
    because: tuple[str, ...]
    unless: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"write={self.write}, {self.guarantee}: {self.keeps}"]
        lines += [f"  because  {reason}" for reason in self.because]
        return "\n".join([*lines, *(f"  unless   {reason}" for reason in self.unless)])


def explain_job(df: "DataFrame", **options: object) -> JobPromise:
    """Returns the guarantee of a write of `df` through format("oncegate") with these options, and its reasons.

    Contacts no gateway and runs no job. `options`: as for .option(); Python's booleans are accepted. Raises BadOption
    and BadId where the driver would reject the write.
    """
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    read = check_schema(Options.read(texts, df.columns), df.schema)
    read = placed(read, hadoop.of_session(df.sparkSession))
    plan = None if is_connect(df.sparkSession) else df._jdf.queryExecution().analyzed()
    reasons = _Reasons(read, df.isStreaming, plan)
    promise: Promise = PROMISES[read.write]
    return JobPromise(
        read.write, promise.guarantee, promise.keeps, tuple(reasons.because()), (promise.unless, *reasons.unless())
    )


@dataclass(frozen=True)
class _Reasons:
    """Derives reasons from the options, and from the analyzed plan where Spark provides one."""

    options: Options
    is_stream: bool
    plan: Any

    def because(self) -> list[str]:
        lines = [self._chosen()]
        if self.options.write in ("ids", "claim"):
            lines.append(f"a row is recognised by its {self.options.known_by}")
        if self.options.write == "staged":
            lines.append(f"a batch is recognised by {self._name()}")
        if self.options.is_scoped:
            lines.append("scope=retry: ids are kept only as long as Spark may retry their batch")
        if self.is_stream and self.options.write == "staged" and self.options.checkpoint:
            lines.append(f"the input of a replayed batch is compared, in the checkpoint {self.options.checkpoint}")
        if self.plan is not None and bool(self.plan.deterministic()):
            lines.append("the plan is deterministic, according to Spark")
        return lines

    def _chosen(self) -> str:
        raw, write = self.options.raw, self.options.write
        if "write" in raw:
            return f"write={write} is set"
        return (
            f"guarantee={raw['guarantee']} selects write={write}"
            if "guarantee" in raw
            else f"write={write} is the default"
        )

    def _name(self) -> str:
        app = "the query's id" if self.options.app is None else f"txnAppId {self.options.app}"
        version = "the number of the batch" if self.options.version is None else f"txnVersion {self.options.version}"
        return f"{app} and {version}"

    def unless(self) -> list[str]:
        lines = [*self._of_names(), *self._of_plan()]
        if self.options.on_conflict == "drop":
            lines.append("onConflict=drop: a row whose id is written with another payload is dropped and counted")
        return lines

    def _of_names(self) -> list[str]:
        if self.options.write != "staged":
            return []
        if not self.is_stream and (self.options.app is None or self.options.version is None):
            return [
                "outside foreachBatch this batch job has no name, and its first task will fail: set txnAppId and "
                "txnVersion"
            ]
        if self.is_stream and not self.options.checkpoint:
            return [
                "no checkpoint is set: a batch replayed with other rows than before is refused with BATCH_CONFLICT, "
                "which stops the query"
            ]
        if self.options.first_wins:
            return [
                "onReplayMismatch=first_wins: a batch repeated with other rows is dropped if its input is unknown, and "
                "refused if its input is known to differ"
            ]
        return []

    def _of_plan(self) -> list[str]:
        if self.plan is None:
            return ["Spark Connect provides no plan, so whether it is deterministic is unknown"]
        lines = []
        if not bool(self.plan.deterministic()):
            what = (
                "an id computed by it is new in each run, and never a duplicate"
                if self.options.write in ("ids", "claim")
                else "if a batch is run again, the rows published first stay"
                if self.options.write == "staged"
                else "a batch that is run again has other rows"
            )
            lines.append(f"the plan is not deterministic (uuid(), rand() or similar): {what}")
        sources = sorted(set(_sources(self.plan)) & NOT_REPLAYABLE)
        if any(map(reads_uncommitted, kafka_options(self.plan))):
            lines.append(UNCOMMITTED)
        return [
            *lines,
            *(
                f"source {source} cannot be read again: rows lost before they were written stay lost"
                for source in sources
            ),
        ]


def _sources(plan: Any) -> list[str]:
    """Returns the names of a stream's sources, in lower case."""
    leaves = plan.collectLeaves()
    nodes = (leaves.apply(n) for n in range(leaves.size()))
    return [str(node.sourceName()).lower() for node in nodes if str(node.nodeName()).startswith("StreamingRelation")]
