"""Reads and verifies a ledger's streams, and defines their replay state."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog import Catalog, Location
from oncegate.ledgers.fold import Fold as FramesFold
from oncegate.ledgers.frames import Compacted, Frame, damage, decode_frame, frame_bytes
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.scripts import READ
from oncegate.ledgers.redis.shard.head import RedisPlace
from oncegate.ledgers.server.replay import Fetch, rows_of
from oncegate.ports import Chunk

# Bytes read per script, since a script blocks the server.
READ_BYTES = 2 << 20


class Fold(FramesFold):
    """Replay state of a ledger on Redis, built from its frames. `where`: the ledger's key.
    A frame's offset is its serial.

    `released`: locations of rows that are no longer referenced but may still exist; the owner deletes them.
    """

    def __init__(self, ledger: bytes, where: str) -> None:
        super().__init__(ledger, f"key {where}")
        self.released: list[Location] = []

    def catch_up(self) -> list[Location]:
        """Applies the pending changes to the catalog; returns the locations that are no longer referenced."""
        gone = super().catch_up()
        self.released += gone
        return gone

    def adopt(self, compacted: Compacted, offset: int) -> None:
        """Applies a compaction; the script that wrote its frame has deleted all rows released before it."""
        super().adopt(compacted, offset)
        self.released.clear()


class StreamReader:
    """Implements `replay.LedgerReader` for one ledger's streams. The caller owns `link`.

    `frames` and `pieces` raise LedgerDamaged, Refused, Unreachable, Lost.
    """

    mend = "put back what the server held"

    def __init__(self, link: Link, place: RedisPlace) -> None:
        self._link = link
        self._place = place
        self.where = f"key {place.frames}"
        self.states = f"key {place.states}"

    @contextmanager
    def reading(self) -> Iterator[None]:
        try:
            yield
        except (Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"{self.where} cannot be read now: {error}") from error

    async def frames(self, offset: int, serial: int) -> AsyncGenerator[Frame, None]:
        """Yields the frames from `serial` on; ignores `offset`."""
        first = f"{serial}-0"
        while found := await self._link.read(READ, [self._place.frames], first, "+", READ_BYTES):
            for id_, data in zip(found[::2], found[1::2], strict=True):
                yield _frame(self._place, id_.decode(), data)
            first = f"({found[-2].decode()}"

    def pieces(self, locations: Sequence[Location]) -> AsyncGenerator[bytes, None]:
        return bytes_at(self._link, self._place.states, locations)

    async def rows(self, catalog: Catalog, fetch: Fetch) -> list[Chunk]:
        """Returns published rows as `Outputs.fetch` does, verified. Raises OffsetTrimmed, LedgerDamaged, LedgerDown."""

        async def read(locations: Sequence[Location]) -> list[bytes]:
            async with aclosing(bytes_at(self._link, self._place.rows, locations)) as data:
                return [one async for one in data]

        with self.reading():
            return await rows_of(catalog, fetch, read)


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
    """Returns the frame with this serial, or None if it does not exist.

    Raises LedgerDamaged, Refused, Unreachable, Lost.
    """
    id_ = f"{serial}-0"
    records = await link.ask("XRANGE", place.frames, id_, id_)
    return _frame(place, id_, records[0][1][1]) if records else None


async def first_serial(link: Link, place: RedisPlace) -> int | None:
    """Returns the serial of the first frame, or None if the stream is empty. Raises Refused, Unreachable, Lost."""
    records = await link.ask("XRANGE", place.frames, "-", "+", "COUNT", 1)
    return int(records[0][0].partition(b"-")[0]) if records else None


def id_of(at: Location) -> str:
    return f"{at.epoch}-{at.counter}"


def location(id_: str, data: bytes | memoryview, sha256: bytes | None = None) -> Location:
    """Returns the location of a record. `sha256`: of the data; computed if None."""
    first, _, second = id_.partition("-")
    return Location(int(first), int(second), 0, len(data), sha256 or hashlib.sha256(data).digest())


async def bytes_at(link: Link, stream: str, locations: Sequence[Location]) -> AsyncGenerator[bytes, None]:
    """Yields the verified bytes at each location, in order. Raises LedgerDamaged, Refused, Unreachable, Lost."""
    for some in _some(locations):
        asked = [("XRANGE", stream, id_of(at), id_of(at)) for at in some]
        for at, records in zip(some, await link.asks(asked), strict=True):
            yield _verified(stream, at, records)


def _some(locations: Sequence[Location]) -> Iterator[Sequence[Location]]:
    """Splits locations into groups of at most `READ_BYTES` of data; a larger location is a group of its own."""
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
