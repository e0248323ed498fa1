"""The bytes of a segment file. Integers are little-endian; everything begins on a 4,096-byte boundary.

    segment  header block | frame | frame | ...
    header   "OGS1" | segment u32 | epoch u64 | first position u64 | ledger id 16 | predecessor's id 16
             | key check 16 | previous chain 16 | check 16 | zeros to the end of the block
    frame    "OGF1" | body length u32 | first position u64 | count u32 | previous chain 16 | chain 16
             | header check 8 | body | zeros to the end of the block
    body     [[entry, ...], [change, ...]], one msgpack array; the changes are those of `oncegate.ledgers.catalog`, and
             Compacted

A frame is one append; its entries have the positions from `first position` on, and are opaque here. The chain is a
hash, keyed with the ledger's id, over the previous chain, the header's numbers and the body: a frame fits at one
position of one history. The header check also covers segment and offset, so no copy of a frame elsewhere looks like
one. A written range has the location of its rows: file, offset, length, SHA-256.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from oncegate.ledgers.catalog import CatalogChange, Location
from oncegate.ledgers.disk import BLOCK_BYTES, padded
from oncegate.ports import Mark

_SEGMENT = struct.Struct("<4sIQQ16s16s16s16s16s")
_FRAME = struct.Struct("<4sIQI16s16s8s")
_PLACE = struct.Struct("<IQ")
_SEGMENT_MAGIC = b"OGS1"
_FRAME_MAGIC = b"OGF1"
NO_LEDGER = bytes(16)
FRAME_HEADER_BYTES = _FRAME.size
BODY_BYTES_MAX = 1 << 30  # what a length field may say; an append beyond it is a bug of the caller


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Describes a segment, as its first block does.

    `predecessor`: the id that the ledger had until this segment; zeros, when it is still the same.
    """

    segment: int
    epoch: int
    first_position: int
    ledger: bytes
    predecessor: bytes
    key_check: bytes
    previous_chain: bytes

    def encode(self) -> bytes:
        """Returns the header's bytes, with their check."""
        fields = (self.segment, self.epoch, self.first_position, self.ledger, self.predecessor)
        raw = _SEGMENT.pack(_SEGMENT_MAGIC, *fields, self.key_check, self.previous_chain, bytes(16))[:-16]
        return (raw + hashlib.sha256(raw).digest()[:16]).ljust(BLOCK_BYTES, b"\0")

    @classmethod
    def decode(cls, block: bytes) -> "SegmentHeader | None":
        """Reads a header; None unless the whole block is just what `encode` made."""
        if len(block) < BLOCK_BYTES or block[:4] != _SEGMENT_MAGIC:
            return None
        _, segment, epoch, first, ledger, predecessor, check, previous, _ = _SEGMENT.unpack_from(block)
        header = cls(segment, epoch, first, ledger, predecessor, check, previous)
        return header if header.encode() == block[:BLOCK_BYTES] else None


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """Describes a frame at `offset` of its segment: the body's length, its entries, the chain before and after."""

    offset: int
    length: int
    first_position: int
    count: int
    previous_chain: bytes
    chain: bytes

    @property
    def body_at(self) -> int:
        """Returns the byte of the segment where the body begins."""
        return self.offset + _FRAME.size

    @property
    def end(self) -> int:
        """Returns the block boundary behind the frame."""
        return self.offset + padded(_FRAME.size + self.length)

    @property
    def last_position(self) -> int:
        """Returns the position of the last entry; of a frame without entries, the one before `first_position`."""
        return self.first_position + self.count - 1


def _header_check(ledger: bytes, segment: int, offset: int, raw: bytes) -> bytes:
    return hashlib.sha256(ledger + _PLACE.pack(segment, offset) + raw).digest()[:8]


def encode_header(ledger: bytes, segment: int, header: FrameHeader) -> bytes:
    """Returns a frame header's bytes, with their check."""
    numbers = (header.length, header.first_position, header.count)
    raw = _FRAME.pack(_FRAME_MAGIC, *numbers, header.previous_chain, header.chain, bytes(8))[:-8]
    return raw + _header_check(ledger, segment, header.offset, raw)


def decode_header(ledger: bytes, segment: int, data: bytes | memoryview, offset: int) -> FrameHeader | None:
    """Returns the frame header at `offset`, None when its check says there is none; the body is not looked at."""
    raw = bytes(data[offset : offset + _FRAME.size])
    if len(raw) < _FRAME.size or raw[:4] != _FRAME_MAGIC:
        return None
    _, length, first, count, previous, chain, check = _FRAME.unpack(raw)
    if check != _header_check(ledger, segment, offset, raw[:-8]) or length > BODY_BYTES_MAX:
        return None
    return FrameHeader(offset, length, first, count, previous, chain)


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Says that the entries up to `position` are those at `state` from now on; no segment before `segment` is needed.

    `ledger`, `chain`: of the mark that stood at `position`. `first_position`, `previous_chain`: what the header of
    `segment` says. `predecessors`: ids that the ledger had before. `catalog`: where the pieces of the catalog are; what
    changed while they were written stands behind this in the same frame, though frames before it said it too.
    """

    segment: int
    first_position: int
    previous_chain: bytes
    ledger: bytes
    position: int
    chain: bytes
    state: tuple[Location, ...]
    predecessors: tuple[bytes, ...]
    catalog: tuple[Location, ...]

    @property
    def mark(self) -> Mark:
        """Returns the mark that stood at `position`."""
        return Mark(self.ledger, self.position, self.chain)

    @property
    def files(self) -> set[tuple[int, int]]:
        """Returns the output files that hold the snapshot."""
        return {location.file for location in self.locations}

    @property
    def locations(self) -> tuple[Location, ...]:
        """Returns where the snapshot is, of the entries and of the catalog."""
        return self.state + self.catalog


AnyChange = CatalogChange | Compacted


class Body(msgspec.Struct, frozen=True, array_like=True):
    """Carries what one append writes: its entries, and the changes of its outputs."""

    entries: Sequence[bytes]
    changes: Sequence[AnyChange]


_decoder = msgspec.msgpack.Decoder(Body)
encode_body = msgspec.msgpack.Encoder().encode


def decode_body(data: bytes | memoryview) -> Body:
    """Reads a body; ValueError when the bytes are no body of this format."""
    return _decoder.decode(data)
