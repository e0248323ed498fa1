"""Writes inside foreachBatch, with what only the driver knows at their side.

    stream.writeStream.foreachBatch(foreach_batch(fn)).option("checkpointLocation", C).start()

Several writes of one batch to one topic need a `writeId` each, from the second on.
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
    "inside foreachBatch Spark Connect tells neither the query nor its run, so oncegate_spark.foreach_batch has "
    "nothing to note. Give the function itself to foreachBatch, and to each write "
    '.option("txnAppId", "<a name for this job>").option("txnVersion", str(batch_id)), and a writeId of its own to '
    "each one after the first; or write with "
    'writeStream.format("oncegate"), which needs none of this'
)

log = logging.getLogger("oncegate_spark")


def foreach_batch(
    fn: BatchFunction, *, checkpoint: str | None = None, named: NamedBatches | None = None
) -> BatchFunction:
    """`fn(df, batch_id)`, whose writes are recognised by the digest of the batch's input, as those of a streaming sink.

    `named`: `fn(df, batch)` is given a NamedBatch in place of the number, to write beside its rows into any sink.

    `checkpoint`: the query's own checkpointLocation, on whatever file system Spark has it; without it Spark is asked.
    Where the digest stays unknown the first batch warns, before `fn` is called. Inside, `df.sparkSession` is the
    session to use. Raises BadOption with the lines to write instead when the batch comes through Spark Connect, and
    where `checkpoint` holds no offsets; BrokenMessages where it is another query's. Nothing is written then.
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
    """The batch's input; None with the reason where nobody could look. Raises BadOption for a place without offsets."""
    try:
        if checkpoint_url is None:
            raise OutOfReach("Spark does not tell where the query's checkpoint is")
        return newest_input(open_in(session, checkpoint_url)), ""
    except NoOffsets as error:
        if is_given:
            raise BadOption(f"{error}: this is not the query's checkpointLocation; nothing was written") from error
        return None, str(error)
    except OutOfReach as error:
        return None, str(error)


def _check(checkpoint_url: str | None, read: BatchInput | None, query: str | None, batch_id: int) -> None:
    """Raises BrokenMessages where what was read is of another query, or of another batch."""
    if read is None:
        return
    if query and read.query and read.query != query:
        raise BrokenMessages(
            f"{checkpoint_url} is the checkpoint of query {read.query}, and this is query {query}: give its own "
            "checkpointLocation, or none; nothing was written"
        )
    if read.number != batch_id:
        raise BrokenMessages(
            f"batch {batch_id} begins, but the newest entry in {checkpoint_url}/offsets is {read.number}: either "
            "this is not the query's checkpoint, or another driver runs on it; nothing was written"
        )
