"""Makes frames of the records of the topic `.ledger` that they were cut into (`blobs`)."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.frames import Frame, damage, decode_frame, frame_bytes
from oncegate.ledgers.kafka.reading import Reader
from oncegate.ledgers.kafka.shard.place import KafkaPlace


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
