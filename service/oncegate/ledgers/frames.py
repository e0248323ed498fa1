"""The format of a frame: one append to a ledger on a server. The `shard` packages define where frames are stored.

    frame   "OGK1" | body length u64 | serial u64 | first position u64 | count u32 | ledger id 16
            | previous chain 16 | chain 16 | body
    body    [[entry, ...], [change, ...]], msgpack: changes of outputs, Owned, Compacted, Sent

Integers are little-endian. Serials number frames from 1 without gaps. The chain is a hash over the previous chain, the
numbers and the body: a frame is valid at only one position of one history.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import CatalogChange, Location
from oncegate.ledgers.chain import chain_of
from oncegate.ports import Mark, Replayed, RowPlaces, RowRange

_HEAD = struct.Struct("<4sQQQI16s16s16s")
_SERIAL = struct.Struct("<Q")
# First offset and number of records of a range.
RANGE = struct.Struct("<qI")
_MAGIC = b"OGK1"
# Limit of the entries of one append: a frame is in memory several times while it is written.
ENTRIES_BYTES_MAX = 512 << 20
FRAME_BYTES_MAX = 2 * ENTRIES_BYTES_MAX


class Owned(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Marks the start of an ownership. `generation`: number of this opening; `key`: the namespace's key, wrapped."""

    generation: int
    key: bytes


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """A compaction: the snapshot at `state` replaces the entries up to `position`.

    `ledger`, `chain`: of the ledger position at `position`. `first_serial`: the first frame still needed, and
    `previous_chain` its previous chain. `states_from`: lowest offset of the saved pieces still needed. `catalog`:
    locations of the catalog's pieces; changes made while these were written follow in the same frame. `key`: the
    namespace's key, wrapped.
    """

    position: int
    ledger: bytes
    chain: bytes
    first_serial: int
    previous_chain: bytes
    states_from: int
    state: tuple[Location, ...]
    catalog: tuple[Location, ...]
    key: bytes

    @property
    def mark(self) -> Mark:
        """Ledger position of the last compacted entry."""
        return Mark(self.ledger, self.position, self.chain)


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """The location of records that the frame's transaction wrote to a user topic.

    `first_offset`: offset of the first record, or −1 if the broker did not return it; records of other producers may be
    in between. `position`: of the entry that wrote them; 0 if unknown, and then the remaining fields are unknown too.
    The changes of one entry are adjacent. `ranges`: of the partition, each packed as `RANGE`; if empty, the records
    form a single range. `partition_of`: in the first change of an entry, as in `RowPlaces`. Frames of an older version
    lack the last three fields.
    """

    topic: str
    partition: int
    first_offset: int
    records: int
    position: int = 0
    ranges: bytes = b""
    partition_of: bytes = b""

    def row_ranges(self) -> list[RowRange]:
        """Returns the ranges of the partition, in row order."""
        ranges = list(RANGE.iter_unpack(self.ranges)) or [(self.first_offset, self.records)]
        return [RowRange(self.topic, self.partition, first, rows) for first, rows in ranges]


AnyChange = CatalogChange | Owned | Compacted | Sent


class Body(msgspec.Struct, frozen=True, array_like=True):
    """The body of a frame: the entries of one append and its output changes."""

    entries: Sequence[bytes]
    changes: Sequence[AnyChange]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Body)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a ledger: serial and chain of its last frame, and position of its last entry."""

    serial: int
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame; `offset`: where it is stored."""

    offset: int
    serial: int
    first_position: int
    count: int
    ledger: bytes
    previous_chain: bytes
    chain: bytes
    body: Body

    @property
    def end(self) -> End:
        """End of the ledger, if this is its last frame."""
        return End(self.serial, self.first_position + self.count - 1, self.chain)

    @property
    def mark(self) -> Mark:
        """Ledger position of the frame's last entry."""
        return Mark(self.ledger, self.end.position, self.chain[:8])


def encode_frame(
    ledger: bytes, before: End, entries: Sequence[bytes], changes: Sequence[AnyChange]
) -> tuple[bytes, End]:
    """Encodes the frame that follows `before`; returns its bytes and the new end of the ledger."""
    body = _encode(Body(entries, changes))
    serial, first, count = before.serial + 1, before.position + 1, len(entries)
    chain = _chain(ledger, serial, before.chain, first, count, body)
    head = _HEAD.pack(_MAGIC, len(body), serial, first, count, ledger, before.chain, chain)
    return head + body, End(serial, before.position + count, chain)


def frame_bytes(head: bytes, where: str) -> int:
    """Returns the size of the frame with this header. Raises LedgerDamaged, naming `where`, if it is not a frame
    header.
    """
    if len(head) < _HEAD.size or head[:4] != _MAGIC:
        raise damage(where, "no frame begins there")
    wanted_bytes: int = _HEAD.size + _HEAD.unpack_from(head)[1]
    if wanted_bytes > FRAME_BYTES_MAX:
        raise damage(where, f"a frame of {wanted_bytes} bytes begins there")
    return wanted_bytes


def decode_frame(data: bytes, offset: int, where: str) -> Frame:
    """Decodes a frame from its bytes, which must be exactly as many as `frame_bytes` returns.
    Raises LedgerDamaged, naming `where`.
    """
    _, _, serial, first, count, ledger, previous, chain = _HEAD.unpack_from(data)
    raw = data[_HEAD.size :]
    if chain != _chain(ledger, serial, previous, first, count, raw):
        raise damage(where, "the bytes of a frame are not those that were written")
    try:
        body = _decoder.decode(raw)
    except ValueError as error:
        raise damage(where, f"a frame is not of a format that this version reads ({error})") from error
    if len(body.entries) != count:
        raise damage(where, f"a frame has {len(body.entries)} entries and says {count}")
    return Frame(offset, serial, first, count, ledger, previous, chain, body)


def entries_of(frame: Frame, behind: int = 0) -> list[Replayed]:
    """Returns the entries of a frame whose positions are above `behind`."""
    mark, places = frame.mark, places_of(frame.body.changes)
    numbered = enumerate(frame.body.entries, frame.first_position)
    return [Replayed(position, body, mark, places.get(position)) for position, body in numbered if position > behind]


def places_of(changes: Sequence[AnyChange]) -> dict[int, RowPlaces]:
    """Returns the locations of the rows that a frame's entries sent to user topics, keyed by entry position."""
    sent: dict[int, list[Sent]] = {}
    for change in changes:
        if isinstance(change, Sent) and change.position:
            sent.setdefault(change.position, []).append(change)
    return {
        position: RowPlaces(tuple(one for part in parts for one in part.row_ranges()), parts[0].partition_of)
        for position, parts in sent.items()
    }


def damage(where: str, what: str) -> LedgerDamaged:
    """Returns the error for a damaged frame."""
    return LedgerDamaged(
        f"{where}: {what}; nothing was changed. Only a gateway may write there: put it back from a copy"
    )


def _chain(ledger: bytes, serial: int, previous: bytes, first: int, count: int, body: bytes) -> bytes:
    return chain_of(ledger + _SERIAL.pack(serial), previous, first, count, body)
