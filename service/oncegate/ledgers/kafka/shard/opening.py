"""Opens a ledger on Kafka, in an order that prevents two owners from both writing.

1. The next generation is allocated, and every earlier producer is fenced (`ownership`).
2. The rollback checks are taken from the list of namespaces, and every frame up to the current end is read.
3. Key, ledger, chain, compaction and rollback check are verified.   --- nothing was written up to here ---
4. The entry of ownership is committed, which proves ownership. No request is answered before.

A just fenced owner may truncate the topic during step 2; it is then read again. A standby's replay state is used in
step 2 only if the topic still has its last frame, whose chain covers all earlier frames.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.frames import End, Owned, encode_frame
from oncegate.ledgers.kafka.namespaces import KafkaListed, NamespaceTopic
from oncegate.ledgers.kafka.reading import Trimmed, reader
from oncegate.ledgers.kafka.shard.blobs import Blobs, frames_of
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.replay import Fold, TopicReader
from oncegate.ledgers.kafka.shard.unwritten import unwritten
from oncegate.ledgers.kafka.transactions.ends import Fenced, InDoubt, NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.server.holders import Changes
from oncegate.ledgers.server.replay import require_key, settle

# Attempts to read a ledger that is truncated during the read; a fenced owner can do that once.
READINGS_MAX = 5


@dataclass
class Opened:
    """A ledger that was read, verified and acquired. `read_to`: the end offset of its frames."""

    key: bytes
    fold: Fold
    guard: Guard
    ownership: Ownership
    read_to: int


async def open_place(
    place: KafkaPlace, listed: NamespaceTopic, lead: Callable[[KafkaListed], Changes], warm: Fold | None = None
) -> Opened:
    """Opens a ledger, and fences its earlier owners. `lead`: as in `Ownership`.

    `warm`: a standby's replay state, which is used and returned if it still matches the topic.

    Raises:
        LedgerDamaged, KeyMismatch: nothing was written.
        LedgerFenced: another gateway is opening it too.
        LedgerFull, LedgerDown: retry.
    """
    ownership = Ownership(place, listed, lead)
    key = place.keys.unwrap(place.listed.key)
    async with AsyncExitStack() as on_error:
        try:
            guard = await ownership.begin()
            on_error.push_async_callback(guard.close)
            fold = await _read_owned(place, listed.listed, ownership, warm)
            require_key(TopicReader(place), place.keys, fold, key)
            read_to = await _own(place, fold, guard, Owned(ownership.generation, place.keys.wrap(key)))
            # Before older generations are proved and forgotten: they may have left transactions open there.
            ownership.user_partitions.look_at(fold.sent_to.take())
            await ownership.user_partitions.heal(place.deadlines.commit_ms / 1000, partial(unwritten, place, fold))
            if not ownership.user_partitions.is_due(place.told_by_frames):
                await ownership.prove(ownership.generation)
            await _witness(listed, place.name, fold, ownership.generation)
        except (KafkaError, OSError) as error:
            raise LedgerDown(f"{place.frames.topic} cannot be opened now: {error!r}") from error
        on_error.pop_all()
    return Opened(key, fold, guard, ownership, read_to)


async def _read_owned(place: KafkaPlace, listed: KafkaListed, ownership: Ownership, warm: Fold | None) -> Fold:
    """Reads the ledger. Raises LedgerFenced for apparent damage that is a newer owner's open transaction."""
    try:
        return await _read(place, listed, warm)
    except LedgerDamaged as error:
        if await ownership.newer_owner():
            raise LedgerFenced("another gateway opened this ledger meanwhile; nothing was written") from error
        raise


async def _read(place: KafkaPlace, listed: KafkaListed, warm: Fold | None) -> Fold:
    if warm is not None:
        try:
            await _read_on(place, warm)
            return await _judged(place, listed, warm)
        except (Trimmed, LedgerDamaged):
            pass  # replay the topic from its beginning instead
    for _ in range(READINGS_MAX):
        fold = Fold(place.listed.ledger, place.frames.topic)
        try:
            await read_frames(place, fold)
        except Trimmed:
            continue
        return await _judged(place, listed, fold)
    raise LedgerDown(f"{place.frames.topic} was trimmed each time that it was read; open it anew")


async def _judged(place: KafkaPlace, listed: KafkaListed, fold: Fold) -> Fold:
    fold.require_whole(_newest(listed, place.name), bool(listed.generation(place.name).proved))
    await settle(TopicReader(place), fold)
    return fold


async def _read_on(place: KafkaPlace, warm: Fold) -> None:
    """Applies the frames after a standby's last one. Raises Trimmed: the topic no longer has its last frame."""
    async with reader(place.settings) as found:
        lowest, end = await found.bounds(place.frames)
        async with aclosing(frames_of(found, place, warm.last_offset, end)) as frames:
            last = await anext(frames, None)
            if last is None or last.end != warm.end:
                raise Trimmed(f"{place.frames.topic} does not have frame {warm.end.serial} any more")
            async for frame in frames:
                warm.take(frame)
        if lowest > warm.ledger_from:
            raise Trimmed(f"{place.frames.topic} begins at offset {lowest}")


async def read_frames(place: KafkaPlace, fold: Fold, first: int | None = None) -> int:
    """Applies the frames from offset `first`, or all if it is None, to `fold`; returns the end offset.

    Raises LedgerDamaged, Trimmed, KafkaError, OSError: `fold` must be discarded.
    """
    async with reader(place.settings) as found:
        lowest, end = await found.bounds(place.frames)
        async with aclosing(frames_of(found, place, lowest if first is None else first, end)) as frames:
            async for frame in frames:
                fold.take(frame)
        return end


def _newest(listed: KafkaListed, name: str) -> End | None:
    """Returns, of the namespace's records for the rollback check, the one with the highest serial, or None."""
    return max(listed.witnesses.get(name, {}).values(), key=lambda seen: seen.serial, default=None)


async def _own(place: KafkaPlace, fold: Fold, guard: Guard, owned: Owned) -> int:
    """Commits the frame that starts this ownership; returns the offset after it.

    Raises LedgerFenced, LedgerFull: nothing was written. Effect unknown when LedgerDown is raised.
    """
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
    fold.advance(offset, before, end)
    return offset + blobs.records


async def _witness(listed: NamespaceTopic, name: str, fold: Fold, generation: int) -> None:
    """Writes this generation's record for the rollback check, then removes the older records that it supersedes."""
    end = fold.end
    await listed.witness(name, generation, end)
    for older in [older for older in listed.listed.witnesses.get(name, {}) if older < generation]:
        await listed.forget_witness(name, older)
