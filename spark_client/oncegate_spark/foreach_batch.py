"""Writes inside foreachBatch, with what only the driver knows at their side.

    stream.writeStream.foreachBatch(foreach_batch(fn, checkpoint=C)).option("checkpointLocation", C).start()

Several writes of one batch to one topic need a `writeId` each, from the second on.
"""

from collections.abc import Callable
from typing import Any

from oncegate_spark import marks
from oncegate_spark.checkpoint import DriverNotes, local_folder, read_input
from oncegate_spark.errors import BrokenMessages
from oncegate_spark.identity import NOTES

Batch = Callable[[Any, int], None]


def foreach_batch(fn: Batch, *, checkpoint: str) -> Batch:
    """`fn(df, batch_id)`, whose writes are recognised by the digest of the batch's input, as those of a streaming sink.

    `checkpoint` is the query's own checkpointLocation. Inside, `df.sparkSession` is the session to use.
    """

    def noted(df: Any, batch_id: int) -> None:
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
