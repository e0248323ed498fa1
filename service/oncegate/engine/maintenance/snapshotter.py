"""Writes a snapshot of a shard's index between appends; the snapshot then replaces the entries that led to it.

A snapshot includes the changes still waiting for the ledger, which are made durable first. The index is encoded in
steps of a few milliseconds before appends, and streamed to the ledger at the same time. Once the snapshot is durable,
the ledger removes all entries up to its position.

    requested    until it can begin: the ledger is open, and the waiting changes fit one group
    beginning    until the waiting changes are durable
    encoding     step by step; stopped if the index undoes a change or the gateway closes
    replacing    the ledger writes the encoded pieces, during the encoding and after it
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable

from oncegate.core.errors import LedgerFull, OncegateError
from oncegate.core.lifecycle import end_of
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.marks import Marks
from oncegate.engine.failures import error_fields, unknown_end
from oncegate.index.claims.snapshot import SnapshotStopped
from oncegate.ports import Clock, Ledger, Mark


class EntryStream:
    """A stream of entries from one writer to one reader on the same event loop.

    `async for` yields the entries in order and drops each; only one iteration is possible. error: the final error.
    """

    def __init__(self) -> None:
        self._unread: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self.error: Exception | None = None

    def give(self, entries: Iterable[bytes]) -> None:
        """Appends entries to the stream; the reader receives them in this order."""
        self._unread.extend(entries)
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream. The reader gets the remaining entries; then `error`, if any, is raised."""
        self._ended, self.error = True, error
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error


# After a step, encoding rests three times as long: a snapshot uses at most a quarter of the time.
SNAPSHOT_RESTS = 3
# Yields the encoded entries of a snapshot step by step, of the index as of the call.
SnapshotSteps = Generator[list[bytes], None, None]
Encode = Callable[[], SnapshotSteps]
# Called at the end of a snapshot: with None, or with the reason of the failure as fields of an event.
Ended = Callable[[dict[str, object] | None], None]


class Snapshotter:
    """The writer of snapshots, one at a time, while appends continue. The only caller of `Ledger.compact`.

    Implements `BetweenAppends` for its group commit.
    """

    def __init__(self, ledger: Ledger, clock: Clock, marks: Marks, group_commit: GroupCommit) -> None:
        self._ledger = ledger
        self._clock = clock
        self._marks = marks
        self._group_commit = group_commit
        self._requested: Encode | None = None
        self._steps: SnapshotSteps | None = None
        self._next_step_ms = 0
        self._stream = EntryStream()
        self._ended: Ended = _ignored
        self._replacing: asyncio.Task[None] | None = None
        # Awaited before a compaction, with the oldest ledger position that it keeps; an exception cancels it.
        self.before_compaction: Callable[[Mark], Awaitable[None]] = _nothing_before
        group_commit.between = self

    @property
    def compacting(self) -> bool:
        """Returns whether a snapshot is requested or under way; true without interruption from the request to the
        end."""
        begun = self._requested is not None or self._steps is not None
        return begun or (self._replacing is not None and not self._replacing.done())

    def compact(self, encode: Encode, ended: Ended | None = None) -> None:
        """Requests a snapshot: the entries of `encode` replace the current ones, while appends continue.

        An exception of `encode` or of a step cancels the snapshot. `ended` is called with None once the snapshot is in
        the ledger. It is called with the reason if the ledger keeps its entries: the ledger refused the snapshot, or
        the encoding failed. If the outcome is unknown, `ended` is not called, and the group commit ends.
        """
        assert not self.compacting, "one at a time"
        self._requested, self._ended = encode, ended or _ignored
        self._group_commit.wake()

    def due_ms(self) -> int | None:
        """Returns the milliseconds until the next step of a snapshot; None if no snapshot is under way or it has to
        wait."""
        if self._requested is not None and self._may_begin:
            return 0
        if self._steps is not None and self._group_commit.stopping is None:
            return self._next_step_ms - self._clock.monotonic_ms()
        return None

    async def turn(self) -> None:
        """Begins the requested snapshot, or advances the current snapshot by one step; then appends waiting changes."""
        if self._requested is not None and self._may_begin:
            await self._begin(self._requested)
        elif self._steps is not None:
            self._step(self._steps)
            await self._group_commit.append_next()

    async def stop(self) -> None:
        """Stops the current snapshot and waits until the ledger has dropped it."""
        if self._steps is not None:
            self._end_steps(SnapshotStopped("no more is encoded: the ledger is let go of"))
        if self._replacing is not None:
            await asyncio.wait({self._replacing})

    @property
    def _may_begin(self) -> bool:
        return self._requested is not None and self._group_commit.open and self._group_commit.fits_one_group

    async def _begin(self, encode: Encode) -> None:
        """Begins a snapshot. It includes the waiting changes, which are made durable first, in their own append."""
        try:
            steps, position = encode(), self._group_commit.next_position - 1
        except Exception as error:
            self._requested = None
            self._ended(_why(error))
            return
        # Set before the append is awaited, so that `compacting` has no gap.
        self._steps, self._requested = steps, None
        await self._group_commit.append_all()
        if self._group_commit.ending() is None and self._group_commit.mark.position == position:
            self._stream = EntryStream()
            self._replacing = asyncio.create_task(self._replace(self._group_commit.mark, self._stream))
        else:
            self._let_go()
            self._ended({"error": "what waited for the ledger was refused"})

    def _step(self, steps: SnapshotSteps) -> None:
        began_ms = self._clock.monotonic_ms()
        try:
            self._stream.give(next(steps))
        except StopIteration:
            self._end_steps(None)
        except Exception as error:
            self._end_steps(error)
        ended_ms = self._clock.monotonic_ms()
        self._next_step_ms = ended_ms + SNAPSHOT_RESTS * (ended_ms - began_ms)

    def _end_steps(self, error: Exception | None) -> None:
        """Ends the encoding. The ledger gets the complete snapshot; or the error, and then keeps its entries."""
        self._stream.end(error)
        self._let_go()

    def _let_go(self) -> None:
        """Closes the encoder, which releases the index."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    async def _replace(self, mark: Mark, entries: EntryStream) -> None:
        """Streams the entries to the ledger, so that only a few are in memory, and reports the outcome."""
        try:
            reason = await self._compact(mark, entries)
            self._let_go()
            if reason is None:
                self._marks.compacted(mark.position)
            self._ended(None if reason is None else _why(reason))
        except Exception as error:
            end = error if isinstance(error, OncegateError) else unknown_end("compaction", error)
            self._group_commit.write_end(end_of(error, beside=True), end)

    async def _compact(self, mark: Mark, entries: EntryStream) -> Exception | None:
        """Compacts the ledger; returns None, or the reason why the ledger keeps its entries. Effect unknown after any
        exception."""
        try:
            await self.before_compaction(mark)
        except Exception as error:
            return error
        try:
            await self._ledger.compact(mark.position, entries)
        except LedgerFull as error:
            return error
        except Exception as error:
            if error is not entries.error:
                raise
            return error
        return None


def _why(error: Exception) -> dict[str, object]:
    return {"error": str(error)} if isinstance(error, SnapshotStopped) else error_fields(error)


async def _nothing_before(_mark: Mark) -> None:
    return None


def _ignored(_why: dict[str, object] | None) -> None:
    return None
