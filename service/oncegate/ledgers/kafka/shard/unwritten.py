"""Decides which hanging records may be aborted: those that no frame of the ledger names."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Wrote
from oncegate.ledgers.frames import Frame, Owned, Sent
from oncegate.ledgers.kafka.markers.brokers import Open
from oncegate.ledgers.kafka.markers.user_partitions import Unreadable
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Trimmed, reader
from oncegate.ledgers.kafka.shard.blobs import frames_of
from oncegate.ledgers.kafka.shard.ownership import generation_of
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.replay import Fold

# Larger than every offset and generation.
_NONE = 1 << 63


class NamedRecords:
    """The records that a ledger's retained frames name; can prove that no frame names a record outside the set.

    All retained frames must be added with `take`. A ledger has one writer at a time: the rows in a partition are in the
    order of their frames, and frames are in the order of their generations. A frame that is no longer retained
    therefore precedes all retained ones.

    `asked`: partition and first offset of each transaction in question. `own`: the ledger's own partitions, by the
    topic number in locations.
    """

    def __init__(self, asked: Collection[tuple[Partition, int]], own: Sequence[Partition] = ()) -> None:
        self._asked = set(asked)
        self._own = own
        self._named: set[tuple[Partition, int]] = set()
        # Lowest named offset of each partition in `asked`; −1: the brokers did not return an offset.
        self._lowest = {partition: _NONE for partition, _ in asked}
        self._oldest_generation = _NONE

    def take(self, frame: Frame) -> None:
        """Adds the records that a frame names, and its generation."""
        for change in frame.body.changes:
            if isinstance(change, Owned):
                self._oldest_generation = min(self._oldest_generation, change.generation)
            elif isinstance(change, Sent):
                self._take(Partition(change.topic, change.partition), change.first_offset)
            elif isinstance(change, Wrote) and change.location.length:
                self._take(self._own[change.location.counter], change.location.offset)

    def _take(self, partition: Partition, offset: int) -> None:
        if partition in self._lowest:
            self._lowest[partition] = min(self._lowest[partition], offset)
            self._named |= self._asked.intersection([(partition, offset)])

    def lacks(self, partition: Partition, offset: int, generation: int) -> bool:
        """Returns True if no frame can name the record at `offset`, which `generation` wrote."""
        lowest = self._lowest[partition]
        if (partition, offset) in self._named or lowest < 0:
            return False
        return lowest < offset or self._oldest_generation <= generation


async def unwritten(place: KafkaPlace, fold: Fold, asked: Mapping[Open, str]) -> Collection[Open]:
    """Returns the open transactions that no frame names, as far as the retained frames prove it.

    `asked`: open transactions and their transactional ids. Their producers must be fenced already, so that all they
    committed is below the end read now. Raises Unreadable, KafkaError, OSError: retry later.
    """
    first_ones = [(one.partition, one.first_offset) for one in asked]
    named, known = NamedRecords(first_ones, place.told_by_frames), fold.end.serial
    try:
        last = await _take_all(place, fold.ledger_from, named)
    except (Trimmed, LedgerDamaged) as error:
        raise Unreadable(f"{place.frames.topic}: {error}") from error
    if last is None or last.serial < known:
        raise Unreadable(f"{place.frames.topic} ends before frame {known}")
    return [one for one, name in asked.items() if named.lacks(one.partition, one.first_offset, generation_of(name))]


async def _take_all(place: KafkaPlace, first: int, named: NamedRecords) -> Frame | None:
    """Adds all frames from an offset to `named`; returns the last frame. Raises LedgerDamaged: one is missing."""
    last: Frame | None = None
    async with reader(place.settings) as found:
        _, end = await found.bounds(place.frames)
        async with aclosing(frames_of(found, place, first, end)) as frames:
            async for frame in frames:
                if last is not None and frame.previous_chain != last.chain:
                    raise LedgerDamaged(f"frame {frame.serial} does not follow frame {last.serial}")
                named.take(frame)
                last = frame
    return last
