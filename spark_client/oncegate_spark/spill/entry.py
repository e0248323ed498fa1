"""File format of spilled rows, one call of `produce` with a checksum; and the errors that stop an entry. No I/O.

A stopped entry blocks all later ones; the error has its number, for `Spill.set_aside`.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import BadOption, OncegateError, Outcome, Stopped

MAGIC = b"oncegate-spill 1"  # the number is the version of the format
_HEAD = struct.Struct("<16sII")  # magic, CRC-32 of everything after it, length of the JSON


class DamagedEntry(Exception):
    """The file is corrupt: its bytes are not those that were written."""


@dataclass(frozen=True)
class SpillEntry:
    """One `produce` of rows with ids. `id_set`: dedup scope; None for the topic's own.

    `spilled_ms`: when the rows were stored, in ms since 1970; None before, and in entries without it.
    """

    namespace: str
    topic: str
    rows: pa.Table
    id_col: tuple[str, ...]
    key_col: tuple[str, ...] = ()
    digest_cols: tuple[str, ...] = ()
    on_conflict: str = "fail"
    id_set: str | None = None
    spilled_ms: int | None = None

    def encode(self) -> bytes:
        """Encodes the file: head, order as JSON, rows as an Arrow stream."""
        order = json.dumps({name: value for name, value in vars(self).items() if name != "rows"}).encode()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_table(self.rows)
        body: bytes = order + sink.getvalue().to_pybytes()
        crc = zlib.crc32(body, zlib.crc32(struct.pack("<I", len(order))))
        return _HEAD.pack(MAGIC, crc, len(order)) + body

    @classmethod
    def decode(cls, data: bytes) -> "SpillEntry":
        """Decodes a file. Raises DamagedEntry unless `encode` made it."""
        if len(data) < _HEAD.size:
            raise DamagedEntry(f"{len(data)} bytes are too few for an entry")
        magic, crc, size = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if magic != MAGIC or zlib.crc32(body, zlib.crc32(struct.pack("<I", size))) != crc:
            raise DamagedEntry("its checksum does not match, or another version wrote it")
        order: dict[str, Any] = json.loads(bytes(body[:size]))
        order |= {name: tuple(order[name]) for name in ("id_col", "key_col", "digest_cols")}
        return cls(**order, rows=pa.ipc.open_stream(body[size:]).read_all())


def stopped(error: OncegateError, folder: Path, number: int) -> OncegateError:
    """Returns the error with the entry's number, in its text and in `extra["spill_number"]`."""
    text = f"entry {number} of {folder} is stopped, and blocks later ones: fix it, or call set_aside({number}): {error}"
    stop = type(error)(text, outcome=error.outcome, code=error.code)
    stop.extra = error.extra | {"spill_number": number}
    return stop


def check_namespace(entry: SpillEntry, namespace: str) -> None:
    """Raises BadOption if the entry belongs to a different namespace from the gateway's."""
    if entry.namespace != namespace:
        raise BadOption(
            f"the spill folder has rows for namespace {entry.namespace!r}, and this gateway uses {namespace!r}: "
            "use one folder per namespace; none of these rows was sent"
        )


def check_none_stale(entry: SpillEntry, stale: int) -> None:
    """Raises Stopped if rows are STALE: the entry may be their only copy."""
    if stale:
        raise Stopped(
            f"{stale} of {entry.rows.num_rows} rows for {entry.topic!r} are STALE: their ids are older than the "
            "namespace's retention of ids (horizon_ms), and forgotten if they were ever known. The other rows are "
            "done, "
            "these were not written: look for them in the topic, set the entry aside, and produce the missing ones "
            "with "
            "new ids; unknown: whether they were written before",
            outcome=Outcome.UNKNOWN,
            code="SPILL_STALE",
        )
