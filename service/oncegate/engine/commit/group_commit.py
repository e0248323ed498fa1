"""Group commit: entries wait for one append at a time, answers wait for their entry.

Collecting happens here too: between two appends the index is saved as it stands, what waits included, a step before
each append; once that is durable, what was saved replaces all entries up to there.

A group is closed when the append before it has returned. Three ends of an append:
    durable     everyone who waits for a position up to the new mark goes on
    refused     (LedgerFull: nothing was written) this group and what came after is undone, newest first
    unknown     (anything else) group commit is dead; its shard must be opened anew from the ledger
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Probe
from oncegate.core.errors import LedgerDown, LedgerFull, OncegateError
from oncegate.engine.commit.entry_stream import EntryStream
from oncegate.engine.commit.marks import Marks
from oncegate.index.snapshot.claims_writer import SnapshotStopped
from oncegate.ports import Clock, Ledger, OutputChange

# How long a full ledger is left alone before one probe is appended.
PROBE_MS = 1_000
# One append holds at most this much: a frame stays far below its 32-bit length, a group below a second of disk.
GROUP_BYTES_MAX = 64 << 20
# After a step of saving, so many times as long for whoever asks: it has a quarter of the time at most.
SNAPSHOT_RESTS = 3


@dataclass(slots=True)
class Change:
    """What one decision wrote: its entries, its outputs, and how to take it back or settle it in the index."""

    entries: Sequence[bytes]
    outputs: Sequence[OutputChange]
    undo: Callable[[], None]
    settle: Callable[[], None]

    @property
    def size_bytes(self) -> int:
        outputs = sum(len(getattr(change, "data", b"")) for change in self.outputs) if self.outputs else 0
        return sum(map(len, self.entries)) + outputs


class GroupCommit:
    """The only caller of `Ledger.append`; lives on one event loop."""

    def __init__(self, ledger: Ledger, clock: Clock, marks: Marks) -> None:
        self._ledger = ledger
        self._clock = clock
        self._marks = marks
        self._pending: list[Change] = []
        self._wake = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._closing = False
        self._full: LedgerFull | None = None
        self._save: Callable[[], Iterator[list[bytes]]] | None = None
        self._steps: Iterator[list[bytes]] | None = None
        self._next_step_ms = 0
        self._state = EntryStream()
        self._compacted: Callable[[bool], None] = _ignored
        self._replacing: asyncio.Task[None] | None = None
        self._dead: OncegateError | None = None
        # Not the ledger's own: that one runs ahead by what this loop has not yet taken note of.
        self.mark = ledger.mark
        self.next_position = self.mark.position + 1
        marks.add(self.mark)

    @property
    def open(self) -> bool:
        """Something can be written now."""
        return not self._closing and self._full is None and self._dead is None

    def check(self) -> None:
        """Raise why nothing can be written now, if so: LedgerFull, or what killed this group commit."""
        if self._dead is not None:
            raise self._dead
        if self._closing:
            raise LedgerDown("the gateway is shutting down; nothing was written")
        if self._full is not None:
            raise LedgerFull(self._full.detail)

    def submit(
        self,
        entries: Sequence[bytes],
        outputs: Sequence[OutputChange],
        undo: Callable[[], None],
        settle: Callable[[], None],
    ) -> int:
        """Queue entries that the index has already taken in, at `next_position` and on; their last position.

        Neither list may be changed afterwards.
        """
        self._pending.append(Change(entries, outputs, undo, settle))
        self.next_position += len(entries)
        self._wake.set()
        return self.next_position - 1

    async def durable(self, position: int) -> None:
        """Return once `position` is durable; raise what became of it otherwise.

        LedgerFull: it was not written. LedgerDown: unknown; then nothing is said any more, whatever it rests on.
        """
        if self._dead is not None:
            raise self._dead
        if position <= self.mark.position:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wait(position, waiter)
        await waiter

    def wait(self, position: int, waiter: "asyncio.Future[None]") -> None:
        """Let `waiter` end as `durable` of this position would, which has been submitted and not appended yet."""
        self._waiters.append((position, waiter))

    async def all_durable(self) -> None:
        """As `durable`, for everything taken so far: what an answer rests on that says that something is not there."""
        await self.durable(self.next_position - 1)

    async def run(self) -> None:
        """Append groups until closed and drained; returns early, `dead` set, when an append's end is unknown."""
        await self._append_all()
        if self._steps is not None:
            self._end_snapshot(SnapshotStopped("nothing more is saved: the ledger is let go of"))
        if self._replacing is not None:
            await asyncio.wait({self._replacing})

    async def _append_all(self) -> None:
        while self._dead is None:
            if self._save is not None and self.open and self._fits_one_group():
                await self._begin_compaction(self._save)
            elif self._steps is not None and not self._closing and self._rest_ms <= 0:
                await self._snapshot_on(self._steps)
            elif not self._pending:
                if self._closing:
                    return
                await self._wait()
            else:
                await self._append(self._close_group())

    @property
    def _rest_ms(self) -> int:
        """How long no step of saving is taken."""
        return self._next_step_ms - self._clock.monotonic_ms()

    def _fits_one_group(self) -> bool:
        return sum(change.size_bytes for change in self._pending) <= GROUP_BYTES_MAX

    @property
    def compacting(self) -> bool:
        """A collection is asked for or under way."""
        saving = self._save is not None or self._steps is not None
        return saving or (self._replacing is not None and not self._replacing.done())

    def compact(
        self, save: Callable[[], Iterator[list[bytes]]], compacted: Callable[[bool], None] | None = None
    ) -> None:
        """Soon: let what `save` gives replace the entries so far, while appends go on. `collected` is told the end:
        False where the ledger refused and keeps its own, or the save was stopped.

        What is saved is what there is when `save` is called; it gives its entries a step of a few milliseconds at a
        time, one before each append, and raises SnapshotStopped where it cannot go on.
        """
        assert not self.compacting, "one at a time"
        self._save, self._compacted = save, compacted or _ignored
        self._wake.set()

    async def _begin_compaction(self, save: Callable[[], Iterator[list[bytes]]]) -> None:
        """What waits is in what is saved: it is durable before, alone."""
        self._save = None
        steps, position = save(), self.next_position - 1
        group, self._pending = self._pending, []
        if group:
            await self._append(group)
        if self._dead is None and self.mark.position == position:
            self._steps, self._state = steps, EntryStream()
            self._replacing = asyncio.create_task(self._replace(position, self._state))
        else:
            self._compacted(False)

    async def _snapshot_on(self, steps: Iterator[list[bytes]]) -> None:
        """One step of saving, then what waits, or whoever else has something to do."""
        began_ms = self._clock.monotonic_ms()
        try:
            self._state.give(next(steps))
        except StopIteration:
            self._end_snapshot(None)
        except SnapshotStopped as error:
            self._end_snapshot(error)
        ended_ms = self._clock.monotonic_ms()
        self._next_step_ms = ended_ms + SNAPSHOT_RESTS * (ended_ms - began_ms)
        if self._pending:
            await self._append(self._close_group())
        else:
            await self._clock.sleep_ms(0)

    def _end_snapshot(self, error: Exception | None) -> None:
        """The steps that are thrown away set the index free; the ledger has all of it, or leaves its own."""
        self._steps = None
        self._state.end(error)

    async def _replace(self, position: int, state: EntryStream) -> None:
        """The ledger writes what is saved as it comes, so that never much of it is held."""
        try:
            await self._ledger.compact(position, state)
        except (LedgerFull, SnapshotStopped):
            self._steps = None
            self._compacted(False)
        except Exception as error:
            self._die(error if isinstance(error, OncegateError) else LedgerDown(f"collecting failed: {error}"))
            self._wake.set()
        else:
            self._marks.compacted(position)
            self._compacted(True)

    @property
    def dead(self) -> OncegateError | None:
        return self._dead

    async def _wait(self) -> None:
        """Until something is to be written or saved; a full ledger is asked again after a while."""
        self._wake.clear()
        if self._steps is not None:
            await self._woken_within(self._rest_ms)
            return
        if self._full is None:
            await self._wake.wait()
            return
        await self._woken_within(PROBE_MS)
        if not self._pending and not self._closing:
            self.next_position += 1
            await self._append([Change([encode(Probe(self._clock.wall_ms()))], [], _nothing, _nothing)])

    async def _woken_within(self, wait_ms: int) -> None:
        pause, woken = asyncio.ensure_future(self._clock.sleep_ms(wait_ms)), asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((pause, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            woken.cancel()

    def _close_group(self) -> list[Change]:
        size_bytes = 0
        for count, change in enumerate(self._pending):
            size_bytes += change.size_bytes
            if count and size_bytes > GROUP_BYTES_MAX:
                group, self._pending = self._pending[:count], self._pending[count:]
                return group
        group, self._pending = self._pending, []
        return group

    async def _append(self, group: list[Change]) -> None:
        entries = [entry for change in group for entry in change.entries]
        outputs = [output for change in group for output in change.outputs]
        try:
            mark = await self._ledger.append(entries, outputs)
        except LedgerFull as error:
            self._refuse(group, error)
        except OncegateError as error:
            self._die(error)
        except Exception as error:
            self._die(LedgerDown(f"the ledger failed ({error}); whether this was written is unknown"))
        else:
            self._full, self.mark = None, mark
            self._marks.add(mark)
            for change in group:
                change.settle()
            self._release(mark.position)

    def _release(self, position: int) -> None:
        waiting = self._waiters
        self._waiters = [item for item in waiting if item[0] > position]
        for wanted, waiter in waiting:
            if wanted <= position and not waiter.done():
                waiter.set_result(None)

    def _refuse(self, group: list[Change], error: LedgerFull) -> None:
        """Nothing was written: the index goes back to what is durable, newest change first."""
        for change in reversed(group + self._pending):
            change.undo()
        self._pending = []
        self.next_position = self.mark.position + 1
        self._full = error
        self._fail_waiters(error)

    def _die(self, error: OncegateError) -> None:
        self._dead = error
        self._fail_waiters(error)

    def _fail_waiters(self, error: OncegateError) -> None:
        waiting, self._waiters = self._waiters, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(type(error)(error.detail, **error.extra))

    def close(self) -> None:
        """Take nothing more; `run` returns when all that was taken is written."""
        self._closing = True
        self._wake.set()


def _nothing() -> None:
    return None


def _ignored(_done: bool) -> None:
    return None
