"""Lets claims of one namespace pass unchecked while its ledger is down, and notes that once it is there again."""

import asyncio
from collections.abc import Callable

from oncegate.core.errors import OncegateError
from oncegate.engine.deadline import Deadline
from oncegate.engine.policies.unchecked import ACTION, Tally, Unchecked, may_pass
from oncegate.engine.shard import Shard
from oncegate.ports import Clock, Observer


class Passing:
    """What is passed between two ownerships of a ledger, as the settings were that it had last.

    Of the shard that is lost it keeps no index. is_over: whether nobody may be passed at this moment.
    """

    def __init__(self, namespace: str, clock: Clock, observer: Observer, is_over: Callable[[], bool]) -> None:
        self._namespace, self._clock, self._observer, self._is_over = namespace, clock, observer, is_over
        self._unchecked: Unchecked | None = None
        self._tally = Tally()
        self._noting: asyncio.Task[None] | None = None

    @property
    def unchecked(self) -> Unchecked | None:
        """Returns what answers claims now; None: they are refused."""
        return None if self._is_over() else self._unchecked

    def begin(self, shard: Shard) -> None:
        """The ledger of this shard is down: claims pass from now on, if the ledger has it that they may."""
        journal = shard.journal
        if not may_pass(shard.settings, journal.index.settings_position <= shard.mark.position):
            return
        self._unchecked = Unchecked(
            rates=shard.rates,
            payloads=shard.payloads,
            mark=shard.mark,
            id_sets=shard.id_sets,
            read_time=shard.settings.read_time,
            marks=shard.marks,
            limits=journal.limits,
            clock=journal.clock,
            counts=journal.counts,
            tally=self._tally,
            is_over=self._is_over,
        )
        self._observer.event("passing_unchecked", namespace=self._namespace)

    def end(self, shard: Shard) -> None:
        """Another shard serves, and decides."""
        self._unchecked = None
        self.note(shard)

    def note(self, shard: Shard) -> None:
        """Begins to note what was passed, if any was; also again what was refused before."""
        tally = self._tally
        if tally.ids and (self._noting is None or self._noting.done()):
            self._tally = Tally()
            self._noting = asyncio.create_task(self._note(shard, tally), name="note of what was passed unchecked")

    async def _note(self, shard: Shard, tally: Tally) -> None:
        deadline = Deadline(self._clock, None)
        try:
            await shard.operations.actions.note(ACTION, tally.subject, tally.ids, tally.note, deadline)
        except OncegateError:
            self._tally.add(tally)

    async def close(self) -> None:
        """Waits for the note that is under way, and tells what the ledger will never know."""
        if self._noting is not None:
            await asyncio.gather(self._noting, return_exceptions=True)
        tally = self._tally
        if tally.ids:
            self._observer.event(
                "unchecked_not_noted", namespace=self._namespace, subject=tally.subject, count=tally.ids
            )
