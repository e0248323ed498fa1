"""Reads the packed answer to a claim.

Little-endian:

    claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes
    and for each SAME or BUSY, in order: index u32 | number u32

then, where the caller asked with `locate`, the first writer of each duplicate: where it was written, and the result its
claim was completed with; each duplicate's in order:

    n u32 | n topics: u32 length, UTF-8 | of each: topic u32, partition u32, offset u64
    n u32 | n results: u32 length, bytes | of each: result u32
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import Refused
from oncegate_spark.protocol._generated_verdicts import BY_BYTE

_U32, _PLACE = struct.Struct("<I"), struct.Struct("<IIQ")
_UNKNOWN = 0xFFFF_FFFF


@dataclass(frozen=True)
class Place:
    """Where a row lies that the gateway wrote."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class FirstPlaces:
    """What is known of the first of each id, in the order of the request: None for what is not, and no duplicate."""

    places: tuple[Place | None, ...]
    results: tuple[bytes | None, ...]

    @classmethod
    def read(cls, body: bytes, is_duplicate: Sequence[bool]) -> "FirstPlaces":
        """Raises ValueError when these are not the firsts of so many duplicates."""
        count, count_all = sum(is_duplicate), len(is_duplicate)
        first_rows: list[Place | None] = [None] * count_all
        results: list[bytes | None] = [None] * count_all
        at = [index for index, duplicate in enumerate(is_duplicate) if duplicate]
        try:
            names, end = _listed(body, 0)
            topics = [name.decode() for name in names]
            for n, index in enumerate(at):
                topic, partition, offset = _PLACE.unpack_from(body, end + n * _PLACE.size)
                first_rows[index] = None if topic == _UNKNOWN else Place(topics[topic], partition, offset)
            brought, end = _listed(body, end + count * _PLACE.size)
            for n, index in enumerate(at):
                (number,) = _U32.unpack_from(body, end + n * _U32.size)
                results[index] = None if number == _UNKNOWN else brought[number]
        except (struct.error, IndexError) as error:
            raise ValueError(f"firsts of {count} ids in {len(body)} bytes: {error}") from error
        if end + count * _U32.size != len(body):
            raise ValueError(f"firsts of {count} ids in {len(body)} bytes")
        return cls(tuple(first_rows), tuple(results))


def _listed(body: bytes, at: int) -> tuple[list[bytes], int]:
    (count,) = _U32.unpack_from(body, at)
    items, at = [], at + _U32.size
    for _ in range(count):
        (size,) = _U32.unpack_from(body, at)
        at += _U32.size
        items.append(body[at : at + size])
        at += size
    return items, at


CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"

_HEAD = struct.Struct("<16sII")


def _bytes_of(wanted: Iterable[int]) -> bytes:
    """A table for bytes.translate: 1 where the byte is wanted."""
    chosen = set(wanted)
    return bytes(1 if byte in chosen else 0 for byte in range(256))


def _those(
    verdict: str, *, takeover: bool = False, own: bool = False, number: str | None = None, unchecked: bool = False
) -> bytes:
    want = (verdict, takeover, own, number, unchecked)
    return bytes(byte for byte, row in BY_BYTE.items() if row[:5] == want)


def _bytes_by_verdict(verdict: str) -> bytes:
    return bytes(byte for byte, row in BY_BYTE.items() if row[0] == verdict)


_KNOWN = bytes(BY_BYTE)
_MAY_WRITE = _bytes_of(byte for byte, row in BY_BYTE.items() if row[-1])
_NUMBERED = bytes(byte for byte, row in BY_BYTE.items() if row[3] is not None)
_PLAIN = bytes(byte for byte in range(256) if byte not in _NUMBERED)
_BUSY = _those("BUSY", number="lease_left_ms")
_SAME_CALL = _those("SAME", number="of_call")
_OPEN = _bytes_of(_BUSY + _SAME_CALL)  # neither written nor to be dropped: to be claimed again
_IS_BUSY = _bytes_of(_BUSY)
_DUPLICATES = frozenset(byte for byte, row in BY_BYTE.items() if row[0] == "DUPLICATE")
_TAKEOVER = _bytes_of(_those("GRANTED", takeover=True))
_UNCHECKED = _bytes_of(_those("GRANTED", unchecked=True))
_CONFLICT = _bytes_of(_those("CONFLICT"))
_WRITTEN = _bytes_of(_bytes_by_verdict("DUPLICATE"))
_HELD = _bytes_of(_BUSY + _those("FREE", takeover=True))
_ELSEWHERE = _those("DUPLICATE") + _those("STALE")
_IN_DOUBT = _bytes_of(_those("IN_DOUBT"))


@dataclass(frozen=True)
class Verdicts:
    """The answer to one claim: a byte per id, in the order of the request; masks are Arrow booleans of that length.

    id_set: the set that the ids were looked up in; None: not said, or these are sequences. firsts: None: not asked.
    """

    claim: str | None
    lease_ms: int
    data: bytes
    numbers: bytes
    id_set: str | None = None
    firsts: FirstPlaces | None = None

    @classmethod
    def read(cls, body: bytes, count: int, id_set: str | None = None, locate: bool = False) -> "Verdicts":
        """Raises Refused when the answer is not one to `count` ids: nothing may be concluded from it."""
        if len(body) < _HEAD.size:
            raise Refused(f"the gateway answered a claim with {len(body)} bytes")
        claim, lease_ms, length = _HEAD.unpack_from(body)
        data, numbers = body[_HEAD.size : _HEAD.size + length], body[_HEAD.size + length :]
        exceptions = len(data.translate(None, _PLAIN))
        rest = numbers[8 * exceptions :] if locate else b""
        numbers = numbers[: 8 * exceptions] if locate else numbers
        if length != count or len(data) != length or len(numbers) != 8 * exceptions or data.translate(None, _KNOWN):
            raise Refused(f"the gateway's answer to a claim of {count} ids cannot be read; is it an older client?")
        firsts = FirstPlaces.read(rest, [byte in _DUPLICATES for byte in data]) if locate else None
        return cls(claim_text(claim) if any(claim) else None, lease_ms, data, numbers, id_set, firsts)

    def __contains__(self, verdict: str) -> bool:
        """Whether any id has this verdict, whatever its flags."""
        return any(byte in self.data for byte in _bytes_by_verdict(verdict))

    @property
    def may_write(self) -> pa.BooleanArray:
        """Ids that are granted: this attempt's to write."""
        return _mask(self.data.translate(_MAY_WRITE))

    @property
    def in_doubt(self) -> pa.BooleanArray:
        """Ids that are granted, and were held by a claim that had run out: its holder may have written them."""
        return _mask(self.data.translate(_TAKEOVER))

    @property
    def unchecked(self) -> pa.BooleanArray:
        """Ids that are granted though nobody looked, for the ledger is down: they may be written, or another's too."""
        return _mask(self.data.translate(_UNCHECKED))

    @property
    def open(self) -> pa.BooleanArray:
        """Ids that are another's for now (or an earlier call's of ours): to be claimed again in a new call."""
        return _mask(self.data.translate(_OPEN))

    @property
    def dropped(self) -> pa.BooleanArray:
        """Ids that are done without this attempt: written, or earlier in the same request."""
        others = pc.or_(self.conflicting, self.unresolved)
        return pc.invert(pc.or_(pc.or_(self.may_write, self.open), others))

    @property
    def unresolved(self) -> pa.BooleanArray:
        """Ids that nobody is granted: their holder's lease ran out, and the namespace lets nobody take them over."""
        return _mask(self.data.translate(_IN_DOUBT))

    @property
    def known(self) -> pa.BooleanArray:
        """Ids that are written, of those that were looked up."""
        return _mask(self.data.translate(_WRITTEN))

    @property
    def held(self) -> pa.BooleanArray:
        """Ids that a claim holds, its lease over or not, of those that were looked up."""
        return _mask(self.data.translate(_HELD))

    @property
    def conflicting(self) -> pa.BooleanArray:
        """Ids that are written, or stand earlier in the same request, with another payload: neither of these rows'."""
        return _mask(self.data.translate(_CONFLICT))

    @property
    def conflicts(self) -> int:
        """How many ids come with another payload than they are written with."""
        return self.count("CONFLICT")

    def count(
        self,
        verdict: str,
        *,
        takeover: bool = False,
        own: bool = False,
        number: str | None = None,
        unchecked: bool = False,
    ) -> int:
        """How many ids have just this verdict, these flags and this kind of number."""
        (byte,) = _those(verdict, takeover=takeover, own=own, number=number, unchecked=unchecked)
        return self.data.count(byte)

    @property
    def granted(self) -> int:
        """How many ids are granted."""
        return self.data.translate(_MAY_WRITE).count(1)

    @property
    def unchecked_count(self) -> int:
        """How many of the granted nobody looked up."""
        return self.count("GRANTED", unchecked=True)

    @property
    def takeovers(self) -> int:
        """How many of the granted were held by a claim that had run out: its holder may have written them."""
        return self.count("GRANTED", takeover=True)

    @property
    def own(self) -> int:
        """Ids that this very attempt has written."""
        return self.count("DUPLICATE", own=True)

    @property
    def stale(self) -> int:
        """Ids that are settled for ever: at or below a producer's watermark, or of a batch that was acked."""
        return self.count("STALE")

    @property
    def suppressed(self) -> int:
        """Rows that are not written because they are, or will be, written elsewhere. Our own work is not counted."""
        return self.count("DUPLICATE") + self.count("STALE") + self.count("SAME", number="of_index")

    @property
    def leading(self) -> int:
        """How many of the first, without a gap, are written or settled by somebody else."""
        return len(self.data) - len(self.data.lstrip(_ELSEWHERE))

    @property
    def unsettled(self) -> int:
        """How many ids are neither written nor granted: see `open`."""
        return self.data.translate(_OPEN).count(1)

    @property
    def lease_left_ms(self) -> int:
        """The longest time that another attempt may still hold one of the BUSY ids; 0 when none is BUSY."""
        which = self.data.translate(None, _PLAIN)
        pairs = pa.Array.from_buffers(pa.uint64(), len(which), [None, pa.py_buffer(self.numbers)])
        left = pc.filter(pc.shift_right(pairs, 32), _mask(which.translate(_IS_BUSY)))
        return int(pc.max(left).as_py() or 0)


def _mask(ones: bytes) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.uint8(), len(ones), [None, pa.py_buffer(ones)]).cast(pa.bool_())


def claim_text(claim: bytes) -> str:
    """16 bytes as 26 characters of Crockford's base 32, lower case, as a ULID is written."""
    number = int.from_bytes(claim, "big")
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
