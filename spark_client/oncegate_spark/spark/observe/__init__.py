"""Shows what became of the rows of each batch: what was written and what was suppressed, which Spark does not count."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption
from oncegate_spark.spark import logs
from oncegate_spark.spark.observe.counts import BatchCounts
from oncegate_spark.spark.pickling import is_connect

if TYPE_CHECKING:
    from oncegate_spark.spark.observe.listener import BatchListener

NO_CONNECT = (
    "observe needs the driver's process: through Spark Connect listeners run on the client, and counts are left on the "
    "server. There each commit writes them into Spark's log, one line a batch; sums of a namespace are in "
    'Gateway(url, namespace).describe()["counters"]; or call observe in a session without remote()'
)


def observe(spark: Any, on_batch: Callable[[BatchCounts], None] | None = None) -> "BatchListener":
    """Show rows written, suppressed and taken over of each batch of the queries that this session starts from now on.

        listener = oncegate_spark.observe(spark, on_batch=lambda counts: SUPPRESSED.inc(counts.suppressed))

    Each batch is one line of the log `oncegate_spark`, then `listener.last`, then a call of `on_batch`, in one of
    Spark's threads, soon after the batch is done; an error that it raises is logged. The counts are those of this run
    of the batch: one that comes again is told again, with what it has written then. Writes inside foreachBatch count
    with their batch; those of a thread started there only where `oncegate_spark.foreach_batch` knows the checkpoint.
    A `df.write` has no batch: its line is in the log of its commit.

    Raises BadOption with what to do instead through Spark Connect.
    """
    if is_connect(spark):
        raise BadOption(NO_CONNECT)
    from pyspark import SparkFiles

    from oncegate_spark.spark.observe.listener import BatchListener

    logs.be_heard()
    # On the driver's disk, in a folder that Spark removes with the session's context.
    folder = Path(tempfile.mkdtemp(prefix="oncegate-counts-", dir=SparkFiles.getRootDirectory()))
    listener = BatchListener(spark, folder, on_batch)
    listener.open()
    return listener
