"""Writes a shard's index down between appends, as a snapshot that then replaces the entries that made it.

The index is taken as it is, with changes that wait for the ledger; those are made durable first. Then it is encoded a
step of a few milliseconds before each append and streamed to the ledger meanwhile; once the snapshot is durable, all
entries up to there are gone.

    requested    until nothing prevents it: the ledger is open, the waiting changes fit one group
    beginning    until the waiting changes are durable
    encoding     a step at a time; stopped where the index had to undo a change, or the gateway closes
    replacing    the ledger writes the encoded pieces, beside the encoding and after it
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
    """Hands entries from whoever makes them to one reader, on one event loop, each of them once.

    `async for` gives the entries in order and lets go of each; it is gone through once. `error`: what it ended with.
    """

    def __init__(self) -> None:
        self._unread: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self.error: Exception | None = None

    def give(self, entries: Iterable[bytes]) -> None:
        """Appends entries to the stream; the reader gets them in this order."""
        self._unread.extend(entries)
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream; the reader gets what was given, then `error`, if there is one, is raised to it."""
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


# After a step of encoding, so many times as long for requests: a snapshot has a quarter of the time at most.
SNAPSHOT_RESTS = 3
# Gives the entries of a snapshot, encoded, a step at a time; taken of the index as it is at the call.
SnapshotSteps = Generator[list[bytes], None, None]
Encode = Callable[[], SnapshotSteps]
# Is told how a snapshot ended: None, or why the ledger keeps its entries, as fields of an event.
Ended = Callable[[dict[str, object] | None], None]


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
        self._steps: SnapshotSteps | None = None
        self._next_step_ms = 0
        self._stream = EntryStream()
        self._ended: Ended = _ignored
        self._replacing: asyncio.Task[None] | None = None
        # Awaited before the ledger is compacted, with the mark that stays the oldest one known; what it raises ends it.
        self.before_compaction: Callable[[Mark], Awaitable[None]] = _nothing_before
        group_commit.between = self

    @property
    def compacting(self) -> bool:
        """Tells whether a snapshot is requested or under way, from the request to the end without a gap."""
        begun = self._requested is not None or self._steps is not None
        return begun or (self._replacing is not None and not self._replacing.done())

    def compact(self, encode: Encode, ended: Ended | None = None) -> None:
        """Requests a snapshot, soon: what `encode` gives replaces the entries so far, while appends go on.

        What `encode` or one of its steps raises ends the snapshot. `ended` is called with None once the snapshot stands
        in the ledger, and with the reason where the ledger keeps its entries: it refused the snapshot, or that could
        not be made. It is not called when the end is unknown, which ends the group commit too.
        """
        assert not self.compacting, "one at a time"
        self._requested, self._ended = encode, ended or _ignored
        self._group_commit.wake()

    def due_ms(self) -> int | None:
        """Tells in how many milliseconds a snapshot begins or goes on; None: there is none, or it has to wait."""
        if self._requested is not None and self._may_begin:
            return 0
        if self._steps is not None and self._group_commit.stopping is None:
            return self._next_step_ms - self._clock.monotonic_ms()
        return None

    async def turn(self) -> None:
        """Begins the snapshot that is requested, or takes one step of the one under way and then appends what waits."""
        if self._requested is not None and self._may_begin:
            await self._begin(self._requested)
        elif self._steps is not None:
            self._step(self._steps)
            await self._group_commit.append_next()

    async def stop(self) -> None:
        """Stops the snapshot under way; returns when the ledger has let go of it."""
        if self._steps is not None:
            self._end_steps(SnapshotStopped("no more is encoded: the ledger is let go of"))
        if self._replacing is not None:
            await asyncio.wait({self._replacing})

    @property
    def _may_begin(self) -> bool:
        return self._requested is not None and self._group_commit.open and self._group_commit.fits_one_group

    async def _begin(self, encode: Encode) -> None:
        """Begins a snapshot; what waits is in it, and is made durable first, alone."""
        try:
            steps, position = encode(), self._group_commit.next_position - 1
        except Exception as error:
            self._requested = None
            self._ended(_why(error))
            return
        # At once: while the append is awaited, a second request must find that there is one.
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
        """Ends the steps: the ledger gets the whole snapshot, or the error, and then keeps its entries."""
        self._stream.end(error)
        self._let_go()

    def _let_go(self) -> None:
        """Throws the steps away, which sets the index free."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    async def _replace(self, mark: Mark, entries: EntryStream) -> None:
        """Lets the ledger write the entries as they come, so that never many of them are in memory."""
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
        """Compacts the ledger; returns None, or why it keeps its entries; any other error is of unknown end."""
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
