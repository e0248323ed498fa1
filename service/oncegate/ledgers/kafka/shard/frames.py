"""The bytes of a frame: what one append writes, cut into records (`blobs`) of the topic `.ledger`.

    frame   "OGK1" | body length u64 | serial u64 | first position u64 | count u32 | ledger id 16
            | previous chain 16 | chain 16 | body
    body    [[entry, ...], [change, ...]], msgpack: changes of outputs, Owned, Collected, Sent

Integers are little-endian. Serials count frames from 1 without a gap. The chain is a hash over the previous chain, the
numbers and the body: a frame fits in one place of one history.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Change, Location
from oncegate.ledgers.chain import chain_of
from oncegate.ports import Mark

_HEAD = struct.Struct("<4sQQQI16s16s16s")
_SERIAL = struct.Struct("<Q")
_MAGIC = b"OGK1"
# Of entries in one append: all of a frame is in memory several times while it is written.
ENTRIES_BYTES_MAX = 512 << 20
FRAME_BYTES_MAX = 2 * ENTRIES_BYTES_MAX


class Owned(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Begins the ownership of a generation of transactional ids; `key`: the namespace's key, wrapped."""

    generation: int
    key: bytes


class Collected(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Says that the entries up to `position` are those at `state` from now on.

    `ledger`, `chain`: of the mark that stood at `position`. No frame before `first_serial` is needed; `previous_chain`:
    what that one says. `states_from`: the first offset of the topic `.states` that is needed. `catalog`: where the
    pieces of the catalog are; what changed while they were written stands behind this in the same frame. `key`: the
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
        """Returns the mark that stood at `position`."""
        return Mark(self.ledger, self.position, self.chain)


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Says where records lie that the same transaction has written into a topic of users.

    `first_offset`: of the first of them, −1 where the broker did not tell it; records of others may lie between.
    """

    topic: str
    partition: int
    first_offset: int
    records: int


AnyChange = Change | Owned | Collected | Sent


class Body(msgspec.Struct, frozen=True, array_like=True):
    """Carries what one append writes: its entries, and the changes of its outputs."""

    entries: Sequence[bytes]
    changes: Sequence[AnyChange]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Body)


@dataclass(frozen=True, slots=True)
class End:
    """Says where a ledger ends: serial and chain of its last frame, position of its last entry."""

    serial: int
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """Carries a whole frame; `offset`: of its first record."""

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
        """Returns where a ledger ends whose last frame this is."""
        return End(self.serial, self.first_position + self.count - 1, self.chain)

    @property
    def mark(self) -> Mark:
        """Returns the mark of its last entry."""
        return Mark(self.ledger, self.end.position, self.chain[:8])


def encode_frame(
    ledger: bytes, before: End, entries: Sequence[bytes], changes: Sequence[AnyChange]
) -> tuple[bytes, End]:
    """Returns the bytes of the frame behind `before`, and where the ledger ends with it."""
    body = _encode(Body(entries, changes))
    serial, first, count = before.serial + 1, before.position + 1, len(entries)
    chain = _chain(ledger, serial, before.chain, first, count, body)
    head = _HEAD.pack(_MAGIC, len(body), serial, first, count, ledger, before.chain, chain)
    return head + body, End(serial, before.position + count, chain)


def _chain(ledger: bytes, serial: int, previous: bytes, first: int, count: int, body: bytes) -> bytes:
    return chain_of(ledger + _SERIAL.pack(serial), previous, first, count, body)


class Assembly:
    """Makes frames of the records of a topic, given in their order. `where`: the topic, for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._data = bytearray()
        self._wanted_bytes = 0
        self._offset = 0

    def add(self, offset: int, value: bytes | None) -> Iterator[Frame]:
        """Takes the next record; yields the frame that it completes, if any. LedgerDamaged."""
        if not self._data:
            self._begin(offset, value or b"")
        self._data += value or b""
        if len(self._data) > self._wanted_bytes:
            raise self._damage(offset, "a frame has more bytes than its head says")
        if len(self._data) == self._wanted_bytes:
            data, self._data = bytes(self._data), bytearray()
            yield self._frame(data)

    def require_whole(self) -> None:
        """Raises LedgerDamaged where the last frame lacks records."""
        if self._data:
            raise self._damage(self._offset, f"{len(self._data)} of {self._wanted_bytes} bytes of a frame are there")

    def _begin(self, offset: int, value: bytes) -> None:
        if len(value) < _HEAD.size or value[:4] != _MAGIC:
            raise self._damage(offset, "no frame begins there")
        self._offset, self._wanted_bytes = offset, _HEAD.size + _HEAD.unpack_from(value)[1]
        if self._wanted_bytes > FRAME_BYTES_MAX:
            raise self._damage(offset, f"a frame of {self._wanted_bytes} bytes begins there")

    def _frame(self, data: bytes) -> Frame:
        _, _, serial, first, count, ledger, previous, chain = _HEAD.unpack_from(data)
        raw = data[_HEAD.size :]
        if chain != _chain(ledger, serial, previous, first, count, raw):
            raise self._damage(self._offset, "the bytes of a frame are not those that were written")
        try:
            body = _decoder.decode(raw)
        except ValueError as error:
            raise self._damage(self._offset, f"a frame is not of a format that this version reads ({error})") from error
        if len(body.entries) != count:
            raise self._damage(self._offset, f"a frame has {len(body.entries)} entries and says {count}")
        return Frame(self._offset, serial, first, count, ledger, previous, chain, body)

    def _damage(self, offset: int, what: str) -> LedgerDamaged:
        return LedgerDamaged(
            f"topic {self._where}, offset {offset}: {what}; nothing was changed. Only a gateway may write there: put "
            "the topic back from a copy"
        )
