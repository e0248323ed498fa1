"""Replays a ledger into a shard's index at a start."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from itertools import chain

from oncegate.core.entries.codec import EntryVersion, decode
from oncegate.core.entries.kinds import Entry, Opened, SnapshotPiece
from oncegate.core.errors import KeyMismatch, LedgerDamaged
from oncegate.engine.commit.marks import Marks
from oncegate.engine.recovery.batch_queue import BatchQueue
from oncegate.index.claims.replay import replay as replay_claims
from oncegate.index.shard import ShardIndex
from oncegate.ports import Replayed


async def replay(
    index: ShardIndex,
    batches: AsyncGenerator[Sequence[Replayed], None],
    marks: Marks,
    key_check: bytes,
    now_ms: int,
    *others: Callable[[int, Entry], None],
) -> int:
    """Applies a ledger's entries in a thread, while the loop reads them; `batches` are of `Ledger.replay(1)`.

    Arguments, result and errors as `rebuild`; `batches` is closed whatever happens.
    """
    queue, loop = BatchQueue(), asyncio.get_running_loop()
    # A thread of its own: one that waits for a reading must not have the last that could read.
    thread = ThreadPoolExecutor(1, thread_name_prefix="rebuilding")
    filling = asyncio.create_task(_fill(queue, batches))
    try:
        return await loop.run_in_executor(thread, rebuild, index, queue, marks, key_check, now_ms, *others)
    finally:
        queue.stop()
        thread.shutdown(wait=False)
        filling.cancel()
        await asyncio.wait([filling])


async def _fill(queue: BatchQueue, batches: AsyncGenerator[Sequence[Replayed], None]) -> None:
    """Reads `batches` and closes them, in one task: a second cancelling may come while they are being closed."""
    async with aclosing(batches):
        await queue.fill(batches)


def rebuild(
    index: ShardIndex,
    batches: Iterable[Iterable[Replayed]],
    marks: Marks,
    key_check: bytes,
    now_ms: int,
    *others: Callable[[int, Entry], None],
) -> int:
    """Applies a ledger's entries to `index` and `marks`; every open claim then has a full lease from `now_ms`.

    Returns the bytes of entries since the ledger was last compacted. `others` see what is no claim's alone, too.

    Raises KeyMismatch when the ledger was written with another key, LedgerDamaged when an entry cannot be read
    or contradicts those before it. Nothing is written.
    """
    entries = Entries(batches, marks, key_check)
    try:
        replay_claims(entries, index.claims.store, now_ms, index.replayed, *others)
        index.producers.reset_leases(now_ms)
    except EntryVersion as error:
        raise LedgerDamaged(
            f"entry {entries.position} of the ledger cannot be read: {error}; start the version of oncegate that wrote "
            "it, or begin in an empty folder"
        ) from error
    except (ValueError, KeyError, AssertionError) as error:
        raise LedgerDamaged(f"entry {entries.position} of the ledger makes no sense: {error}") from error
    return entries.size_bytes


class Entries:
    """Decodes a ledger's entries; `position` is the last one read, `size_bytes` of those that are no snapshot."""

    def __init__(self, batches: Iterable[Iterable[Replayed]], marks: Marks, key_check: bytes) -> None:
        self._batches = batches
        self._marks = marks
        self._key_check = key_check
        self.position = 0
        self.size_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        for replayed in chain.from_iterable(self._batches):
            self.position = replayed.position
            entry = decode(replayed.body)
            self.size_bytes += 0 if isinstance(entry, SnapshotPiece) else len(replayed.body)
            if isinstance(entry, Opened) and entry.key_check != self._key_check:
                raise KeyMismatch(
                    "the key file beside this ledger is not the one it was written with: with another key every id "
                    "would look new; put the right key file back"
                )
            yield replayed.position, entry
            self._marks.add(replayed.mark)
