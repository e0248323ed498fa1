"""Appends groups of changes to the ledger, one append at a time; each answer waits until its entry is durable.

A group is closed when the previous append returns. `core.lifecycle.ENDS` is the table of how an append can end, and of
the error for callers in flight and waiting. When the ledger refuses one change of a group, `ChangeQueue` finds it.

Other work may run between two appends (`BetweenAppends`), for example the snapshotter's.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Probe
from oncegate.core.errors import LedgerDown, LedgerFull, OncegateError
from oncegate.core.lifecycle import ENDS, AppendOutcome, EndCell, Ending, Event, end_of
from oncegate.engine.commit.marks import Marks
from oncegate.engine.commit.queue import Change, ChangeQueue, Waiters
from oncegate.engine.commit.room import Room
from oncegate.engine.counters import APPENDED, APPENDS_LOST, APPENDS_REFUSED
from oncegate.engine.counts.counts import Counts
from oncegate.engine.failures import again, unknown_end
from oncegate.ports import AppendRefused, Clock, Ledger, Mark, OutputChange, Storage
from oncegate.ports.tracing import TraceSpan, child, current_span

_UNTRACED = nullcontext()
_IN_DOUBT = "the ledger ended during an append; whether this was written is unknown: send it again"


class BetweenAppends(Protocol):
    """Background work that runs between two appends, one turn at a time. No append is in flight when a turn begins."""

    def due_ms(self) -> int | None:
        """Returns the milliseconds until the next turn is due; 0 or less means now, None means not before
        `GroupCommit.wake`."""

    async def turn(self) -> None:
        """Works for a few milliseconds; may call `append_all` or `append_next`. Must not raise."""

    async def stop(self) -> None:
        """Stops the work, because no append will follow; returns once no part of the work is running."""


class GroupCommit:
    """The queue of changes for the ledger's appends, and of the answers that wait until their entry is durable.

    The only caller of `Ledger.append` once a shard serves. Runs on one event loop.

    mark: the last durable position.
    next_position: position of the next submitted entry.
    between: the work between appends; None at first.
    room: the ledger's free space.
    counts: receives the outcome, duration and size of each append.
    end: how the ledger ended; a failed append writes it.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        marks: Marks,
        storage: Storage | None = None,
        counts: Counts | None = None,
        end: EndCell | None = None,
    ) -> None:
        self._ledger = ledger
        self.end = EndCell() if end is None else end
        self._counts = Counts() if counts is None else counts
        self._clock = clock
        self._marks = marks
        self._queue = ChangeQueue()
        self._wake = asyncio.Event()
        self._waiters = Waiters()
        storage = Storage() if storage is None else storage
        self.room = Room(clock, storage.free_bytes)
        # How often changes of other submitters were undone with a refused one; their requests may be decided again.
        self.undone = 0
        # True if only an append detects a newer owner.
        self.fenced_by_appends = storage.fenced_by_appends
        self.between: BetweenAppends | None = None
        # Called once when the ledger ends. An append may hang, so `run` may return much later.
        self.when_ended: Callable[[Ending], None] = _ignored
        # Set once no more is accepted: the error for new callers. Everything accepted before is still written.
        self.stopping: OncegateError | None = None
        # A copy: the ledger's own mark runs ahead of the appends that this loop has processed.
        self.mark = ledger.mark
        self.next_position = self.mark.position + 1
        # The last position of the append in flight, or of the last one.
        self._begun = self.mark.position
        # Last position whose outcome is unknown; set when the ledger's end is reported, None before.
        self._in_doubt_to: int | None = None
        marks.add(self.mark)

    @property
    def open(self) -> bool:
        return self.stopping is None and not self.room.full and self.ending() is None

    @property
    def queued(self) -> tuple[int, int]:
        """Returns the number of changes queued for the next append, and of answers that wait for an append to end."""
        return len(self._queue.changes), len(self._waiters)

    def check(self, *, ends: bool = False) -> None:
        """Raises LedgerFull, the error that ended the ledger, or the reason for the shutdown, if nothing can be written
        now.

        ends: the entry completes or releases something, so it may use the reserved disk space.
        """
        if self.end.ending is not None and (ending := self.ending()) is not None:
            raise ending.again()
        if self.stopping is not None:
            raise again(self.stopping)
        if self.room.full and not ends:
            raise self.room.refusal

    def submit(
        self,
        entries: Sequence[bytes],
        outputs: Sequence[OutputChange],
        undo: Callable[[], None],
        settle: Callable[[], None],
    ) -> int:
        """Queues entries that the index has applied; they get the positions from `next_position`. Returns the last
        position.

        Neither list may be changed afterwards.
        """
        self._queue.changes.append(Change(entries, outputs, undo, settle, asyncio.current_task()))
        self.next_position += len(entries)
        self._wake.set()
        return self.next_position - 1

    async def durable(self, position: int) -> None:
        """Returns once `position` is durable.

        Raises:
            LedgerFull: nothing was written.
            LedgerDown: the outcome is unknown; no further answer is given, on any position.
            If the ledger rejects a change, its submitter alone gets the ledger's refusal; the others get LedgerFull.
        """
        if position <= self.mark.position and (self.end.ending is None or self.ending() is None):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wait(position, waiter, current_span())
        await waiter

    def wait(self, position: int, waiter: "asyncio.Future[None]", span: TraceSpan | None = None) -> None:
        """Resolves the future `waiter` with the outcome of `durable(position)`; `span` is the span of the waiting
        request."""
        if self.end.ending is not None and (ending := self.ending()) is not None:
            is_in_doubt = position <= (self._in_doubt_to or 0)
            waiter.set_exception(LedgerDown(_IN_DOUBT) if is_in_doubt else ending.again())
        elif position <= self.mark.position:
            waiter.set_result(None)
        else:
            self._waiters.add(position, waiter, span)

    async def all_durable(self) -> None:
        """Waits until all changes submitted so far are durable, as every refusal must; raises as `durable`."""
        await self.durable(self.next_position - 1)

    @property
    def next_append(self) -> int:
        """Returns the first position that no append has begun to write."""
        return self._begun + 1

    async def owned(self, since: int) -> None:
        """Waits for an append that began at or after position `since`, if only appends detect a newer owner.

        An owner that was superseded while it was suspended thus finds out before it answers from stale memory. Raises
        as `durable`.
        """
        if self.fenced_by_appends and self.mark.position < since:
            await self.durable(self._proof(since))

    def _proof(self, since: int) -> int:
        """Returns the position to wait for: `since` if that position is already queued, otherwise the position of a new
        probe."""
        if self.next_position > since:
            return since
        return self.probe()

    def probe(self) -> int:
        """Appends a probe, an entry without effect, to test whether the ledger accepts entries; returns its position.

        Raises as `check`.
        """
        self.check()
        return self._submit_probe()

    def _submit_probe(self) -> int:
        return self.submit([encode(Probe(self._clock.wall_ms()))], [], _nothing, _nothing)

    async def run(self) -> None:
        """Appends groups until closed and drained; returns early when the ledger has ended.

        Any exception here ends the ledger too: all waiters get an error, and the work between appends is stopped.
        """
        try:
            while self.ending() is None:
                due_ms = None if self.between is None else self.between.due_ms()
                probe_ms = self.room.due_ms() if self.room.full else None
                if due_ms is not None and due_ms <= 0 and self.between is not None:
                    await self.between.turn()
                elif probe_ms is not None and probe_ms <= 0 and self.stopping is None:
                    await self._probe()
                elif self._queue.changes:
                    await self._append(self._queue.take_group())
                elif self.stopping is not None:
                    return
                else:
                    await self._wait(probe_ms if due_ms is None else due_ms)
        except BaseException as error:
            self.write_end(Event.FAILED, unknown_end("the group commit", error))
            if not isinstance(error, Exception):
                raise
        finally:
            if self.between is not None:
                await self.between.stop()

    async def _probe(self) -> None:
        """Appends one probe if the disk has free space beyond the reserve; its success ends the full state."""
        self.room.leave_alone()
        if self._queue.changes:  # completes and releases must not be refused with the probe
            await self.append_next()
        if self.ending() is None and self.room.measure():
            position = self._submit_probe()
            await self.append_all()
            if self.mark.position >= position:
                self.room.end_full()

    async def _wait(self, wait_ms: int | None) -> None:
        """Waits until a change is submitted, for at most `wait_ms` milliseconds; None waits without a limit."""
        self._wake.clear()
        if wait_ms is None:
            await self._wake.wait()
            return
        pause, woken = asyncio.ensure_future(self._clock.sleep_ms(wait_ms)), asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((pause, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            woken.cancel()

    def wake(self) -> None:
        """Wakes `run`, which checks again whether work between appends is due."""
        self._wake.set()

    @property
    def fits_one_group(self) -> bool:
        return self._queue.fits_one_group

    async def append_all(self) -> None:
        """Appends all queued changes as one group. Called by work between appends, only if `fits_one_group`."""
        if self._queue.changes:
            await self._append(self._queue.take_all())

    async def append_next(self) -> None:
        """Appends the next group; if none is queued, yields to the event loop once."""
        if self._queue.changes:
            await self._append(self._queue.take_group())
        else:
            await self._clock.sleep_ms(0)

    async def _append(self, group: list[Change]) -> None:
        entries, outputs = list[bytes](), list[OutputChange]()
        for change in group:
            entries += change.entries
            outputs += change.outputs
        self._begun = self.mark.position + len(entries)
        is_traced = self._waiters.traced > 0
        began_ms = self._clock.monotonic_ms()
        with self._waiters.group_span(self._begun, len(group), len(entries)) if is_traced else _UNTRACED:
            try:
                with child("append", {"oncegate.bytes": sum(map(len, entries))}) if is_traced else _UNTRACED:
                    mark = await self._ledger.append(entries, outputs)
            except LedgerFull as error:
                self._refuse(group, error)
            except AppendRefused as error:
                self._refuse_part(group, error)
            except Exception as error:
                self._counts.add(APPENDS_LOST)
                why = error if isinstance(error, OncegateError) else unknown_end("the ledger", error)
                self.write_end(end_of(error), why)
            else:
                self._counts.add(APPENDED)
                self._counts.changes.observe(len(group))
                self._counts.appends.observe_since(began_ms, self._clock)
                self._settle(group, mark)

    def _settle(self, group: list[Change], mark: Mark) -> None:
        """Completes the changes of a durable group and releases the answers that waited for it."""
        self.mark = mark
        self._marks.add(mark)
        self._queue.taken(len(group))
        for change in group:
            change.settle()
        self._waiters.release(mark.position)

    def _refuse(self, group: list[Change], error: LedgerFull) -> None:
        """Undoes all changes that are not durable, since the full ledger wrote none of them, and begins the full
        state."""
        self._counts.add(APPENDS_REFUSED)
        self._undo(group)
        self.room.begin_full(error)
        self._waiters.fail(self.room.refusal)

    def _refuse_part(self, group: list[Change], error: AppendRefused) -> None:
        """Queues a refused group again, to be appended in smaller parts. A refused single change is undone, and its
        submitter gets the refusal."""
        self._counts.add(APPENDS_REFUSED)
        if len(group) > 1:
            self._begun = self.mark.position
            self._queue.refused(group, error)
            return
        self._undo(group)
        culprit = group[0].submitter
        self.undone += culprit is not None
        undone = LedgerFull(f"{error.refusal.detail}; nothing was written, send it again")
        self._waiters.fail(undone, culprit, error.refusal)

    def _undo(self, group: list[Change]) -> None:
        """Undoes a group and all changes queued after it."""
        for change in reversed(group + self._queue.take_all()):
            change.undo()
        self.next_position = self.mark.position + 1
        self._begun = self.mark.position

    def ending(self) -> Ending | None:
        """Returns how the ledger ended, and reports this to waiting callers the first time; None if it has not ended or
        was closed."""
        ending = self.end.ending
        if ending is None or ending.event is Event.STOPPED:
            return None
        if self._in_doubt_to is None:
            self._report(ending)
        return ending

    def write_end(self, event: Event, error: OncegateError) -> None:
        """Records the ledger's end, unless the ledger has ended already, and reports the end to waiting callers at
        once."""
        self.end.write(event, error)
        self.ending()

    def _report(self, ending: Ending) -> None:
        """Fails all waiting callers with the outcomes that `ENDS` defines for the event, and makes `run` return."""
        event, error = ending
        outcome = ENDS[event].effect
        self._in_doubt_to = 0
        if outcome.in_flight is AppendOutcome.UNKNOWN and outcome.waiting is not AppendOutcome.UNKNOWN:
            # The error of an end that was detected beside appends does not show whether the append in flight was
            # written.
            self._in_doubt_to = self._begun
            self._waiters.fail_to(self._begun, LedgerDown(_IN_DOUBT))
        self._waiters.fail(error)
        self._wake.set()
        self.when_ended(ending)

    def close(self, refusal: OncegateError | None = None) -> None:
        """Refuses further changes; `run` returns once all submitted changes are written.

        refusal: the error to raise from now on; None: the gateway is shutting down.
        """
        if self.stopping is None or refusal is not None:
            self.stopping = refusal or LedgerDown("the gateway is shutting down; nothing was written")
        self._wake.set()


def _nothing() -> None:
    return None


def _ignored(_ending: Ending) -> None:
    return None
