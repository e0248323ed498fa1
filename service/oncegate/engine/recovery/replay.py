"""Replays a ledger into a shard's index, at a start or continuously on a standby."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from oncegate.core.entries.codec import EntryVersion, decode
from oncegate.core.entries.kinds import Entry, Opened, SnapshotPiece
from oncegate.core.errors import KeyMismatch, LedgerDamaged
from oncegate.engine.commit.marks import Marks
from oncegate.engine.recovery.batch_queue import BatchQueue
from oncegate.index.claims.replay import replay as replay_claims
from oncegate.index.shard import ShardIndex
from oncegate.ports import Replayed


@dataclass(frozen=True)
class Upkeep:
    """The inputs of a continuous replay: a clock, and the position up to which the ledger has been compacted."""

    clock_ms: Callable[[], int]
    compacted: Callable[[], int]


async def replay(
    index: ShardIndex,
    batches: AsyncGenerator[Sequence[Replayed], None],
    marks: Marks,
    key_check: bytes,
    now_ms: int,
    *others: Callable[[int, Entry], None],
    upkeep: Upkeep | None = None,
) -> int:
    """Applies a ledger's entries in a thread while the event loop reads them; `batches` is `Ledger.replay(1)`.

    Arguments, result and errors as `rebuild`. Always closes `batches`.
    """
    queue, loop = BatchQueue(), asyncio.get_running_loop()
    # A dedicated thread: waiting for reads in a shared pool could occupy the last thread that could read.
    thread = ThreadPoolExecutor(1, thread_name_prefix="rebuilding")
    filling = asyncio.create_task(_fill(queue, batches))
    try:
        work = partial(rebuild, index, queue, marks, key_check, now_ms, *others, upkeep=upkeep)
        return await loop.run_in_executor(thread, work)
    finally:
        queue.stop()
        thread.shutdown(wait=False)
        filling.cancel()
        await asyncio.wait([filling])


async def _fill(queue: BatchQueue, batches: AsyncGenerator[Sequence[Replayed], None]) -> None:
    """Reads `batches` and closes them in one task, so that a second cancellation cannot interrupt the closing."""
    async with aclosing(batches):
        await queue.fill(batches)


def rebuild(
    index: ShardIndex,
    batches: Iterable[Iterable[Replayed]],
    marks: Marks,
    key_check: bytes,
    now_ms: int,
    *others: Callable[[int, Entry], None],
    upkeep: Upkeep | None = None,
) -> int:
    """Applies a ledger's entries to `index` and `marks`; every open claim then has a full lease from `now_ms`.

    `others` are called with the entries that concern more than claims. `upkeep`: given for a continuous replay.

    Returns the bytes of the entries since the last compaction of the ledger.

    Raises KeyMismatch if the ledger was written with another key; LedgerDamaged if an entry cannot be read or
    contradicts earlier ones. Writes nothing.
    """
    compacted, clock_ms = (upkeep.compacted, upkeep.clock_ms) if upkeep else (None, None)
    entries = Entries(batches, marks, key_check, compacted)
    try:
        replay_claims(entries, index.claims, now_ms, index.replayed, *others, clock_ms=clock_ms)
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
    """A decoder that yields a ledger's entries in order. position: of the last entry read. size_bytes: of entries
    except snapshots."""

    def __init__(
        self,
        batches: Iterable[Iterable[Replayed]],
        marks: Marks,
        key_check: bytes,
        compacted: Callable[[], int] | None = None,
    ) -> None:
        self._batches = batches
        self._compacted = compacted
        self._marks = marks
        self._key_check = key_check
        self.position = 0
        self.size_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        for batch in self._batches:
            for replayed in batch:
                self.position = replayed.position
                yield replayed.position, self._decoded(replayed.body)
                self._marks.add(replayed.mark)
            self._note_compaction()

    def _decoded(self, body: bytes) -> Entry:
        entry = decode(body)
        self.size_bytes += 0 if isinstance(entry, SnapshotPiece) else len(body)
        if isinstance(entry, Opened) and entry.key_check != self._key_check:
            raise KeyMismatch(
                "the key file beside this ledger is not the one it was written with: with another key every id "
                "would look new; put the right key file back"
            )
        return entry

    def _note_compaction(self) -> None:
        """Forgets the positions below the owner's last compaction, as the owner itself does."""
        if self._compacted is not None and (position := self._compacted()) > self._marks.compacted_to:
            self._marks.compacted(position)
            self.size_bytes = 0
