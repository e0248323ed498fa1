"""Writes inside foreachBatch, with what only the driver knows at their side.

    stream.writeStream.foreachBatch(foreach_batch(fn, checkpoint=C)).option("checkpointLocation", C).start()

Several writes of one batch to one topic need a `writeId` each, from the second on.
"""

from collections.abc import Callable
from typing import Any

from oncegate_spark.errors import BadOption, BrokenMessages
from oncegate_spark.protocol import marks
from oncegate_spark.spark import acks
from oncegate_spark.spark.checkpoint import DriverNotes, local_folder, read_input
from oncegate_spark.spark.pickling import is_connect
from oncegate_spark.spark.task_identity import NOTES

Batch = Callable[[Any, int], None]
NO_CONNECT = (
    "inside foreachBatch Spark Connect tells neither the query nor its run, so oncegate_spark.foreach_batch has "
    "nothing to note. Give the function itself to foreachBatch, and to each write "
    '.option("txnAppId", "<a name for this job>").option("txnVersion", str(batch_id)), and a writeId of its own to '
    "each one after the first; or write with "
    'writeStream.format("oncegate"), which needs none of this'
)


def foreach_batch(fn: Batch, *, checkpoint: str) -> Batch:
    """`fn(df, batch_id)`, whose writes are recognised by the digest of the batch's input, as those of a streaming sink.

    `checkpoint` is the query's own checkpointLocation. Inside, `df.sparkSession` is the session to use. Raises
    BadOption with the lines to write instead when the batch comes through Spark Connect; nothing is written then.
    """

    def noted(df: Any, batch_id: int) -> None:
        if is_connect(df.sparkSession):
            raise BadOption(NO_CONNECT)
        acks.send(checkpoint)
        conf = df.sparkSession.conf
        conf.set(NOTES, _notes(df.sparkSession, checkpoint, batch_id).to_json())
        try:
            fn(df, batch_id)
        finally:
            conf.unset(NOTES)

    return noted


def _notes(session: Any, checkpoint: str, batch_id: int) -> DriverNotes:
    read = read_input(checkpoint)
    if read is not None and read.number != batch_id:
        raise BrokenMessages(
            f"batch {batch_id} begins, but the newest entry in {checkpoint}/offsets is {read.number}: either this is "
            "not the query's checkpoint, or another driver runs on it; nothing was written"
        )
    run = session.sparkContext.getLocalProperty("spark.jobGroup.id")
    return DriverNotes(read, checkpoint, run, marks.read_all(local_folder(checkpoint)))
