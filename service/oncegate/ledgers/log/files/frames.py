"""The format of a segment file. Integers are little-endian; headers and frames begin on 4,096-byte boundaries.

    segment  header block | frame | frame | ...
    header   "OGS1" | segment u32 | epoch u64 | first position u64 | ledger id 16 | predecessor's id 16
             | key check 16 | previous chain 16 | check 16 | zeros to the end of the block
    frame    "OGF1" | body length u32 | first position u64 | count u32 | previous chain 16 | chain 16
             | header check 8 | body | zeros to the end of the block
    body     [[entry, ...], [change, ...]], one msgpack array; the changes are those of `oncegate.ledgers.catalog`, and
             Compacted

A frame is one append. Its entries have consecutive positions from `first position` on and are opaque at this level. The
chain is a hash, keyed with the ledger's id, over the previous chain, the header's numbers and the body: a frame is
valid at only one position of one history. The header check also covers segment and offset, so a copy of a frame
elsewhere is invalid. A written range carries the location of its rows: file, offset, length, SHA-256.
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
BODY_BYTES_MAX = 1 << 30  # limit of the length field; a larger append is a bug of the caller


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The header of a segment, stored in its first block.

    `predecessor`: the ledger's id before this segment; zeros if the id did not change.
    """

    segment: int
    epoch: int
    first_position: int
    ledger: bytes
    predecessor: bytes
    key_check: bytes
    previous_chain: bytes

    def encode(self) -> bytes:
        """Encodes the segment header, with its checksum."""
        fields = (self.segment, self.epoch, self.first_position, self.ledger, self.predecessor)
        raw = _SEGMENT.pack(_SEGMENT_MAGIC, *fields, self.key_check, self.previous_chain, bytes(16))[:-16]
        return (raw + hashlib.sha256(raw).digest()[:16]).ljust(BLOCK_BYTES, b"\0")

    @classmethod
    def decode(cls, block: bytes) -> "SegmentHeader | None":
        """Decodes a segment header; returns None unless the block is exactly the output of `encode`."""
        if len(block) < BLOCK_BYTES or block[:4] != _SEGMENT_MAGIC:
            return None
        _, segment, epoch, first, ledger, predecessor, check, previous, _ = _SEGMENT.unpack_from(block)
        header = cls(segment, epoch, first, ledger, predecessor, check, previous)
        return header if header.encode() == block[:BLOCK_BYTES] else None


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a frame at `offset` of its segment: body length, entries,
    and the hash chain before and after it.
    """

    offset: int
    length: int
    first_position: int
    count: int
    previous_chain: bytes
    chain: bytes

    @property
    def body_at(self) -> int:
        """Offset of the body in the segment."""
        return self.offset + _FRAME.size

    @property
    def end(self) -> int:
        """Offset of the first block boundary after the frame."""
        return self.offset + padded(_FRAME.size + self.length)

    @property
    def last_position(self) -> int:
        """Position of the last entry; for a frame without entries, `first_position` minus 1."""
        return self.first_position + self.count - 1


def _header_check(ledger: bytes, segment: int, offset: int, raw: bytes) -> bytes:
    return hashlib.sha256(ledger + _PLACE.pack(segment, offset) + raw).digest()[:8]


def encode_header(ledger: bytes, segment: int, header: FrameHeader) -> bytes:
    """Encodes a frame header, with its checksum."""
    numbers = (header.length, header.first_position, header.count)
    raw = _FRAME.pack(_FRAME_MAGIC, *numbers, header.previous_chain, header.chain, bytes(8))[:-8]
    return raw + _header_check(ledger, segment, header.offset, raw)


def decode_header(ledger: bytes, segment: int, data: bytes | memoryview, offset: int) -> FrameHeader | None:
    """Returns the frame header at `offset`, or None if its checksum is wrong; does not verify the body."""
    raw = bytes(data[offset : offset + _FRAME.size])
    if len(raw) < _FRAME.size or raw[:4] != _FRAME_MAGIC:
        return None
    _, length, first, count, previous, chain, check = _FRAME.unpack(raw)
    if check != _header_check(ledger, segment, offset, raw[:-8]) or length > BODY_BYTES_MAX:
        return None
    return FrameHeader(offset, length, first, count, previous, chain)


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A compaction: the snapshot at `state` replaces the entries up to `position`; segments before `segment` are
    unneeded.

    `ledger`, `chain`: of the ledger position at `position`. `first_position`, `previous_chain`: as in the header of
    `segment`. `predecessors`: previous ids of the ledger. `catalog`: locations of the catalog's pieces. Changes made
    while these were written follow in the same frame, although earlier frames contain them too.
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
        """Ledger position of the last compacted entry."""
        return Mark(self.ledger, self.position, self.chain)

    @property
    def files(self) -> set[tuple[int, int]]:
        """Output files that hold the snapshot."""
        return {location.file for location in self.locations}

    @property
    def locations(self) -> tuple[Location, ...]:
        """Locations of the snapshot: its entries and its catalog."""
        return self.state + self.catalog


AnyChange = CatalogChange | Compacted


class Body(msgspec.Struct, frozen=True, array_like=True):
    """The body of a frame: the entries of one append and its output changes."""

    entries: Sequence[bytes]
    changes: Sequence[AnyChange]


_decoder = msgspec.msgpack.Decoder(Body)
encode_body = msgspec.msgpack.Encoder().encode


def decode_body(data: bytes | memoryview) -> Body:
    """Decodes a body. Raises ValueError if the bytes are not of this format."""
    return _decoder.decode(data)
