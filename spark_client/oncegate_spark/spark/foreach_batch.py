"""Writes inside foreachBatch, with the batch's identity and input, which only the driver knows.

    stream.writeStream.foreachBatch(foreach_batch(fn)).option("checkpointLocation", C).start()

If a batch writes to one topic several times, each write after the first needs a `writeId`.
"""

import logging
from collections.abc import Callable
from typing import Any

from oncegate_spark.errors import BadOption, BrokenMessages
from oncegate_spark.protocol import marks
from oncegate_spark.spark import acks
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes, NoOffsets, OutOfReach, local_folder, newest_input
from oncegate_spark.spark.checkpoint.session import open_in, told_place, whole
from oncegate_spark.spark.checkpoint.unknown import unknown
from oncegate_spark.spark.pickling import is_connect
from oncegate_spark.spark.task_identity import NOTES
from oncegate_spark.spark.writers.named import NamedBatches

BatchFunction = Callable[[Any, Any], None]
NO_CONNECT = (
    "inside foreachBatch Spark Connect does not reveal the query and its run, so oncegate_spark.foreach_batch cannot "
    "identify the batch. Pass the function itself to foreachBatch, and add to each write "
    '.option("txnAppId", "<a name for this job>").option("txnVersion", str(batch_id)), and a writeId of its own to '
    "each one after the first; or use "
    'writeStream.format("oncegate"), which needs none of this'
)

log = logging.getLogger("oncegate_spark")


def foreach_batch(
    fn: BatchFunction, *, checkpoint: str | None = None, named: NamedBatches | None = None
) -> BatchFunction:
    """Wraps `fn(df, batch_id)`, so that a replayed batch is recognised by its input, as in a streaming sink.

    Args:
        checkpoint: the query's checkpointLocation, on any file system that Spark uses; by default read from Spark
        named: calls `fn(df, batch)` with a NamedBatch instead of the number, which is written with the rows into any
            sink

    If the input cannot be read the first batch logs a warning before `fn` is called. Inside `fn`, use the session
    `df.sparkSession`.

    Raises BadOption, with the lines to write instead, for Spark Connect and for a `checkpoint` without offsets;
    BrokenMessages for another query's checkpoint. Nothing is written then.
    """
    warned: list[str] = []

    def noted(df: Any, batch_id: int) -> None:
        session = df.sparkSession
        if is_connect(session):
            raise BadOption(NO_CONNECT)
        query = session.sparkContext.getLocalProperty("sql.streaming.queryId")
        checkpoint_url = whole(session, checkpoint) if checkpoint else told_place(session, query)
        acks.send(checkpoint_url)
        read, why = _looked(session, checkpoint_url, checkpoint is not None)
        if why and not warned:
            warned.append(why)
            log.warning(unknown(why, '.foreachBatch(oncegate_spark.foreach_batch(fn, checkpoint="…"))'))
        _check(checkpoint_url, read, query, batch_id)
        run = session.sparkContext.getLocalProperty("spark.jobGroup.id")
        notes = DriverNotes(read, checkpoint_url, run, marks.read_all(local_folder(checkpoint_url)))
        session.conf.set(NOTES, notes.to_json())
        try:
            _call(fn, df, batch_id, named, notes, query)
        finally:
            session.conf.unset(NOTES)

    return noted


def _call(
    fn: BatchFunction, df: Any, batch_id: int, named: NamedBatches | None, notes: DriverNotes, query: str | None
) -> None:
    if named is None:
        fn(df, batch_id)
        return
    with named.begun(notes, query) as batch:
        if batch is not None:
            fn(df, batch)


def _looked(session: Any, checkpoint_url: str | None, is_given: bool) -> tuple[BatchInput | None, str]:
    """Returns the batch's input; None with the reason if it cannot be read. Raises BadOption for a folder without
    offsets.
    """
    try:
        if checkpoint_url is None:
            raise OutOfReach("Spark does not reveal the query's checkpoint")
        return newest_input(open_in(session, checkpoint_url)), ""
    except NoOffsets as error:
        if is_given:
            raise BadOption(
                f"{error}: checkpoint is not the query's checkpointLocation; nothing was written"
            ) from error
        return None, str(error)
    except OutOfReach as error:
        return None, str(error)


def _check(checkpoint_url: str | None, read: BatchInput | None, query: str | None, batch_id: int) -> None:
    """Raises BrokenMessages if the checkpoint's newest entry belongs to a different query or batch."""
    if read is None:
        return
    if query and read.query and read.query != query:
        raise BrokenMessages(
            f"{checkpoint_url} is the checkpoint of query {read.query}, and this is query {query}: pass its own "
            "checkpointLocation, or none; nothing was written"
        )
    if read.number != batch_id:
        raise BrokenMessages(
            f"batch {batch_id} began, but the newest entry in {checkpoint_url}/offsets is {read.number}: either "
            "this is not the query's checkpoint, or another driver uses it; nothing was written"
        )
