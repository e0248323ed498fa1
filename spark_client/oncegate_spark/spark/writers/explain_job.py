"""Says what a job is promised, and why, before it runs: by the options and the plan, as its writer would read them."""

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

# Of Spark's own streaming sources those that cannot give a batch's rows a second time.
NOT_REPLAYABLE = {"socket", "textsocket"}


@dataclass(frozen=True)
class JobPromise:
    """Holds what a job is promised; `str` is the text for people.

    write: the mode; guarantee: effectively_once or at_least_once. keeps: in words. because: what it rests on. unless:
    where it does not hold.
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
    """Returns what a write of `df` through format("oncegate") with these options is promised, and why.

    Asks no gateway and runs no job. `options`: as .option() takes them, true and false as Python has them too. Raises
    BadOption and BadId for what the write would be refused for on the driver.
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
    """Reads the options, and the analyzed plan where Spark shows one."""

    options: Options
    is_stream: bool
    plan: Any

    def because(self) -> list[str]:
        lines = [self._chosen()]
        if self.options.write in ("ids", "claim"):
            lines.append(f"a row is known again by its {self.options.known_by}")
        if self.options.write == "staged":
            lines.append(f"a batch is known again by {self._name()}")
        if self.options.is_scoped:
            lines.append("scope=retry: ids count as long as Spark may run their batch again, and no longer")
        if self.is_stream and self.options.write == "staged" and self.options.checkpoint:
            lines.append(f"a replayed batch is compared by its input, in the checkpoint {self.options.checkpoint}")
        if self.plan is not None and bool(self.plan.deterministic()):
            lines.append("nothing in the plan is another at each run, as far as Spark says so")
        return lines

    def _chosen(self) -> str:
        raw, write = self.options.raw, self.options.write
        if "write" in raw:
            return f"write={write} is given"
        return (
            f"guarantee={raw['guarantee']} chooses write={write}"
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
            lines.append("onConflict=drop: a row whose id is written with another payload is dropped, and counted")
        return lines

    def _of_names(self) -> list[str]:
        if self.options.write != "staged":
            return []
        if not self.is_stream and (self.options.app is None or self.options.version is None):
            return [
                "outside foreachBatch this batch job has no name, and its first task is refused: give it txnAppId and "
                "txnVersion"
            ]
        if self.is_stream and not self.options.checkpoint:
            return [
                "no checkpoint is named here: a batch that is replayed with other rows than before is refused as "
                "BATCH_CONFLICT, and stops the query"
            ]
        if self.options.first_wins:
            return [
                "onReplayMismatch=first_wins: a batch that comes again with other rows is dropped where its input is "
                "unknown; where it is known to be another one, the batch is refused"
            ]
        return []

    def _of_plan(self) -> list[str]:
        if self.plan is None:
            return ["Spark Connect shows no plan: whether it makes other rows at each run is not to be seen"]
        lines = []
        if not bool(self.plan.deterministic()):
            what = (
                "an id that is made by it is a new id at each run, and never a duplicate"
                if self.options.write in ("ids", "claim")
                else "of a batch that is run again the rows that were published first stay"
                if self.options.write == "staged"
                else "a batch that is run again has other rows"
            )
            lines.append(f"the plan makes other values at each run (uuid(), rand() or the like): {what}")
        sources = sorted(set(_sources(self.plan)) & NOT_REPLAYABLE)
        if any(map(reads_uncommitted, kafka_options(self.plan))):
            lines.append(UNCOMMITTED)
        return [
            *lines,
            *(
                f"source {source} cannot be read again: what was lost before it was written is lost"
                for source in sources
            ),
        ]


def _sources(plan: Any) -> list[str]:
    """The names of a stream's sources, in lower case."""
    leaves = plan.collectLeaves()
    nodes = (leaves.apply(n) for n in range(leaves.size()))
    return [str(node.sourceName()).lower() for node in nodes if str(node.nodeName()).startswith("StreamingRelation")]
