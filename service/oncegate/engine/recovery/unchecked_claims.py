"""Lets claims of one namespace pass unchecked while its ledger is down, and notes that once it is there again."""

import asyncio
from collections.abc import Callable

from oncegate.engine.deadline import Deadline
from oncegate.engine.failures import error_fields
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import ACTION, Tally, Unchecked, may_pass
from oncegate.ports import Clock, Observer

# What a gateway that dies has not said of its count; an outage of an hour is sixty lines.
TOLD_MS = 60_000


class UncheckedClaims:
    """Passes claims between two ownerships of a ledger, by the settings that the namespace had last.

    It keeps no index of the shard that is lost. is_over: tells whether no claim may pass at this moment.
    """

    def __init__(self, namespace: str, clock: Clock, observer: Observer, is_over: Callable[[], bool]) -> None:
        self._namespace, self._clock, self._observer, self._is_over = namespace, clock, observer, is_over
        # What answers claims, and what will once the ledger is known to be down.
        self._unchecked: Unchecked | None = None
        self._prepared: Unchecked | None = None
        self._tally = Tally()
        self._noting: asyncio.Task[None] | None = None
        self._told = ""
        # How many ids of the tally the log has, and when it may have more of them.
        self._told_ids = self._told_again_ms = 0

    @property
    def unchecked(self) -> Unchecked | None:
        """Returns what answers claims now; None: they are refused."""
        return None if self._is_over() else self._unchecked

    def prepare(self, namespace: Namespace) -> None:
        """Copies the necessary parts of a namespace that is lost, if its settings let claims pass; see `begin`."""
        journal = namespace.home.journal
        if not may_pass(namespace.settings, journal.index.settings.position <= namespace.mark.position):
            return
        # A request may still ask this one when another outage has begun, under another setting.
        made = Unchecked(
            rates=namespace.rates,
            backlog=namespace.backlog,
            payloads=namespace.payloads,
            mark=namespace.mark,
            id_sets=namespace.id_sets,
            read_time=namespace.settings.read_time,
            marks=namespace.home.marks,
            limits=journal.limits,
            clock=journal.clock,
            counts=journal.counts,
            tally=self._tally,
            is_over=lambda: self._is_over() or self._unchecked is not made,
            in_shadow=namespace.settings.shadow,
        )
        self._prepared = made

    def begin(self) -> None:
        """Lets claims pass from now on, if they may: the ledger is known to be down."""
        if self._prepared is not None:
            self._unchecked, self._prepared = self._prepared, None
            self._told_again_ms = 0
            self._observer.event("passing_unchecked", namespace=self._namespace)

    def stop(self) -> None:
        """Lets none pass before this gateway has served again: another one owns the ledger, and may change settings."""
        self._unchecked = self._prepared = None

    def end(self, namespace: Namespace) -> None:
        """Lets none pass any more, and notes what has passed: another shard serves, and decides."""
        self.stop()
        self.note(namespace)

    def tell(self, now_ms: int) -> None:
        """Logs how much was passed that no ledger has yet, at once and then each `TOLD_MS` while it grows: a gateway
        that dies before the ledger is back has no other word of it."""
        tally = self._tally
        if tally.ids != self._told_ids and now_ms >= self._told_again_ms:
            self._told_ids, self._told_again_ms = tally.ids, now_ms + TOLD_MS
            self._observer.event("unchecked_so_far", namespace=self._namespace, subject=tally.subject, count=tally.ids)

    def note(self, namespace: Namespace) -> None:
        """Begins to note what was passed, if any was; also again what was refused before."""
        tally = self._tally
        if tally.ids and (self._noting is None or self._noting.done()):
            self._tally, self._told_ids = Tally(), 0
            self._noting = asyncio.create_task(self._note(namespace, tally), name="note of what was passed unchecked")

    async def _note(self, namespace: Namespace, tally: Tally) -> None:
        try:
            note, deadline = tally.note(namespace.home.journal.limits.name_bytes), Deadline(self._clock, None)
            await namespace.operations.actions.note(ACTION, tally.subject, tally.ids, note, deadline)
            self._told = ""
        except Exception as error:
            self._tally.add(tally)
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Logs why what was passed is not noted yet, once for each reason: it is tried again every half second."""
        if self._told != repr(error):
            self._told = repr(error)
            self._observer.event("unchecked_note_failed", namespace=self._namespace, **error_fields(error))

    async def close(self) -> None:
        """Waits for the note that is under way, and tells what the ledger will never know."""
        if self._noting is not None:
            await asyncio.gather(self._noting, return_exceptions=True)
        tally = self._tally
        if tally.ids:
            self._observer.event(
                "unchecked_not_noted", namespace=self._namespace, subject=tally.subject, count=tally.ids
            )
