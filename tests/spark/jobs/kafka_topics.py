"""Writes into topics of a real broker with Spark's own Kafka sink and with a gateway, and runs a query that is killed.

    python -m tests.spark.jobs.kafka_topics both|killed|following URL FOLDER BOOTSTRAP THEIRS OURS

"both": writes the same rows by Spark's sink into topics that begin with THEIRS, and through the gateway into topics
that begin with OURS. "killed": runs a query over FOLDER/in, whose rows name their topics, into those of OURS. Its
driver is killed when the gateway has committed batch 1 and Spark has not yet logged that. "following": runs the same
query to its end.
"""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deploy.kafka.jars import CONNECTOR, fetched
from tests.spark.jobs.killed_lanes import DeadlySource

RECORD = """
    case when id % 50 = 0 then null else concat('k-', id % 120) end as key,
    case when id % 60 = 1 then null else cast(concat('v-', id) as binary) end as value,
    case id % 3 when 0 then null
                when 1 then array(struct('trace' as key, cast(cast(id as string) as binary) as value))
                else array(struct('a' as key, cast(null as binary) as value), struct('a' as key, X'00FF' as value))
    end as headers,
    cast(case when id % 7 = 0 then id % 3 end as int) as partition
"""


class Writes:
    """The session and addresses that all writes of a process share."""

    def __init__(self, url: str, folder: str, bootstrap: str, theirs: str, ours: str) -> None:
        self.folder, self.theirs, self.ours = Path(folder), theirs, ours
        self.kafka, self.gateway = {"kafka.bootstrap.servers": bootstrap}, {"url": url}
        jars = ",".join(str(jar) for jar in sorted(fetched(CONNECTOR).glob("*.jar")))
        builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
        builder = builder.config("spark.ui.enabled", "false").config("spark.local.dir", f"{folder}/local")
        self.spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()

    def both(self) -> None:
        """Writes to one topic by the option, which takes precedence over the column; then to topics by the column."""
        rows = self.spark.range(300).repartition(3)
        address = {**self.gateway, "txnAppId": self.ours, "txnVersion": "1"}
        one = rows.selectExpr(*split(RECORD), "'nowhere' as topic")
        one.write.format("kafka").options(**self.kafka).option("topic", f"{self.theirs}-0").save()
        one.write.mode("append").format("oncegate").options(**address).option("topic", f"{self.ours}-0").save()
        for prefix, sink, given in ((self.theirs, "kafka", self.kafka), (self.ours, "oncegate", address)):
            several = rows.selectExpr(*split(RECORD), f"concat('{prefix}-', 1 + id % 2) as topic")
            several.write.mode("append").format(sink).options(**given).save()

    def query(self, sink: str, **more: str) -> None:
        """Writes batches of one file each into the topics that the rows name."""
        stream = self.spark.readStream.schema("id string, n bigint").option("maxFilesPerTrigger", "1")
        rows = stream.parquet(str(self.folder / "in"))
        rows = rows.selectExpr("id as key", "cast(n as string) as value", f"concat('{self.ours}-', n % 2) as topic")
        writer = rows.writeStream.format(sink).options(**self.gateway, **more).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.folder / "checkpoint")).start().awaitTermination()

    def killed(self) -> None:
        java = self.spark._jvm.java.lang.ProcessHandle.current().pid()
        processes = self.folder / "processes"
        processes.write_text(f"{java} {os.getpid()}")
        self.spark.dataSource.register(DeadlySource)
        self.query(DeadlySource.name(), processes=str(processes))

    def following(self) -> None:
        self.query("oncegate")


def split(columns: str) -> list[str]:
    """Splits RECORD into its expressions."""
    parts = columns.split(",\n    c")
    return [parts[0], *(f"c{part}" for part in parts[1:])]


def main() -> None:
    which, *where = sys.argv[1:]
    writes: Any = Writes(*where)
    getattr(writes, which)()
    writes.spark.stop()


if __name__ == "__main__":
    main()
