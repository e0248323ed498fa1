"""One call's rows as a file: the request to `produce` and the rows, behind a checksum; and errors that stop an entry.

An entry that stops holds all entries after it; the error has its number, which `Spill.set_aside` takes. No I/O.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import BadOption, OncegateError, Outcome, Stopped

MAGIC = b"oncegate-spill 1"  # the number is the format's
_HEAD = struct.Struct("<16sII")  # magic, crc32 of all that follows, length of the JSON


class DamagedEntry(Exception):
    """A file's bytes are not those that were written."""


@dataclass(frozen=True)
class SpillEntry:
    """One `produce`, of rows that have ids. `id_set`: None for that of the topic.

    `spilled_ms`: when the folder took it, in ms since 1970; None: it has not yet, or did not say.
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
        """The file: a head, the order as JSON, the rows as an Arrow stream."""
        order = json.dumps({name: value for name, value in vars(self).items() if name != "rows"}).encode()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_table(self.rows)
        body: bytes = order + sink.getvalue().to_pybytes()
        crc = zlib.crc32(body, zlib.crc32(struct.pack("<I", len(order))))
        return _HEAD.pack(MAGIC, crc, len(order)) + body

    @classmethod
    def decode(cls, data: bytes) -> "SpillEntry":
        """Raises DamagedEntry for anything but what `encode` made."""
        if len(data) < _HEAD.size:
            raise DamagedEntry(f"{len(data)} bytes are no entry")
        magic, crc, size = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if magic != MAGIC or zlib.crc32(body, zlib.crc32(struct.pack("<I", size))) != crc:
            raise DamagedEntry("its checksum is not that of its bytes, or another version has written it")
        order: dict[str, Any] = json.loads(bytes(body[:size]))
        order |= {name: tuple(order[name]) for name in ("id_col", "key_col", "digest_cols")}
        return cls(**order, rows=pa.ipc.open_stream(body[size:]).read_all())


def stopped(error: OncegateError, folder: Path, number: int) -> OncegateError:
    """The same error, which names the entry as well; `extra["spill_number"]` is its number."""
    text = f"entry {number} of {folder} is stopped, and all behind it: mend it, or set_aside({number}): {error}"
    stop = type(error)(text, outcome=error.outcome, code=error.code)
    stop.extra = error.extra | {"spill_number": number}
    return stop


def check_namespace(entry: SpillEntry, namespace: str) -> None:
    """Raises BadOption where the entry is of another namespace than the gateway speaks to."""
    if entry.namespace != namespace:
        raise BadOption(
            f"the spill folder holds rows of namespace {entry.namespace!r}, and this gateway speaks to {namespace!r}: "
            "give each namespace a folder of its own; nothing of them was sent"
        )


def check_none_stale(entry: SpillEntry, stale: int) -> None:
    """Raises Stopped where the gateway has told some rows STALE: the entry may be the only copy that is left."""
    if stale:
        raise Stopped(
            f"{stale} of {entry.rows.num_rows} rows for {entry.topic!r} are STALE: their ids are older than the "
            "namespace's horizon (id_time), and forgotten if they were ever known. The others are done, these were not "
            "written now; look in the topic for them, set the entry aside, and produce what is missing under new ids; "
            "unknown: whether they were written before",
            outcome=Outcome.UNKNOWN,
            code="SPILL_STALE",
        )
