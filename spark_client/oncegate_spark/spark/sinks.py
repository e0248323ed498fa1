"""Where `write=claim` lets the executors write: the protocol of a sink, and one that appends to files.

A sink is an object of the user, made on the executor, once per attempt of a task, by the factory that the option
`sink` names as "module:factory".
"""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import pyarrow as pa

from oncegate_spark.errors import BadOption

SUFFIX = ".arrows"


@dataclass(frozen=True)
class SinkContext:
    """`token` is this attempt's and no other's; `options` are the write's, names in lower case."""

    token: str
    partition: int
    attempt: int
    namespace: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """What a task calls, in this order, from one thread; `close` also after an error."""

    def open(self, context: SinkContext) -> None: ...

    def write(self, rows: pa.RecordBatch) -> None:
        """Return only when the rows are durable: the gateway is told so next, and then nobody writes them again.

        After an exception it is unknown which of them were written.
        """

    def close(self) -> None: ...


def load(place: str) -> Callable[[], Sink]:
    """The factory that "module:factory" names. Raises BadOption where there is none."""
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise BadOption(f'sink is {place!r}; write .option("sink", "my_module:factory")')
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadOption(f"sink {place!r} cannot be loaded here: {error}; every executor needs the module") from error
    return cast(Callable[[], Sink], found)


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
        folder = context.options.get("sinkpath")
        if not folder:
            raise BadOption('the file sink needs a folder; add .option("sinkPath", "/data/out")')
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._path = Path(folder) / f"{context.token}{SUFFIX}"

    def write(self, rows: pa.RecordBatch) -> None:
        if self._file is None:
            self._create(rows.schema)
        assert self._file is not None
        assert self._writer is not None
        self._writer.write_batch(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()

    def _create(self, schema: pa.Schema) -> None:
        assert self._path is not None, "open() comes first"
        self._file = self._path.open("xb")
        self._writer = pa.ipc.new_stream(self._file, schema)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
