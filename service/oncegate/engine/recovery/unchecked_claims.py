"""Passes claims of a namespace unchecked while its ledger is down, and notes them in the ledger afterwards."""

import asyncio
from collections.abc import Callable

from oncegate.engine.deadline import Deadline
from oncegate.engine.failures import error_fields
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import ACTION, Tally, Unchecked, may_pass
from oncegate.ports import Clock, Observer

# Logging interval of the running total: a crash loses at most this much, and an hour's outage costs sixty lines.
TOLD_MS = 60_000


class UncheckedClaims:
    """Passes claims unchecked between two ownerships of a ledger, according to the namespace's last settings.

    Does not keep the index of the lost shard alive. is_over: returns whether claims may not pass now.
    """

    def __init__(self, namespace: str, clock: Clock, observer: Observer, is_over: Callable[[], bool]) -> None:
        self._namespace, self._clock, self._observer, self._is_over = namespace, clock, observer, is_over
        # The current handler of claims, and the one to use once the ledger is known to be down.
        self._unchecked: Unchecked | None = None
        self._prepared: Unchecked | None = None
        self._tally = Tally()
        self._noting: asyncio.Task[None] | None = None
        self._told = ""
        # Number of logged ids of the tally, and the earliest time of the next log line.
        self._told_ids = self._told_again_ms = 0

    @property
    def unchecked(self) -> Unchecked | None:
        """Returns the current handler of claims; None if claims are refused."""
        return None if self._is_over() else self._unchecked

    def prepare(self, namespace: Namespace) -> None:
        """Copies the parts of a lost namespace that `begin` needs, if the namespace's settings let claims pass."""
        journal = namespace.home.journal
        if not may_pass(namespace.settings, journal.index.settings.position <= namespace.mark.position):
            return
        # A request may still use this handler during the next outage, under other settings: hence its own `is_over`.
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
        """Starts to pass claims if `prepare` allowed it: the ledger is known to be down."""
        if self._prepared is not None:
            self._unchecked, self._prepared = self._prepared, None
            self._told_again_ms = 0
            self._observer.event("passing_unchecked", namespace=self._namespace)

    def stop(self) -> None:
        """Refuses claims until this gateway has served again, because a different owner may change the settings
        meanwhile."""
        self._unchecked = self._prepared = None

    def end(self, namespace: Namespace) -> None:
        """Stops passing claims, because a shard serves again, and notes the claims that passed."""
        self.stop()
        self.note(namespace)

    def tell(self, now_ms: int) -> None:
        """Logs the running total of ids that passed: at once, and then every `TOLD_MS` while it grows.

        If the gateway dies before the ledger is available again, this is the only record.
        """
        tally = self._tally
        if tally.ids != self._told_ids and now_ms >= self._told_again_ms:
            self._told_ids, self._told_again_ms = tally.ids, now_ms + TOLD_MS
            self._observer.event("unchecked_so_far", namespace=self._namespace, subject=tally.subject, count=tally.ids)

    def note(self, namespace: Namespace) -> None:
        """Starts to note the ids that passed, if any, including the ids of notes that failed."""
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
        """Logs why a note failed, once per reason: it is retried every half second."""
        if self._told != repr(error):
            self._told = repr(error)
            self._observer.event("unchecked_note_failed", namespace=self._namespace, **error_fields(error))

    async def close(self) -> None:
        """Waits for the current note; logs the number of unchecked ids that the ledger will never record."""
        if self._noting is not None:
            await asyncio.gather(self._noting, return_exceptions=True)
        tally = self._tally
        if tally.ids:
            self._observer.event(
                "unchecked_not_noted", namespace=self._namespace, subject=tally.subject, count=tally.ids
            )
