"""The Spark program of the matrix: performs runs one after another in one session.

    python -m demo.matrix.driver FOLDER URL MASTER

FOLDER/runs.json lists the runs. After a kill and a restart it resumes: finished runs have recorded an event, and the
interrupted run continues from its checkpoints.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from demo.events import Events, of_kind
from demo.job import JVM_OPTIONS, TIMEOUT_MS, session
from demo.matrix.plans import PARTITIONS, PLANS
from demo.matrix.runs import Run
from demo.matrix.struck import Strike, StruckSource
from oncegate_spark import dedup, foreach_batch

TRIES_MAX = 4
LEASE_MS = 1_000
TOPIC, FIRST_TOPIC = "out", "first"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.cleaner.referenceTracking": "false",
    "spark.shuffle.io.maxRetries": "0",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "200ms",
}


class Performance:
    """A run, in the session shared by all runs."""

    def __init__(self, spark: SparkSession, run: Run, url: str, files: Path) -> None:
        self.spark, self.run, self.plan = spark, run, PLANS[run.plan]
        self.folder, self.events = Path(run.folder), Events(Path(run.folder) / "events.jsonl")
        self.where = {"url": url, "namespace": run.name, "timeoutMs": str(TIMEOUT_MS)}
        self.strike = Strike(run.fault, run.batch, run.folder, str(files))

    def go(self) -> None:
        """Runs the jobs until everything is written, restarting them on failure. Raises the error of the last try."""
        if self.plan.chained:
            self._persist(self._first)
        self._persist(self._last)
        if self.run.fault == "batch_replay" and self.events.first_time("strike"):
            self._forget_last_batch()
            self._persist(self._last)
        self.events.say("finished")

    def _persist(self, query: Any) -> None:
        for left in reversed(range(TRIES_MAX)):
            try:
                query()
            except Exception as error:
                self.events.say("failed", error=str(error)[:2_000])
                if not left:
                    raise
            else:
                return

    def _first(self) -> None:
        """Runs the first job of a chain; it is written `staged` if the way needs its own sink or a batch."""
        way = self.run.way if self.run.way in ("plain", "ids") else "staged"
        options = {"write": way, **({"idCol": "id"} if way == "ids" else {})}
        stream = self.run.input.stream(self.spark, "left").repartition(PARTITIONS)
        writer = stream.writeStream.format("oncegate").options(**self.where, **options, topic=FIRST_TOPIC)
        writer = writer.option("checkpointLocation", str(self.folder / "first")).trigger(availableNow=True)
        writer.start().awaitTermination()

    def _last(self) -> None:
        """Runs the job that the fault strikes."""
        parts = PARTITIONS - len(of_kind(self.events.all(), "injected", fault="batch_replay"))
        stream = self.plan.output(self._stream, parts)
        if self.plan.updates or self.run.way == "dedup":
            mode = "update" if self.plan.updates else "append"
            each = foreach_batch(self._write, checkpoint=self._checkpoint)
            writer = stream.writeStream.outputMode(mode).foreachBatch(each)
        else:
            writer = stream.writeStream.format(StruckSource.name()).options(**self._options())
        writer = writer.option("checkpointLocation", self._checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()

    def _stream(self, side: str) -> Any:
        if not self.plan.chained:
            return self.run.input.stream(self.spark, side)
        rows = str(self.run.input.rows)  # a batch of the second job has the rows of a batch of the first
        return self.spark.readStream.format("oncegate").options(**self.where, maxRowsPerBatch=rows).load(FIRST_TOPIC)

    def _write(self, df: DataFrame, batch: int) -> None:
        """Writes a batch inside foreachBatch."""
        if self.run.way == "dedup":
            key = f"{self.run.name}/{batch}"
            df = dedup(df, "id", job_key=key, gateway=self.where["url"], namespace=self.run.name)
        options = {**self._options(), "strikenow": str(batch)}
        df.write.format(StruckSource.name()).mode("append").options(**options).save()

    def _options(self) -> dict[str, str]:
        way = {"dedup": "staged"}.get(self.run.way, self.run.way)
        options = {**self.where, **self.strike.options(), "write": way, "topic": TOPIC}
        if way in ("claim", "ids"):
            options["idCol"] = "id"
        if way == "claim":
            sink = {"sink": "demo.matrix.struck:StruckFiles", "sinkPath": str(self.folder / "out")}
            options |= {**sink, "leaseMs": str(LEASE_MS)}
        return options

    @property
    def _checkpoint(self) -> str:
        return str(self.folder / "last")

    def _forget_last_batch(self) -> None:
        """Removes the last batch from Spark's commit log, as if it had crashed after the sink's commit."""
        commits = self.folder / "last" / "commits"
        batch = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
        for entry in (commits / str(batch), commits / f".{batch}.crc"):
            entry.unlink()
        self.events.say("injected", fault="batch_replay", batch=batch)


def main() -> None:
    """Reports the JVM's pid to the supervisor, which kills it, then performs the unfinished runs."""
    folder, url, master = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    runs = [Run(**members) for members in json.loads((folder / "runs.json").read_text())]
    speculation = SPECULATION if any(run.fault == "speculation" for run in runs) else {}
    spark = session(master, folder, {**SETTINGS, **speculation})
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    Events(folder / "events.jsonl").say("driver", python=os.getpid(), jvm=jvm)
    spark.dataSource.register(StruckSource)
    try:
        for run in runs:
            if not of_kind(Events(Path(run.folder) / "events.jsonl").all(), "finished"):
                Performance(spark, run, url, folder / "spark").go()
    finally:
        spark.stop()  # otherwise the JVM may keep running


if __name__ == "__main__":
    main()
