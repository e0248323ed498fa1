"""Splits blobs into records, and locates them by the offset of the first record.

The records of a producer's transaction are adjacent among the committed records of a partition. The parts of a blob
therefore need no numbering: its length determines the last one.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import accumulate

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.frames import Frame, damage, decode_frame, frame_bytes
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Reader
from oncegate.ledgers.kafka.record_batch import record_batches
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.transactions.ends import NotWritten
from oncegate.ledgers.kafka.transactions.sending import Batch

# Maximum size of a part; a batch holds 900,000 bytes, and a broker accepts a megabyte by default.
PART_BYTES = 800_000
Bytes = bytes | memoryview
# Topic numbers in the locations of ranges.
OUTPUTS, STAGES = 0, 1


class Blobs:
    """Batches of several blobs for one partition, in order. An empty blob has no parts."""

    def __init__(self, partition: Partition, blobs: Sequence[Bytes]) -> None:
        parts = [part for blob in blobs for part in _parts(blob)]
        self._first_parts = [0, *accumulate(-(-len(blob) // PART_BYTES) for blob in blobs)]
        self.batches = [Batch(partition, one) for one in record_batches([(None, part) for part in parts])]

    @property
    def records(self) -> int:
        """Returns the number of records, which have consecutive offsets within a transaction."""
        return sum(int(batch.encoded.record_count()) for batch in self.batches)

    def offsets(self, first_offsets: Sequence[int]) -> list[int]:
        """Returns the offset of each blob's first part; 0 for an empty blob. `first_offsets`: of the batches.

        Raises NotWritten: a broker did not return an offset, so the blob cannot be located.
        """
        if any(offset < 0 for offset in first_offsets):
            raise NotWritten("the broker did not say where a record lies")
        of_parts: list[int] = []
        for batch, first in zip(self.batches, first_offsets, strict=True):
            of_parts += range(first, first + batch.encoded.record_count())
        ends = zip(self._first_parts, self._first_parts[1:], strict=False)
        return [of_parts[first] if first < after else 0 for first, after in ends]


def location(offset: int, data: Bytes, sha256: bytes | None = None, topic: int = 0) -> Location:
    """Returns the location of a blob.

    `offset`: of its first part. `sha256`: of the data; computed if None. `topic`: `OUTPUTS` or `STAGES`.
    """
    return Location(0, topic, offset, len(data), sha256 or hashlib.sha256(data).digest())


def end_of(at: Location) -> int:
    """Returns the offset after the last part of a blob."""
    return at.offset + -(-at.length // PART_BYTES)


def verified(at: Location, data: bytes, where: str) -> bytes:
    """Returns `data` if it matches the location's length and SHA-256. Raises LedgerDamaged if not."""
    if len(data) != at.length or hashlib.sha256(data).digest() != at.sha256:
        raise LedgerDamaged(f"{where}: the {at.length} bytes from offset {at.offset} on are not those written there")
    return data


def _parts(blob: Bytes) -> list[Bytes]:
    return [blob[at : at + PART_BYTES] for at in range(0, len(blob), PART_BYTES)]


class Assembly:
    """Assembles frames from a topic's records, added in order. `where`: the topic, for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._data = bytearray()
        self._wanted_bytes = 0
        self._offset = 0

    def add(self, offset: int, value: bytes | None) -> Iterator[Frame]:
        """Adds the next record; yields the frame that it completes, if any. Raises LedgerDamaged."""
        if not self._data:
            self._offset, self._wanted_bytes = offset, frame_bytes(value or b"", self._at(offset))
        self._data += value or b""
        if len(self._data) > self._wanted_bytes:
            raise self._damage(offset, "a frame has more bytes than its head says")
        if len(self._data) == self._wanted_bytes:
            data, self._data = bytes(self._data), bytearray()
            yield decode_frame(data, self._offset, self._at(self._offset))

    def require_whole(self) -> None:
        """Raises LedgerDamaged if the last frame is incomplete."""
        if self._data:
            raise self._damage(self._offset, f"{len(self._data)} of {self._wanted_bytes} bytes of a frame are there")

    def _at(self, offset: int) -> str:
        return f"topic {self._where}, offset {offset}"

    def _damage(self, offset: int, what: str) -> LedgerDamaged:
        return damage(self._at(offset), what)


async def frames_of(found: Reader, place: KafkaPlace, first: int, end: int) -> AsyncGenerator[Frame, None]:
    """Yields the frames from offset `first`, inclusive, to `end`, exclusive.

    Raises LedgerDamaged, Trimmed, KafkaError, OSError.
    """
    assembly = Assembly(place.frames.topic)
    async with aclosing(found.records(place.frames, first, end)) as records:
        async for record in records:
            for frame in assembly.add(record.offset, record.value):
                yield frame
    assembly.require_whole()
