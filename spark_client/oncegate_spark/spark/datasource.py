"""The data source `format("oncegate")`: a sink and a source, for batches and for streams.

Spark creates a writer on the driver, pickles it into every task, and passes the results of the tasks' `write` to the
driver's `commit`. Everything that `commit` needs must be in those messages: for streams it runs in another process, on
another writer.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from oncegate_spark.errors import BadOption, BrokenMessages
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark import acks, logs, task_identity
from oncegate_spark.spark.checkpoint.begun import NO_CONTINUOUS, begun, begun_inside, placed
from oncegate_spark.spark.checkpoint.hadoop import of_environment
from oncegate_spark.spark.options import Options, tables
from oncegate_spark.spark.readers import BatchReader, ReadOptions, StreamReader, read_schema
from oncegate_spark.spark.writers import Writer, check_schema, writer_of
from oncegate_spark.spark.writers.empty import EmptyWrite
from oncegate_spark.spark.writers.target import planned_writer
from oncegate_spark.tracing import task_span


class Message(WriterCommitMessage):  # type: ignore[misc]
    """Result of a task for `commit`: the message of its write mode's writer, and the task's number of rows."""

    def __init__(self, body: Any, rows: int) -> None:
        self.body = body
        self.rows = rows


class OncegateSource(DataSource):  # type: ignore[misc]
    """Creates readers and writers for `format("oncegate")` on the driver, from the user's options."""

    hadoop: ClassVar[Mapping[str, str] | None] = None  # a session's settings, set by `source_of`
    is_carried = False

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format()`."""
        return "oncegate"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = dict(options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Marks an unpickled instance: Spark pickles only the one that builds the writer for a stream's `commit`, whose
        batch has begun.
        """
        self.__dict__.update(state, is_carried=True)

    def schema(self) -> Any:
        """Returns the columns of a read, or of a table to be created; a write has its own.

        Raises NotFound, BadOption and Unavailable.
        """
        of_table = tables.of_create_table(self.given)
        options = self.given if of_table is None else of_table
        tables.check_read(options)
        columns = read_schema(ReadOptions.read(options))
        return columns if of_table is None else tables.remembered(columns, of_table)

    def reader(self, schema: Any) -> BatchReader:
        """Creates the reader of a `spark.read`. Raises BadOption."""
        return BatchReader(self._read_options(schema), tables.bare(schema))

    def streamReader(self, schema: Any) -> StreamReader:
        """Creates the reader of a `spark.readStream`. Raises BadOption."""
        return StreamReader(self._read_options(schema), tables.bare(schema))

    def _read_options(self, schema: Any) -> ReadOptions:
        options = tables.of_a_read(self.given, schema)
        tables.check_read(options)
        return ReadOptions.read(options)

    def writer(self, schema: Any, overwrite: bool) -> "BatchWriter":
        """Creates the writer of a `df.write`. Raises BadOption, BadId, and like `check_target`,
        before a task starts.
        """
        _append_only(overwrite, "mode", 'df.write.mode("append"), in SQL INSERT INTO')
        tables.check_write(self.given, is_stream=False)
        options = Options.read(self.given, schema.names)
        if options.first_wins and not options.write_id:
            raise BadOption(
                "onReplayMismatch=first_wins on df.write would drop rows whenever the name was used before; "
                'add .option("writeId", "<a name for this very write>")'
            )
        check_schema(options, schema)
        options = placed(options, self._settings())
        read = begun_inside(options, self._settings())
        return BatchWriter(planned_writer(options, read, schema), EmptyWrite(options, schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> "StreamWriter":
        """Creates the writer for one batch of a `df.writeStream`. Raises like `writer`, before a task starts."""
        _append_only(overwrite, "outputMode", 'writeStream.outputMode("append")')
        tables.check_write(self.given, is_stream=True)
        options = Options.read(self.given, schema.names)
        if options.version is not None:
            raise BadOption("the version of a stream is its batch id: omit txnVersion; txnAppId is allowed")
        check_schema(options, schema)
        options = placed(options, self._settings())
        if self.is_carried:
            return StreamWriter(writer_of(options, None), EmptyWrite(options, schema))
        # Only here: when the batch begins, the newest entry of the offset log is its own.
        read = begun(options, self._settings())
        writer = planned_writer(options, read, schema)
        if options.has_driver:
            logs.be_heard()
            acks.send(options.checkpoint)
        return StreamWriter(writer, EmptyWrite(options, schema))

    def _settings(self) -> Mapping[str, str]:
        """Returns Hadoop's settings: the registered session's, else those of the environment's files."""
        return of_environment() if self.hadoop is None else self.hadoop


def source_of(settings: Mapping[str, str]) -> type[OncegateSource]:
    """Returns the format with one session's Hadoop settings; Spark pickles the class into its planner."""
    return type("SessionSource", (OncegateSource,), {"hadoop": dict(settings), "__doc__": OncegateSource.__doc__})


class Counted:
    """Iterates over a partition's batches and counts their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writer of one `df.write`; delegates to the writer of its write mode."""

    def __init__(self, writer: Writer, empty: EmptyWrite) -> None:
        self.writer = writer
        self.empty = empty
        self.name = new_token()  # identifies this write: created on the driver, the same in all of its tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """In a task: writes a partition under a new token of this attempt. Raises TaskFailed."""
        return _written(self.writer, iterator, self.name)

    def commit(self, messages: list[Message | None]) -> None:
        """On the driver, after every task succeeded. Raises BrokenMessages if one did not."""
        logs.be_heard()
        self.writer.commit(_bodies(messages), None)
        if _had_no_rows(messages):
            self.empty.make_topic()

    def abort(self, messages: list[Message | None]) -> None:
        """On the driver, after the write failed; the messages of failed tasks are None."""
        logs.be_heard()
        self.writer.abort([message.body for message in messages if message is not None])


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writer of the batches of one `df.writeStream`, like `BatchWriter` for `df.write`."""

    def __init__(self, writer: Writer, empty: EmptyWrite) -> None:
        self.writer = writer
        self.empty = empty

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """In a task: writes a partition under a new token of this attempt. Raises TaskFailed."""
        return _written(self.writer, iterator)

    def commit(self, messages: list[Message | None], batchId: int) -> None:
        """On the driver, after every task of a batch succeeded. Raises BrokenMessages if one did not."""
        logs.be_heard()
        self.writer.commit(_bodies(messages), batchId)
        if _had_no_rows(messages):
            self.empty.make_topic()

    def abort(self, messages: list[Message | None], batchId: int) -> None:
        """On the driver, after the batch failed; the messages of failed tasks are None."""
        logs.be_heard()
        self.writer.abort([message.body for message in messages if message is not None])


def _written(writer: Writer, iterator: Iterator[pa.RecordBatch], name: str | None = None) -> Message:
    token, counted, task = new_token(), Counted(iterator), replace(task_identity.of_task(), write=name)
    numbers = {"spark.partition": task.partition, "spark.attempt": task.attempt, "spark.batch": task.batch}
    with task_span("write a partition", numbers):
        return Message(writer.write(iter(counted), token, task), counted.rows)


def _append_only(overwrite: bool, what: str, line: str) -> None:
    if overwrite:
        raise BadOption(
            f"this {what} replaces earlier rows, and topics are append-only; write {line} "
            "(for an aggregate's update mode use oncegate_spark.foreach_batch)"
        )


def _had_no_rows(messages: list[Message | None]) -> bool:
    return not any(message.rows for message in messages if message is not None)


def _bodies(messages: list[Message | None]) -> list[Any]:
    """Returns the tasks' messages. Raises BrokenMessages if one is missing: continuous mode commits without any
    write().
    """
    missing = sum(message is None for message in messages)
    if missing:
        raise BrokenMessages(f"{missing} of {len(messages)} tasks wrote nothing that can be committed. {NO_CONTINUOUS}")
    return [message.body for message in messages if message is not None]
