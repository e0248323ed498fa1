"""Decoder of the packed reply to a claim.

Little-endian:

    claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes
    and for each SAME or BUSY, in order: index u32 | number u32

With `locate`, the first write of each duplicate follows, in order: where it was written, and the result with which its
claim was completed:

    n u32 | n topics: u32 length, UTF-8 | for each duplicate: topic u32, partition u32, offset u64
    n u32 | n results: u32 length, bytes | for each duplicate: result u32
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
    """Position of a row that the gateway wrote."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class FirstPlaces:
    """The first write of each id, in the order of the request; None if unknown or not a duplicate."""

    places: tuple[Place | None, ...]
    results: tuple[bytes | None, ...]

    @classmethod
    def read(cls, body: bytes, is_duplicate: Sequence[bool]) -> "FirstPlaces":
        """Decodes the first writes. Raises ValueError if the body does not fit the number of duplicates."""
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
    """Returns a table for `bytes.translate` that maps wanted bytes to 1 and others to 0."""
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
_OPEN = _bytes_of(_BUSY + _SAME_CALL)  # neither written nor to be dropped: claim them again
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
    """Reply to one claim: one verdict byte per id, in the order of the request. Masks are Arrow booleans of that
    length.

    `id_set`: dedup scope of the ids; None for sequences and for replies without it. `firsts`: None without `locate`.
    """

    claim: str | None
    lease_ms: int
    data: bytes
    numbers: bytes
    id_set: str | None = None
    firsts: FirstPlaces | None = None

    @classmethod
    def read(cls, body: bytes, count: int, id_set: str | None = None, locate: bool = False) -> "Verdicts":
        """Decodes a reply. Raises Refused if it is not a reply to `count` ids; nothing can be concluded from it."""
        if len(body) < _HEAD.size:
            raise Refused(f"the gateway answered a claim with {len(body)} bytes")
        claim, lease_ms, length = _HEAD.unpack_from(body)
        data, numbers = body[_HEAD.size : _HEAD.size + length], body[_HEAD.size + length :]
        exceptions = len(data.translate(None, _PLAIN))
        rest = numbers[8 * exceptions :] if locate else b""
        numbers = numbers[: 8 * exceptions] if locate else numbers
        if length != count or len(data) != length or len(numbers) != 8 * exceptions or data.translate(None, _KNOWN):
            raise Refused(f"the gateway's reply to a claim of {count} ids cannot be decoded; compare both versions")
        firsts = FirstPlaces.read(rest, [byte in _DUPLICATES for byte in data]) if locate else None
        return cls(claim_text(claim) if any(claim) else None, lease_ms, data, numbers, id_set, firsts)

    def __contains__(self, verdict: str) -> bool:
        """True if any id has this verdict, whatever its flags."""
        return any(byte in self.data for byte in _bytes_by_verdict(verdict))

    @property
    def may_write(self) -> pa.BooleanArray:
        """Granted ids: this attempt may write them."""
        return _mask(self.data.translate(_MAY_WRITE))

    @property
    def in_doubt(self) -> pa.BooleanArray:
        """Granted ids whose earlier claim expired: its holder may have written them."""
        return _mask(self.data.translate(_TAKEOVER))

    @property
    def unchecked(self) -> pa.BooleanArray:
        """Granted ids that were not looked up, since the ledger is down; others may have them too."""
        return _mask(self.data.translate(_UNCHECKED))

    @property
    def open(self) -> pa.BooleanArray:
        """Ids held by another attempt or by an earlier call of this one: claim them again in a new call."""
        return _mask(self.data.translate(_OPEN))

    @property
    def dropped(self) -> pa.BooleanArray:
        """Ids that are done without this attempt: written, or repeated within the request."""
        others = pc.or_(self.conflicting, self.unresolved)
        return pc.invert(pc.or_(pc.or_(self.may_write, self.open), others))

    @property
    def unresolved(self) -> pa.BooleanArray:
        """Ids in doubt: their holder's lease expired, and the namespace forbids takeovers."""
        return _mask(self.data.translate(_IN_DOUBT))

    @property
    def known(self) -> pa.BooleanArray:
        """Looked-up ids that are written."""
        return _mask(self.data.translate(_WRITTEN))

    @property
    def held(self) -> pa.BooleanArray:
        """Looked-up ids that a claim holds, whether or not its lease has expired."""
        return _mask(self.data.translate(_HELD))

    @property
    def conflicting(self) -> pa.BooleanArray:
        """Ids that are written, or occur earlier in the request, with a different payload."""
        return _mask(self.data.translate(_CONFLICT))

    @property
    def conflicts(self) -> int:
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
        """Counts the ids with exactly this verdict, these flags and this kind of number."""
        (byte,) = _those(verdict, takeover=takeover, own=own, number=number, unchecked=unchecked)
        return self.data.count(byte)

    @property
    def granted(self) -> int:
        return self.data.translate(_MAY_WRITE).count(1)

    @property
    def unchecked_count(self) -> int:
        """Number of granted ids that were not looked up."""
        return self.count("GRANTED", unchecked=True)

    @property
    def takeovers(self) -> int:
        """Number of granted ids whose earlier claim expired: its holder may have written them."""
        return self.count("GRANTED", takeover=True)

    @property
    def own(self) -> int:
        """Number of ids that this attempt has written."""
        return self.count("DUPLICATE", own=True)

    @property
    def stale(self) -> int:
        """Number of STALE ids: at or below a producer's watermark, or of an acked batch."""
        return self.count("STALE")

    @property
    def suppressed(self) -> int:
        """Number of rows that are not written because another attempt writes them; this attempt's own writes are not
        counted.
        """
        return self.count("DUPLICATE") + self.count("STALE") + self.count("SAME", number="of_index")

    @property
    def leading(self) -> int:
        """Length of the prefix of ids that are written by others or STALE."""
        return len(self.data) - len(self.data.lstrip(_ELSEWHERE))

    @property
    def unsettled(self) -> int:
        """Number of ids in `open`: neither written nor granted."""
        return self.data.translate(_OPEN).count(1)

    @property
    def lease_left_ms(self) -> int:
        """Longest remaining lease of the BUSY ids in ms; 0 without BUSY ids."""
        which = self.data.translate(None, _PLAIN)
        pairs = pa.Array.from_buffers(pa.uint64(), len(which), [None, pa.py_buffer(self.numbers)])
        left = pc.filter(pc.shift_right(pairs, 32), _mask(which.translate(_IS_BUSY)))
        return int(pc.max(left).as_py() or 0)


def _mask(ones: bytes) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.uint8(), len(ones), [None, pa.py_buffer(ones)]).cast(pa.bool_())


def claim_text(claim: bytes) -> str:
    """Encodes 16 bytes as 26 lower-case characters of Crockford's base 32, as in a ULID."""
    number = int.from_bytes(claim, "big")
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
