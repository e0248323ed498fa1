"""Reports the rows written and suppressed in each batch, which Spark does not count."""

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
    "observe needs the driver's process: through Spark Connect listeners run on the client, and counts stay on the "
    "server. There each commit logs them in Spark's log, one line a batch; a namespace's totals are in "
    'Gateway(url, namespace).describe()["counters"]; or call observe in a session without remote()'
)


def observe(spark: Any, on_batch: Callable[[BatchCounts], None] | None = None) -> "BatchListener":
    """Reports rows written, suppressed and taken over for each batch of the queries that this session starts from now
    on.

        listener = oncegate_spark.observe(spark, on_batch=lambda counts: SUPPRESSED.inc(counts.suppressed))

    Soon after a batch is done, its counts are logged by the logger `oncegate_spark`, stored in `listener.last`, and
    passed to `on_batch` in one of Spark's threads; an error of `on_batch` is logged. The counts cover this run of the
    batch: a repeated batch is reported again, with the rows written then. Writes inside foreachBatch count with their
    batch; those of a thread started there only if `oncegate_spark.foreach_batch` knows the checkpoint. A `df.write` has
    no batch: its commit logs its counts.

    Raises BadOption, with alternatives, for Spark Connect.
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
