"""Reads streams of a ledger: frames in their order, and bytes by where they lie, verified."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog.changes import Location
from oncegate.ledgers.frames import Frame, damage, decode_frame, frame_bytes
from oncegate.ledgers.redis.connection import Link
from oncegate.ledgers.redis.scripts import READ
from oncegate.ledgers.redis.shard.place import RedisPlace

# Read by one script, which the server does nothing beside.
READ_BYTES = 2 << 20


async def frames_from(link: Link, place: RedisPlace, serial: int) -> AsyncGenerator[Frame, None]:
    """Yields all frames from a serial on; to be closed with `aclose`. LedgerDamaged, Refused, Unreachable, Lost."""
    first = f"{serial}-0"
    while found := await link.read(READ, [place.frames], first, "+", READ_BYTES):
        for id_, data in zip(found[::2], found[1::2], strict=True):
            yield _frame(place, id_.decode(), data)
        first = f"({found[-2].decode()}"


def _frame(place: RedisPlace, id_: str, data: bytes) -> Frame:
    where = f"key {place.frames}, record {id_}"
    if len(data) != frame_bytes(data, where):
        raise damage(where, f"a frame of other than its {len(data)} bytes")
    serial, _, rest = id_.partition("-")
    frame = decode_frame(data, int(serial), where)
    if (frame.serial, rest) != (int(serial), "0"):
        raise damage(where, f"frame {frame.serial} is there")
    return frame


async def frame_at(link: Link, place: RedisPlace, serial: int) -> Frame | None:
    """Returns the frame with this serial; None: it is not there. Errors as `frames_from`."""
    id_ = f"{serial}-0"
    records = await link.ask("XRANGE", place.frames, id_, id_)
    return _frame(place, id_, records[0][1][1]) if records else None


async def first_serial(link: Link, place: RedisPlace) -> int | None:
    """Returns the serial of the first frame that is there; None: there is none. Errors as `frames_from`."""
    records = await link.ask("XRANGE", place.frames, "-", "+", "COUNT", 1)
    return int(records[0][0].partition(b"-")[0]) if records else None


def id_of(at: Location) -> str:
    """Returns the id of the record that a location names."""
    return f"{at.epoch}-{at.counter}"


def location(id_: str, data: bytes | memoryview, sha256: bytes | None = None) -> Location:
    """Says where bytes lie: in the record with this id. `sha256`: of the data, where it is known."""
    first, _, second = id_.partition("-")
    return Location(int(first), int(second), 0, len(data), sha256 or hashlib.sha256(data).digest())


async def bytes_at(link: Link, stream: str, locations: Sequence[Location]) -> AsyncGenerator[bytes, None]:
    """Yields the bytes at each location, in their order. LedgerDamaged: not those written; else as `frames_from`."""
    for some in _some(locations):
        asked = [("XRANGE", stream, id_of(at), id_of(at)) for at in some]
        for at, records in zip(some, await link.asks(asked), strict=True):
            yield _verified(stream, at, records)


def _some(locations: Sequence[Location]) -> Iterator[Sequence[Location]]:
    """So many at a time as have `READ_BYTES`; one at least."""
    first = size_bytes = 0
    for number, at in enumerate(locations):
        if number > first and size_bytes + at.length > READ_BYTES:
            yield locations[first:number]
            first, size_bytes = number, 0
        size_bytes += at.length
    if locations:
        yield locations[first:]


def _verified(stream: str, at: Location, records: list[Any]) -> bytes:
    data: bytes = records[0][1][1] if records else b""
    if not records or len(data) != at.length or hashlib.sha256(data).digest() != at.sha256:
        raise LedgerDamaged(
            f"key {stream}, record {id_of(at)}: not the {at.length} bytes that were written there; put back what the "
            "server held"
        )
    return data
