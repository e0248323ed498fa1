"""Cuts rows into pieces, each an Arrow IPC stream of its own, so that nobody needs more than one of them in memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

PIECE_BYTES = 4 << 20


def pieces_of(schema: Any, batches: Sequence[Any], piece_bytes: int = PIECE_BYTES) -> Iterator[memoryview]:
    """Cuts Arrow record batches into IPC streams of about `piece_bytes` at most; a row that is larger is one alone."""
    for batch in batches:
        for part in _parts(batch, piece_bytes):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(part)
            yield memoryview(sink.getvalue())


def rows_of(piece: bytes | memoryview) -> tuple[Any, list[Any]]:
    """Reads one piece back: its Arrow schema and its record batches, whose bytes are the piece's."""
    with pa.ipc.open_stream(pa.py_buffer(piece)) as reader:
        return reader.schema, list(reader)


def _parts(batch: Any, piece_bytes: int) -> Iterator[Any]:
    if batch.nbytes <= piece_bytes or batch.num_rows < 2:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half), piece_bytes)
    yield from _parts(batch.slice(half), piece_bytes)
