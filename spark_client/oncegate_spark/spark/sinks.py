"""A sink writes the rows that `write=claim` grants, to any place; here is its protocol, and one that writes files.

A sink is an object of yours with three methods. The option `sink` names a function without arguments that makes it,
as "module:function"; it is called on the executor, once for each attempt of a task, so that every executor needs the
module. One thread calls `open` once, `write` for each batch of granted rows, and `close`, also after an error:

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

Where the sink can be asked what it has, the factory returns `Deliver` with one of `oncegate_spark.delivery`, and a task
that dies makes no copy:

    def open_payments() -> Deliver:
        return Deliver(lambda context: HttpSink(context.options["payments"]))

Three rules of a sink with these methods. `write` returns only when its rows are durable: the gateway is told so next,
and nobody writes them again. An exception means that it is unknown which of its rows were written; the task fails, and
its next attempt is granted them again when the lease is over, counted as takeovers. A sink never drops or changes which
rows it is given: what is granted is its own alone, what is not never reaches it.
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
    """Says for whom a sink is opened.

    token      32 hexadecimal digits, this attempt's and no other's: good for a file's name
    partition, attempt  Spark's numbers of the task; another run counts again
    namespace, topic    as the write has them; the topic may be empty
    options    the write's, yours among them; names in lower case
    """

    token: str
    partition: int
    attempt: int
    namespace: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """What a task calls, in this order, from one thread; `close` also after an error."""

    def open(self, context: SinkContext) -> None:
        """Get ready to write, before the first rows; a task without granted rows is opened and closed too."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, and return only when they are durable: the gateway is told so next, and nobody writes them again.

        After an exception it is unknown which of them were written.
        """

    def close(self) -> None:
        """Let go of what was opened; called once, also after an error, and where `open` was never reached."""


@dataclass(frozen=True)
class Deliver:
    """Has rows delivered to a ready sink, or one of yours, that can be asked what it has: `oncegate_spark.delivery`.

    open    makes the sink, once for each attempt of a task, on the executor
    body    what is written of a row: the name of its column, whose text is written as UTF-8; or a function of the row
            as a dict of Python values; None: that dict

    A factory of the option `sink` returns it in place of a sink with open(), write() and close(). Rows have to have
    ids (`idCol`). Promise: the sink's, as its class says it: a row that a dead attempt may have written is looked up in
    the sink, and neither written again nor dropped by guess.
    """

    open: Callable[[SinkContext], delivery.Sink]
    body: str | Callable[[dict[str, Any]], Any] | None = "value"

    def check(self, columns: Sequence[str]) -> None:
        """Raises BadOption where rows of these columns have no body."""
        if isinstance(self.body, str) and self.body not in columns:
            raise BadOption(f"rows have no column {self.body} to deliver: add it, or Deliver(…, body=…){NOTHING}")

    def body_of(self, row: dict[str, Any]) -> Any:
        """Returns what is written of a row."""
        if self.body is None:
            return row
        if callable(self.body):
            return self.body(row)
        value = row[self.body]
        return value.encode() if isinstance(value, str) else value


def load(target: str) -> "Callable[[], Sink | Deliver]":
    """The factory that "module:factory" names. Raises BadOption where there is none."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise BadOption(f'sink is {target!r}; write .option("sink", "my_module:factory")')
    try:
        sink = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadOption(f"sink {target!r} cannot be loaded here: {error}; every executor needs the module") from error
    return cast("Callable[[], Sink | Deliver]", sink)


def files() -> Sink:
    """The sink that appends to files below `sinkPath`."""
    return FileSink()


class FileSink:
    """Appends to one Arrow stream file per attempt, `<token>.arrows`, synced with each batch. Read by `read_files`."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def open(self, context: SinkContext) -> None:
        """Remember the file's name; it is made with the first rows. Raises BadOption without a sinkPath."""
        folder = context.options.get("sinkpath")
        if not folder:
            raise BadOption('the file sink needs a folder; add .option("sinkPath", "/data/out")')
        make_folder(Path(folder))
        self._path = Path(folder) / f"{context.token}{SUFFIX}"

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows and sync them to disk before returning."""
        if self._file is None:
            self._create(rows.schema)
        assert self._file is not None
        assert self._writer is not None
        self._writer.write_batch(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the stream and close the file."""
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
    """All rows in a file sink's folder; None when there are none.

    A file may end in the middle of a batch (its writer was killed): that batch was never acknowledged; it is left out.
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
