"""Opening a ledger on Kafka, in the order that keeps two owners from both writing.

1. the next generation is taken, and every producer before it is ended (`ownership`)
2. the list of namespaces tells the witnesses; every frame is read, up to the end that the brokers tell now
3. what was read is judged: key, ledger, links, collection, witness     --- nothing was written up to here ---
4. the entry of ownership is committed: that is the proof. Only then is anything answered

What is read may be trimmed meanwhile by an owner that was fenced just now: then it is read again.
"""

from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from aiokafka.errors import KafkaError

from oncegate.core.errors import KeyMismatch, LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.guard import Fenced, Guard, InDoubt, NotWritten
from oncegate.ledgers.kafka.namespaces import Listed, NamespaceList, Witness
from oncegate.ledgers.kafka.reading import Reader, Trimmed
from oncegate.ledgers.kafka.shard.blobs import Blobs
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.frames import Assembly, Owned, encode_frame
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import Readback
from oncegate.ledgers.snapshot_pieces import decode_piece

# Each time that a ledger is trimmed while it is read, by one owner that was fenced in between.
READINGS_MAX = 5


@dataclass
class Opened:
    """Holds a ledger that is read, judged and owned. `read_to`: the offset up to which its frames were read."""

    key: bytes
    fold: Fold
    guard: Guard
    ownership: Ownership
    read_to: int


async def open_place(place: KafkaPlace, listed: NamespaceList) -> Opened:
    """Opens a ledger, and fences who had it before.

    Raises LedgerDamaged, KeyMismatch: nothing was written. LedgerFenced: another opens it too; LedgerFull, LedgerDown:
    not now, try again.
    """
    ownership = Ownership(place.settings, place.deadlines, listed, place.name)
    key = place.keys.unwrap(place.listed.key)
    async with AsyncExitStack() as on_error:
        try:
            guard = await ownership.begin()
            on_error.push_async_callback(guard.close)
            fold = await _read(place, listed.listed)
            _require_key(place, fold, key)
            read_to = await _own(place, fold, guard, Owned(ownership.generation, place.keys.wrap(key)))
            await ownership.prove()
            await _witness(listed, place.name, fold, ownership.generation)
        except (KafkaError, OSError) as error:
            raise LedgerDown(f"{place.frames.topic} cannot be opened now: {error!r}") from error
        on_error.pop_all()
    return Opened(key, fold, guard, ownership, read_to)


async def _read(place: KafkaPlace, listed: Listed) -> Fold:
    for _ in range(READINGS_MAX):
        fold = Fold(place.listed.ledger, place.frames.topic)
        try:
            await read_frames(place, fold)
        except Trimmed:
            continue
        fold.require_whole(newest(listed, place.name), bool(listed.generation(place.name).proved))
        await _settle(place, fold)
        return fold
    raise LedgerDown(f"{place.frames.topic} was trimmed each time that it was read; open it anew")


async def read_frames(place: KafkaPlace, fold: Fold, first: int | None = None) -> int:
    """Gives `fold` the frames from offset `first` on, else all; returns the offset up to which was read.

    Raises LedgerDamaged, Trimmed, KafkaError, OSError: what was folded is of no use.
    """
    reader, frames = Reader(place.settings), Assembly(place.frames.topic)
    await reader.start()
    try:
        lowest, end = await reader.bounds(place.frames)
        async with aclosing(reader.records(place.frames, lowest if first is None else first, end)) as several:
            async for some in several:
                for record in some:
                    for frame in frames.add(record.offset, record.value):
                        fold.take(frame)
        frames.require_whole()
        return end
    finally:
        await reader.stop()


async def _settle(place: KafkaPlace, fold: Fold) -> None:
    """The catalog as the last collection saved it, and what has changed since."""
    states = Readback(place.settings, place.states)
    try:
        locations = fold.collected.catalog if fold.collected else ()
        fold.settle([piece for data in await states.all(locations) for piece in decode_piece(data)])
    except ValueError as error:
        raise LedgerDamaged(f"{place.states.topic}: not of a format that this version reads ({error})") from error
    finally:
        await states.close()


def newest(listed: Listed, name: str) -> Witness | None:
    """Returns the witness of a namespace that saw most; None: there is none."""
    return max(listed.witnesses.get(name, {}).values(), key=lambda seen: seen.serial, default=None)


def _require_key(place: KafkaPlace, fold: Fold, key: bytes) -> None:
    if fold.key and place.keys.unwrap(fold.key) != key:
        raise KeyMismatch(
            f"topic {place.frames.topic} was written with another key than the list of namespaces has, and every id "
            "would look new; nothing was changed, put the topics back that belong together"
        )


async def _own(place: KafkaPlace, fold: Fold, guard: Guard, owned: Owned) -> int:
    """Commits the entry of ownership; the offset behind it."""
    before = fold.end
    data, end = encode_frame(place.listed.ledger, before, (), [owned])
    blobs = Blobs(place.frames, [data])
    try:
        (offset,) = blobs.offsets(await guard.commit(blobs.batches))
    except Fenced as error:
        raise LedgerFenced("another gateway opened this ledger at the same time; nothing was written") from error
    except NotWritten as error:
        raise LedgerFull(f"the entry of ownership was not written: {error}") from error
    except InDoubt as error:
        raise LedgerDown(f"whether this gateway owns the ledger is unknown: {error}; open it anew") from error
    fold.advance(offset, before.chain, end)
    return offset + len(blobs.batches)


async def _witness(listed: NamespaceList, name: str, fold: Fold, generation: int) -> None:
    """What older witnesses saw is behind this entry; they are removed after it was seen itself."""
    end = fold.end
    await listed.witness(name, generation, Witness(end.serial, end.position, end.chain))
    for older in [older for older in listed.listed.witnesses.get(name, {}) if older < generation]:
        await listed.forget_witness(name, older)
