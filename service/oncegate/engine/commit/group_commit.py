"""Appends groups of changes to the ledger, one append at a time; answers wait for their entry.

A group is closed when the append before it has returned. `core.lifecycle.ENDS` is the table of how an append can end,
and what its callers and those that wait behind it get. Of a refused change, `ChangeQueue` finds which one it is.

Between two appends there may be other work on the same turn (`BetweenAppends`): the snapshotter's.
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
    """Does work between two appends, a turn at a time. No append is under way when a turn begins."""

    def due_ms(self) -> int | None:
        """Returns after how many ms the next turn is due; 0 or less: now; None: not before `GroupCommit.wake`."""

    async def turn(self) -> None:
        """Does a few milliseconds of work; may call `append_all` or `append_next`. Must not raise."""

    async def stop(self) -> None:
        """Ends the work once no append will follow; returns when nothing of the work is under way any more."""


class GroupCommit:
    """Appends groups of changes to the ledger, and lets answers wait until their entry is durable.

    The only caller of `Ledger.append` once a shard serves; lives on one event loop. `mark`: the last durable position.
    `next_position`: that of the next entry submitted. `between`: the work between appends, none at first. `room`: what
    the ledger has of it. `counts`: takes how appends ended, and how long and large they were. `end`: the ledger's,
    which a failed append writes.
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
        # How often what others had submitted was undone with a change that was refused: it may be decided again.
        self.undone = 0
        # Whether a newer owner is noticed by an append alone.
        self.fenced_by_appends = storage.fenced_by_appends
        self.between: BetweenAppends | None = None
        # Called once with the end, perhaps long before `run` returns: an append may hang.
        self.when_ended: Callable[[Ending], None] = _ignored
        # Why nothing more is taken, though what was taken is written.
        self.stopping: OncegateError | None = None
        # Not the ledger's own: that one runs ahead by what this loop has not yet taken note of.
        self.mark = ledger.mark
        self.next_position = self.mark.position + 1
        # The last position that an append has begun to write.
        self._begun = self.mark.position
        # Up to where it is unknown what is written, once callers have the end of the ledger; None before.
        self._in_doubt_to: int | None = None
        marks.add(self.mark)

    @property
    def open(self) -> bool:
        """Whether something can be written now."""
        return self.stopping is None and not self.room.full and self.ending() is None

    @property
    def queued(self) -> tuple[int, int]:
        """Counts the changes that wait for the next append, and the answers that wait for one to end."""
        return len(self._queue.changes), len(self._waiters)

    def check(self, *, ends: bool = False) -> None:
        """Raises why nothing can be written now, if so: LedgerFull, why the ledger has ended, or why it is closed.

        `ends`: what is to be written ends something, so that the ledger may have room kept for it.
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
        """Queues entries that the index has applied already, at `next_position` and on; returns their last position.

        Neither list may be changed afterwards.
        """
        self._queue.changes.append(Change(entries, outputs, undo, settle, asyncio.current_task()))
        self.next_position += len(entries)
        self._wake.set()
        return self.next_position - 1

    async def durable(self, position: int) -> None:
        """Returns once `position` is durable; raises what became of it otherwise.

        LedgerFull: it was not written. What the ledger refuses of a change: the same, told to its submitter alone.
        LedgerDown: unknown; then nothing is answered any more, whatever it rests on.
        """
        if position <= self.mark.position and (self.end.ending is None or self.ending() is None):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wait(position, waiter, current_span())
        await waiter

    def wait(self, position: int, waiter: "asyncio.Future[None]", span: TraceSpan | None = None) -> None:
        """Lets `waiter` end as `durable` of this position does; `span`: of the request that waits."""
        if self.end.ending is not None and (ending := self.ending()) is not None:
            is_in_doubt = position <= (self._in_doubt_to or 0)
            waiter.set_exception(LedgerDown(_IN_DOUBT) if is_in_doubt else ending.again())
        elif position <= self.mark.position:
            waiter.set_result(None)
        else:
            self._waiters.add(position, waiter, span)

    async def all_durable(self) -> None:
        """Waits for everything submitted so far, as `durable` does: what an answer rests on that denies something."""
        await self.durable(self.next_position - 1)

    @property
    def next_append(self) -> int:
        """Tells the first position that no append has begun to write yet."""
        return self._begun + 1

    async def owned(self, since: int) -> None:
        """Waits for an append that began after `since` was `next_append`, where appends alone tell who the owner is.

        An owner that was followed while it slept learns it so before it tells what it remembers. Raises as `durable`.
        """
        if self.fenced_by_appends and self.mark.position < since:
            await self.durable(self._proof(since))

    def _proof(self, since: int) -> int:
        """Returns the position to wait for: of a probe, where nothing is on its way that would do."""
        if self.next_position > since:
            return since
        return self.probe()

    def probe(self) -> int:
        """Appends an entry without meaning, which finds out whether the ledger takes one; returns its position.

        Raises as `check`.
        """
        self.check()
        return self._submit_probe()

    def _submit_probe(self) -> int:
        return self.submit([encode(Probe(self._clock.wall_ms()))], [], _nothing, _nothing)

    async def run(self) -> None:
        """Appends groups until closed and drained; returns early when the ledger has ended.

        Whatever raises here has the same end: all waiters get an error, and the work between appends is stopped.
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
        """Tries one entry, where the disk says that there is room besides what is kept; then all goes on."""
        self.room.leave_alone()
        if self._queue.changes:  # what ends something is not to be refused with the probe
            await self.append_next()
        if self.ending() is None and self.room.measure():
            position = self._submit_probe()
            await self.append_all()
            if self.mark.position >= position:
                self.room.end_full()

    async def _wait(self, wait_ms: int | None) -> None:
        """Waits until something is submitted, at most so long; None: for as long as it takes."""
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
        """Looks again whether work between appends is due."""
        self._wake.set()

    @property
    def fits_one_group(self) -> bool:
        """Tells whether one append may hold all that waits for one."""
        return self._queue.fits_one_group

    async def append_all(self) -> None:
        """Appends all that waits as one group; for work between appends, where `fits_one_group`."""
        if self._queue.changes:
            await self._append(self._queue.take_all())

    async def append_next(self) -> None:
        """Appends the next group of what waits; where nothing does, lets others have the loop once."""
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
        """Lets everyone go on who waits for what the ledger has taken."""
        self.mark = mark
        self._marks.add(mark)
        self._queue.taken(len(group))
        for change in group:
            change.settle()
        self._waiters.release(mark.position)

    def _refuse(self, group: list[Change], error: LedgerFull) -> None:
        """Takes the index back to what is durable: nothing was written."""
        self._counts.add(APPENDS_REFUSED)
        self._undo(group)
        self.room.begin_full(error)
        self._waiters.fail(self.room.refusal)

    def _refuse_part(self, group: list[Change], error: AppendRefused) -> None:
        """Goes on with fewer of a group at a time; of one change, undoes it and says why to its submitter."""
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
        """Undoes a group and all that waits behind it, newest change first."""
        for change in reversed(group + self._queue.take_all()):
            change.undo()
        self.next_position = self.mark.position + 1
        self._begun = self.mark.position

    def ending(self) -> Ending | None:
        """Returns how the ledger has ended, and lets callers have it that wait; None: it goes on, or was closed."""
        ending = self.end.ending
        if ending is None or ending.event is Event.STOPPED:
            return None
        if self._in_doubt_to is None:
            self._report(ending)
        return ending

    def write_end(self, event: Event, error: OncegateError) -> None:
        """Ends the ledger, if it has not ended, and lets callers have its end at once."""
        self.end.write(event, error)
        self.ending()

    def _report(self, ending: Ending) -> None:
        """Lets all callers have what `ENDS` has for the event, and `run` return."""
        event, error = ending
        outcome = ENDS[event].effect
        self._in_doubt_to = 0
        if outcome.in_flight is AppendOutcome.UNKNOWN and outcome.waiting is not AppendOutcome.UNKNOWN:
            # The error of an end beside appends does not say that the append under way may be written.
            self._in_doubt_to = self._begun
            self._waiters.fail_to(self._begun, LedgerDown(_IN_DOUBT))
        self._waiters.fail(error)
        self._wake.set()
        self.when_ended(ending)

    def close(self, refusal: OncegateError | None = None) -> None:
        """Takes nothing more; `run` returns when all that was submitted is written. `refusal`: what is raised instead
        of that the gateway is shutting down."""
        if self.stopping is None or refusal is not None:
            self.stopping = refusal or LedgerDown("the gateway is shutting down; nothing was written")
        self._wake.set()


def _nothing() -> None:
    return None


def _ignored(_ending: Ending) -> None:
    return None
