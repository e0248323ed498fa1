"""Cuts bytes of any length into records, and finds them again by the offset of the first one.

Records of one producer's transaction are adjacent among the committed records of a partition. The parts of a blob
need no numbers therefore: its length tells where it ends.
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

# Of a part; a batch takes 900,000 bytes and a broker by its default a megabyte.
PART_BYTES = 800_000
Bytes = bytes | memoryview
# Of locations of ranges: which topic the blob lies in.
OUTPUTS, STAGES = 0, 1


class Blobs:
    """Holds the batches of several blobs for one partition, in their order. A blob without bytes has no parts."""

    def __init__(self, partition: Partition, blobs: Sequence[Bytes]) -> None:
        parts = [part for blob in blobs for part in _parts(blob)]
        self._first_parts = [0, *accumulate(-(-len(blob) // PART_BYTES) for blob in blobs)]
        self.batches = [Batch(partition, one) for one in record_batches([(None, part) for part in parts])]

    @property
    def records(self) -> int:
        """Counts the records: of one partition's transaction they follow one another."""
        return sum(int(batch.encoded.record_count()) for batch in self.batches)

    def offsets(self, first_offsets: Sequence[int]) -> list[int]:
        """Returns the offset of each blob's first part, by those of the batches; 0 for a blob without bytes.

        NotWritten: a broker did not return an offset, so the blob could not be found again.
        """
        if any(offset < 0 for offset in first_offsets):
            raise NotWritten("the broker did not say where a record lies")
        of_parts: list[int] = []
        for batch, first in zip(self.batches, first_offsets, strict=True):
            of_parts += range(first, first + batch.encoded.record_count())
        ends = zip(self._first_parts, self._first_parts[1:], strict=False)
        return [of_parts[first] if first < after else 0 for first, after in ends]


def location(offset: int, data: Bytes, sha256: bytes | None = None, topic: int = 0) -> Location:
    """Returns the location of a blob. `offset`: of its first part; `sha256`: of the data, if it is known.

    `topic`: its number in a catalog that names blobs of several topics.
    """
    return Location(0, topic, offset, len(data), sha256 or hashlib.sha256(data).digest())


def end_of(at: Location) -> int:
    """Returns the offset after the last part of a blob."""
    return at.offset + -(-at.length // PART_BYTES)


def verified(at: Location, data: bytes, where: str) -> bytes:
    """Returns the blob's bytes; LedgerDamaged: they are not those that were written."""
    if len(data) != at.length or hashlib.sha256(data).digest() != at.sha256:
        raise LedgerDamaged(f"{where}: the {at.length} bytes from offset {at.offset} on are not those written there")
    return data


def _parts(blob: Bytes) -> list[Bytes]:
    return [blob[at : at + PART_BYTES] for at in range(0, len(blob), PART_BYTES)]


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
            self._offset, self._wanted_bytes = offset, frame_bytes(value or b"", self._at(offset))
        self._data += value or b""
        if len(self._data) > self._wanted_bytes:
            raise self._damage(offset, "a frame has more bytes than its head says")
        if len(self._data) == self._wanted_bytes:
            data, self._data = bytes(self._data), bytearray()
            yield decode_frame(data, self._offset, self._at(self._offset))

    def require_whole(self) -> None:
        """Raises LedgerDamaged where the last frame lacks records."""
        if self._data:
            raise self._damage(self._offset, f"{len(self._data)} of {self._wanted_bytes} bytes of a frame are there")

    def _at(self, offset: int) -> str:
        return f"topic {self._where}, offset {offset}"

    def _damage(self, offset: int, what: str) -> LedgerDamaged:
        return damage(self._at(offset), what)


async def frames_of(found: Reader, place: KafkaPlace, first: int, end: int) -> AsyncGenerator[Frame, None]:
    """Yields the frames from offset `first` to before `end`; LedgerDamaged, Trimmed, KafkaError, OSError."""
    assembly = Assembly(place.frames.topic)
    async with aclosing(found.records(place.frames, first, end)) as records:
        async for record in records:
            for frame in assembly.add(record.offset, record.value):
                yield frame
    assembly.require_whole()
