"""Reads a ledger's entries back: the snapshot in place of compacted ones, then the frames behind it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.frames import Compacted, Frame, entries_of
from oncegate.ledgers.kafka.reading import Trimmed, reader
from oncegate.ledgers.kafka.shard.assembly import Assembly
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.states import saved_pieces
from oncegate.ports import Replayed

Batch = Sequence[Replayed]


async def replayed(place: KafkaPlace, fold: Fold, from_position: int) -> AsyncGenerator[Batch, None]:
    """Yields the entries from a position on, as of this call, some megabytes at a time.

    Raises LedgerDamaged, behind the entries before the damage; LedgerDown: not reached.
    """
    compacted, end = fold.compacted, fold.end
    behind = max(from_position - 1, compacted.position if compacted else 0)
    first = fold.first_after(behind)
    if compacted is not None and from_position <= compacted.position:
        async with aclosing(_snapshot(place, compacted)) as batches:
            async for batch in batches:
                yield batch
    if first is None:
        return
    try:
        async with aclosing(frames_up_to(place, first, end.serial)) as frames:
            async for frame in frames:
                if entries := entries_of(frame, behind):
                    yield entries
    except Trimmed as error:
        raise LedgerDamaged(f"{error}: put topic {place.frames.topic} back from a copy") from error
    except (KafkaError, OSError) as error:
        raise LedgerDown(f"topic {place.frames.topic} cannot be read now: {error!r}") from error


async def _snapshot(place: KafkaPlace, compacted: Compacted) -> AsyncGenerator[Batch, None]:
    async with aclosing(saved_pieces(place, compacted.state)) as pieces:
        async for bodies in pieces:
            if found := [Replayed(compacted.position, body, compacted.mark) for body in bodies]:
                yield found


async def frames_up_to(place: KafkaPlace, first: tuple[int, int], last_serial: int) -> AsyncGenerator[Frame, None]:
    """Yields the frames from offset and serial `first` up to a serial; LedgerDamaged, Trimmed, KafkaError, OSError."""
    offset, serial = first
    assembly = Assembly(place.frames.topic)
    async with reader(place.settings) as committed:
        _, end = await committed.bounds(place.frames)
        async with aclosing(committed.records(place.frames, offset, end)) as records:
            async for record in records:
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
