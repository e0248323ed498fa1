"""Every format of bytes that the project reads: samples, the reader, and the exceptions with which it may refuse."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from oncegate.core.entries.codec import EntryError, EntryVersion, decode
from oncegate.core.entries.kinds import Committed, Name, Part, Span, Staged, TopicCreated
from oncegate.core.errors import BadRequest, KeysUnread, LedgerDamaged, NullId, TooLarge, Unauthenticated
from oncegate.engine.limits import Limits
from oncegate.hashing.ids import Fingerprinter
from oncegate.index.lsm import bloom_format
from oncegate.index.lsm.run import Run, RunDamaged, encode, sorted_records
from oncegate.index.shard import ShardIndex
from oncegate.ledgers import frames as server_frames
from oncegate.ledgers.log.files.frames import (
    Body,
    FrameHeader,
    SegmentHeader,
    decode_body,
    decode_header,
    encode_body,
    encode_header,
)
from oncegate.ledgers.witness import End, WitnessRecord
from oncegate.ports import Mark
from oncegate.testing.clock import FakeClock
from oncegate.transports.access.issuer_keys import IssuerKeys
from oncegate.transports.access.tokens import BearerTokens, TokenRules
from oncegate.transports.decode import identifiers, ids
from oncegate_spark.errors import Refused
from oncegate_spark.protocol._generated_verdicts import BY_BYTE
from oncegate_spark.protocol.packed import Verdicts
from tests.core.samples import GOLDEN
from tests.support.issuer import AUDIENCE, URL, Issuer

LIMITS = Limits(body_bytes=1 << 20, ids_per_request=10_000, rows_per_request=10_000)
LEDGER = bytes(range(16))


@dataclass(frozen=True)
class Format:
    """One format: `read` accepts any bytes, and returns or raises one of `refused`; any other outcome is a bug."""

    name: str
    samples: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], Any]
    refused: tuple[type[Exception], ...] = ()


def _entries() -> list[bytes]:
    return [bytes.fromhex(path.read_text()) for path in sorted(GOLDEN.glob("*.hex"))]


def _segment_headers() -> list[bytes]:
    return [SegmentHeader(7, 3, 41, LEDGER, bytes(16), b"k" * 16, LEDGER).encode()]


def _frame_headers() -> list[bytes]:
    return [encode_header(LEDGER, 7, FrameHeader(0, 100, 41, 2, LEDGER, LEDGER))]


def _bodies() -> list[bytes]:
    return [encode_body(Body(_entries()[:3], [])), encode_body(Body([b"one", b""], []))]


def _frames() -> list[bytes]:
    end = server_frames.End(0, 0, bytes(16))
    return [server_frames.encode_frame(LEDGER, end, _entries()[:n], [])[0] for n in (1, 3)]


def _read_frame(data: bytes) -> Any:
    size_bytes = server_frames.frame_bytes(data, "here")
    return server_frames.decode_frame(data[:size_bytes].ljust(80, b"\0"), 0, "here")


def _runs() -> list[bytes]:
    rng = np.random.default_rng(7)
    made = []
    for count in (1, 700):
        records = rng.integers(0, 2**32, (count, 2), np.uint64)
        made.append(b"".join(encode([sorted_records(records)], {"archives": [1]})))
    return made


def _read_run(data: bytes) -> Any:
    run = Run(memoryview(data))
    run.find(np.arange(64, dtype=np.uint64).reshape(-1, 2))
    return run.records(0, run.blocks)


def _filters() -> list[bytes]:
    return [b"".join(bloom_format.packed("blocked", {"bits": 512, "hash": "x"}, bytes(64)))]


def _snapshots() -> list[bytes]:
    index, name = ShardIndex(), Name("a", "1", "t")
    index.apply(1, TopicCreated("t", 2, b"s", 0, 0, 0), 0)
    part = Part(0, 1, 2, LEDGER)
    index.apply(2, Staged(name, "o", LEDGER, 0, bytes(32), 1, 2, LEDGER, b"s", (part,), 0), 0)
    index.apply(3, Committed(name, b"r", LEDGER, (), None, LEDGER, 1, (Span(0, 0, 1, 7),), 0, b""), 0)
    pieces = [piece for step in index.snapshot_steps() for piece in step]
    return [msgspec.msgpack.encode([(piece.what, piece.part, piece.data) for piece in pieces])]


def _read_snapshot(data: bytes) -> ShardIndex:
    from oncegate.core.entries.kinds import SnapshotPiece

    index = ShardIndex()
    for what, part, piece in msgspec.msgpack.decode(data, type=list[tuple[str, int, bytes]]):
        index.replayed(1, SnapshotPiece(what, part, piece))
    return index


def _streams() -> list[bytes]:
    made = []
    for columns, options in (
        ({"id": ["a", "b"], "n": [1, 2]}, {}),
        ({"id": [b"a" * 16, None], "at": pa.array([1, 2], pa.timestamp("us", "UTC"))}, {}),
        ({"id": ["x" * 100] * 50, "s": [{"a": [1, 2]}] * 50}, {"compression": "lz4"}),
        ({"id": pa.array([1, 2, 3], pa.decimal128(10, 2))}, {"compression": "zstd"}),
    ):
        sink, batch = io.BytesIO(), pa.record_batch(columns)
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_batch(batch)
        made.append(sink.getvalue())
    return made


def _verdicts() -> list[bytes]:
    granted = next(byte for byte, row in BY_BYTE.items() if row[0] == "GRANTED")
    head = LEDGER + (30_000).to_bytes(4, "little")
    return [head + (3).to_bytes(4, "little") + bytes([granted]) * 3, head + bytes(4)]


@cache
def _issuer() -> tuple[Issuer, BearerTokens]:
    """Uses keys that are generated once; the reader does not depend on them."""
    import tempfile
    from pathlib import Path

    clock = FakeClock()
    issuer = Issuer(clock.wall_ms() // 1_000)

    class Deaf:
        def event(self, name: str, /, **fields: object) -> None:
            pass

    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder) / "keys.json").write_bytes(issuer.document)
        keys = IssuerKeys(str(file), clock, Deaf())
    rules = TokenRules(URL, AUDIENCE, ("ES256", "RS256"), "oncegate_roles", "oncegate_namespaces", 0)
    return issuer, BearerTokens(rules, keys, clock)


def _tokens() -> list[bytes]:
    return [_issuer()[0].token().encode(), _issuer()[0].token(oncegate_roles={"a": 1}, exp=-1).encode()]


PRINTER = Fingerprinter(bytes(32))
BODY_ERRORS = (BadRequest, TooLarge, NullId)
FORMATS: tuple[Format, ...] = (
    Format("entry of a ledger", _entries, decode, (EntryError, EntryVersion)),
    Format("header of a segment", _segment_headers, SegmentHeader.decode),
    Format("header of a frame", _frame_headers, lambda data: decode_header(LEDGER, 7, data, 0)),
    Format("body of a frame", _bodies, decode_body, (ValueError, msgspec.MsgspecError)),
    Format("frame on a server", _frames, _read_frame, (LedgerDamaged,)),
    Format(
        "slot of a witness", lambda: [WitnessRecord(9, LEDGER, 3, End(7, 9, 42, LEDGER)).encode()], WitnessRecord.decode
    ),
    Format("run of cold ids", _runs, _read_run, (RunDamaged,)),
    Format("filter", _filters, bloom_format.unpacked),
    Format("snapshot", _snapshots, _read_snapshot, (ValueError, msgspec.MsgspecError)),
    Format("packed ids", lambda: [LEDGER * 3], lambda data: ids.of_packed(data, PRINTER, LIMITS), BODY_ERRORS),
    Format("Arrow stream", _streams, lambda data: ids.of_arrow(data, PRINTER, LIMITS), BODY_ERRORS),
    Format(
        "mark",
        lambda: [identifiers.mark_text(Mark(LEDGER, 7, b"c" * 8)).encode()],
        lambda data: identifiers.marks(data.decode("latin-1")),
        BODY_ERRORS,
    ),
    Format("packed verdicts", _verdicts, lambda data: Verdicts.read(data, 3), (Refused,)),
    Format(
        "token",
        _tokens,
        lambda data: _issuer()[1].check(data.decode("latin-1")),
        (Unauthenticated, KeysUnread),
    ),
)
