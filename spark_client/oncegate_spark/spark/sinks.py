"""Interface of sinks for `write=claim`, which write the granted rows to any destination; and a sink that writes files.

A sink is a user object with three methods. The option `sink` names a function without arguments that creates it, as
"module:function". It is called on the executor, once per task attempt, so every executor needs the module. One thread
calls `open` once, `write` for each batch of granted rows, and `close`, also after an error:

    import psycopg
    import pyarrow as pa
    from oncegate_spark.spark.sinks import SinkContext

    class Departures:
        def open(self, context: SinkContext) -> None:
            self._database = psycopg.connect(context.options["dsn"])  # your own options, names in lower case

        def write(self, rows: pa.RecordBatch) -> None:
            with self._database.transaction(), self._database.cursor() as cursor:
                cursor.executemany("INSERT INTO departures VALUES (%(flight)s, %(gate)s)", rows.to_pylist())

        def close(self) -> None:
            if hasattr(self, "_database"):
                self._database.close()

    def open_sink() -> Departures:
        return Departures()

    df.writeStream.format("oncegate").option("write", "claim").option("idCol", "flight")
        .option("sink", "my_job.sinks:open_sink").option("dsn", "postgresql://db/flights")

If the sink can be asked for its ids, the function returns `Deliver` with a sink of `oncegate_spark.delivery`, and a
dying task causes no duplicates:

    def open_payments() -> Deliver:
        return Deliver(lambda context: HttpSink(context.options["payments"]))

A sink with these methods follows three rules. `write` returns only when its rows are durable: they are completed next,
and never written again. An exception means that it is unknown which of its rows were written: the task fails, and its
next attempt is granted them again once the lease expires, counted as takeovers. A sink never drops or changes the set
of rows: granted rows are its own alone, and others never reach it.
"""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import pyarrow as pa

from oncegate_spark import delivery
from oncegate_spark.disk import make_folder, sync_folder
from oncegate_spark.errors import NOTHING, BadOption

SUFFIX = ".arrows"


@dataclass(frozen=True)
class SinkContext:
    """Identity and options of the task attempt for which a sink is opened.

    token      32 hexadecimal digits, unique to this attempt: suitable for a file name
    partition, attempt  Spark's numbers of the task; they repeat in another run
    namespace, topic    of the write; the topic may be empty
    options    of the write, including your own; names in lower case
    """

    token: str
    partition: int
    attempt: int
    namespace: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """Methods that a task calls, in this order, from one thread; `close` also after an error."""

    def open(self, context: SinkContext) -> None:
        """Prepares for writing; also called for a task without granted rows."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows and returns once they are durable: they are completed next, and never written again.

        After an exception it is unknown which of them were written.
        """

    def close(self) -> None:
        """Releases resources; called once, also after an error, and even if `open` was not called."""


@dataclass(frozen=True)
class Deliver:
    """Delivers rows to a sink of `oncegate_spark.delivery`, which can be asked for its ids.

        open  creates the sink, once per task attempt, on the executor
        body  content written for a row: a column name, whose text is written as UTF-8; or a function of the row as a
              dict of Python values; None: that dict

    Returned by a factory of the option `sink` instead of a sink with open(), write() and close(). Rows need ids
    (`idCol`). Guarantee: that of the sink's class. A row that a dead attempt may have written is looked up in the sink,
    never written again or dropped on a guess.
    """

    open: Callable[[SinkContext], delivery.Sink]
    body: str | Callable[[dict[str, Any]], Any] | None = "value"

    def check(self, columns: Sequence[str]) -> None:
        """Raises BadOption if the columns lack the body column."""
        if isinstance(self.body, str) and self.body not in columns:
            raise BadOption(f"rows have no column {self.body} to deliver: add it, or set Deliver(…, body=…){NOTHING}")

    def body_of(self, row: dict[str, Any]) -> Any:
        """Returns the content written for a row."""
        if self.body is None:
            return row
        if callable(self.body):
            return self.body(row)
        value = row[self.body]
        return value.encode() if isinstance(value, str) else value


def load(target: str) -> "Callable[[], Sink | Deliver]":
    """Imports the factory "module:factory". Raises BadOption if that fails."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise BadOption(f'sink is {target!r}; write .option("sink", "my_module:factory")')
    try:
        sink = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadOption(f"sink {target!r} cannot be imported here: {error}; every executor needs the module") from error
    return cast("Callable[[], Sink | Deliver]", sink)


def files() -> Sink:
    """Returns the sink that appends to files below `sinkPath`."""
    return FileSink()


class FileSink:
    """Appends to one Arrow stream file per attempt, `<token>.arrows`, synced after each batch;
    `read_files` reads them.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def open(self, context: SinkContext) -> None:
        """Stores the file's name; the file is created at the first rows. Raises BadOption without a sinkPath."""
        folder = context.options.get("sinkpath")
        if not folder:
            raise BadOption('the file sink needs a folder; add .option("sinkPath", "/data/out")')
        make_folder(Path(folder))
        self._path = Path(folder) / f"{context.token}{SUFFIX}"

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows and syncs them to disk."""
        if self._file is None:
            self._create(rows.schema)
        assert self._file is not None
        assert self._writer is not None
        self._writer.write_batch(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Ends the stream and closes the file."""
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._file is not None:
                self._file.close()

    def _create(self, schema: pa.Schema) -> None:
        assert self._path is not None, "open() comes first"
        self._file = self._path.open("xb")
        self._writer = pa.ipc.new_stream(self._file, schema)
        sync_folder(self._path.parent)


def read_files(folder: str | Path) -> pa.Table | None:
    """Reads all rows in a file sink's folder; None if there are none.

    A file whose writer was killed may end inside a batch: that batch was never acknowledged, and is left out.
    """
    batches: list[pa.RecordBatch] = []
    for file in sorted(Path(folder).glob(f"*{SUFFIX}")):
        batches.extend(_whole_batches(file))
    return pa.Table.from_batches(batches) if batches else None


def _whole_batches(file: Path) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    try:
        with pa.ipc.open_stream(file.read_bytes()) as reader:
            batches.extend(iter(reader))
    except (pa.ArrowInvalid, OSError):
        pass
    return batches
