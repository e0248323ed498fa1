"""Snapshots: a shard's index is written down between appends, and then replaces the entries that made it.

The index is taken as it stands, what waits for the ledger included; that is made durable first. Then it is encoded a
step of a few milliseconds before each append, while the ledger writes what came of it; once the snapshot is durable,
all entries up to there are gone.

    requested    until nothing stands in the way: the ledger is open, what waits fits one group
    encoding     a step at a time; stopped where the index had to take something back, or the gateway closes
    replacing    the ledger writes what was encoded, beside the encoding and after it
"""

import asyncio
from collections.abc import Callable, Iterator

from oncegate.core.errors import LedgerDown, LedgerFull, OncegateError
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.marks import Marks
from oncegate.engine.maintenance.entry_stream import EntryStream
from oncegate.index.snapshot.claims_writer import SnapshotStopped
from oncegate.ports import Clock, Ledger

# After a step of encoding, so many times as long for requests: a snapshot has a quarter of the time at most.
SNAPSHOT_RESTS = 3
# Gives the entries of a snapshot, encoded, a step at a time; taken of the index as it is at the call.
Encode = Callable[[], Iterator[list[bytes]]]


class Snapshotter:
    """Replaces a ledger's entries by a snapshot of the index, while appends go on; one at a time.

    `BetweenAppends` of the group commit that it is made with. The only caller of `Ledger.compact`.
    """

    def __init__(self, ledger: Ledger, clock: Clock, marks: Marks, group_commit: GroupCommit) -> None:
        self._ledger = ledger
        self._clock = clock
        self._marks = marks
        self._group_commit = group_commit
        self._requested: Encode | None = None
        self._steps: Iterator[list[bytes]] | None = None
        self._next_step_ms = 0
        self._stream = EntryStream()
        self._ended: Callable[[bool], None] = _ignored
        self._replacing: asyncio.Task[None] | None = None
        group_commit.between = self

    @property
    def compacting(self) -> bool:
        """Whether a snapshot is requested or under way."""
        begun = self._requested is not None or self._steps is not None
        return begun or (self._replacing is not None and not self._replacing.done())

    def compact(self, encode: Encode, ended: Callable[[bool], None] | None = None) -> None:
        """Request a snapshot, soon: what `encode` gives replaces the entries so far, while appends go on.

        `encode` raises SnapshotStopped between its steps where it cannot go on. `ended` is called with True once the
        snapshot stands in the ledger, and with False where the ledger refused it and keeps its entries, or the
        snapshot was stopped; it is not called when the end is unknown, which ends the group commit too.
        """
        assert not self.compacting, "one at a time"
        self._requested, self._ended = encode, ended or _ignored
        self._group_commit.wake()

    def due_ms(self) -> int | None:
        """In how many milliseconds a snapshot begins or goes on; None: there is none, or it has to wait."""
        if self._may_begin:
            return 0
        if self._steps is not None and not self._group_commit.closing:
            return self._next_step_ms - self._clock.monotonic_ms()
        return None

    async def turn(self) -> None:
        """Begin the snapshot that is requested, or take one step of the one under way and then append what waits."""
        if self._requested is not None and self._may_begin:
            await self._begin(self._requested)
        elif self._steps is not None:
            self._step(self._steps)
            await self._group_commit.append_next()

    async def stop(self) -> None:
        """Stop the snapshot under way; returns when the ledger has let go of it."""
        if self._steps is not None:
            self._end_steps(SnapshotStopped("no more is encoded: the ledger is let go of"))
        if self._replacing is not None:
            await asyncio.wait({self._replacing})

    @property
    def _may_begin(self) -> bool:
        return self._requested is not None and self._group_commit.open and self._group_commit.fits_one_group

    async def _begin(self, encode: Encode) -> None:
        """What waits is in the snapshot: it is made durable first, alone."""
        self._requested = None
        steps, position = encode(), self._group_commit.next_position - 1
        await self._group_commit.append_all()
        if self._group_commit.dead is None and self._group_commit.mark.position == position:
            self._steps, self._stream = steps, EntryStream()
            self._replacing = asyncio.create_task(self._replace(position, self._stream))
        else:
            self._ended(False)

    def _step(self, steps: Iterator[list[bytes]]) -> None:
        began_ms = self._clock.monotonic_ms()
        try:
            self._stream.give(next(steps))
        except StopIteration:
            self._end_steps(None)
        except SnapshotStopped as error:
            self._end_steps(error)
        ended_ms = self._clock.monotonic_ms()
        self._next_step_ms = ended_ms + SNAPSHOT_RESTS * (ended_ms - began_ms)

    def _end_steps(self, error: Exception | None) -> None:
        """Throwing the steps away sets the index free; the ledger gets the whole snapshot, or keeps its entries."""
        self._steps = None
        self._stream.end(error)

    async def _replace(self, position: int, entries: EntryStream) -> None:
        """The ledger writes the entries as they come, so that never many of them are held."""
        try:
            await self._ledger.compact(position, entries)
        except (LedgerFull, SnapshotStopped):
            self._steps = None
            self._ended(False)
        except Exception as error:
            self._group_commit.die(error if isinstance(error, OncegateError) else _failed(error))
        else:
            self._marks.compacted(position)
            self._ended(True)


def _failed(error: Exception) -> LedgerDown:
    return LedgerDown(f"compaction failed: {error}")


def _ignored(_done: bool) -> None:
    return None
