"""Reads a ledger's entries back: the snapshot in place of collected ones, then the frames behind it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.kafka.reading import Trimmed, reader
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.frames import Assembly, Collected, Frame
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import Readback
from oncegate.ledgers.snapshot_pieces import decode_piece
from oncegate.ports import Replayed

Batch = Sequence[Replayed]


async def replayed(place: KafkaPlace, fold: Fold, from_position: int) -> AsyncGenerator[Batch, None]:
    """Yields the entries from a position on, as of this call, some megabytes at a time.

    Raises LedgerDamaged, behind the entries before the damage; LedgerDown: not reached.
    """
    collected, end = fold.collected, fold.end
    behind = max(from_position - 1, collected.position if collected else 0)
    first = fold.first_after(behind)
    if collected is not None and from_position <= collected.position:
        async with aclosing(_snapshot(place, collected)) as batches:
            async for batch in batches:
                yield batch
    if first is None:
        return
    try:
        async with aclosing(_frames(place, first, end.serial)) as frames:
            async for frame in frames:
                if entries := _entries(frame, behind):
                    yield entries
    except Trimmed as error:
        raise LedgerDamaged(f"{error}: put topic {place.frames.topic} back from a copy") from error
    except (KafkaError, OSError) as error:
        raise LedgerDown(f"topic {place.frames.topic} cannot be read now: {error!r}") from error


async def _snapshot(place: KafkaPlace, collected: Collected) -> AsyncGenerator[Batch, None]:
    states = Readback(place.settings, place.states)
    try:
        async with aclosing(states.blobs(collected.state)) as pieces:
            async for data in pieces:
                if found := [Replayed(collected.position, body, collected.mark) for body in _decoded(place, data)]:
                    yield found
    finally:
        await states.close()


def _decoded(place: KafkaPlace, data: bytes) -> list[bytes]:
    try:
        return decode_piece(data)
    except ValueError as error:
        raise LedgerDamaged(f"{place.states.topic}: not of a format that this version reads ({error})") from error


async def _frames(place: KafkaPlace, first: tuple[int, int], last_serial: int) -> AsyncGenerator[Frame, None]:
    """The frames from offset and serial `first` up to a serial."""
    offset, serial = first
    assembly = Assembly(place.frames.topic)
    async with reader(place.settings) as committed:
        _, end = await committed.bounds(place.frames)
        async with aclosing(committed.records(place.frames, offset, end)) as several:
            async for some in several:
                for record in some:
                    for frame in assembly.add(record.offset, record.value):
                        if frame.serial != serial:
                            raise LedgerDamaged(
                                f"topic {place.frames.topic}, offset {frame.offset}: frame {frame.serial} where frame "
                                f"{serial} was written; put the topic back from a copy"
                            )
                        yield frame
                        serial += 1
                        if serial > last_serial:
                            return
    raise LedgerDamaged(f"topic {place.frames.topic} lacks frame {serial}; put the topic back from a copy")


def _entries(frame: Frame, behind: int) -> Batch:
    mark = frame.mark
    numbered = enumerate(frame.body.entries, frame.first_position)
    return [Replayed(position, body, mark) for position, body in numbered if position > behind]
