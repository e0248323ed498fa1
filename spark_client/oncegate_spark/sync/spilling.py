# Generated from oncegate_spark/aio/spilling.py by scripts/unasync.py; do not edit.
"""Spills rows to this machine's disk while the gateway is down, and produces them once it is back."""

import logging

from oncegate_spark.errors import OncegateError, Outcome, SpillFull, Unavailable
from oncegate_spark.protocol.answers import Drained, Written
from oncegate_spark.protocol.calls.attempt import AttemptCalls, produce_spilled
from oncegate_spark.protocol.calls.steps import Steps
from oncegate_spark.spill import Spill, SpillEntry
from oncegate_spark.spill.entry import check_namespace, check_none_stale, stopped
from oncegate_spark.sync.runner import Runner

RETRY_MS = 5_000  # between attempts to send spilled rows, so that a hanging gateway costs each call only seconds

log = logging.getLogger("oncegate_spark")


class Spilling:
    """Uses a spill folder for one gateway's calls. While entries wait there, later rows are appended to it, to keep the
    order.
    """

    def __init__(self, gateway: Runner, spill: Spill, namespace: str) -> None:
        self._gateway, self._spill, self._namespace = gateway, spill, namespace
        self._retry_ms = 0

    def produce(self, steps: Steps[Written], entry: SpillEntry) -> Written:
        """Produces rows, or spills them if the gateway is down. Raises SpillFull."""
        failed: Unavailable | None = None
        if not self._spill.waiting:
            try:
                return self._gateway.run(steps)
            except Unavailable as error:
                failed = error
        number = self._laid_down(entry, failed)
        return self._sent(number) or Written(spilled=entry.rows.num_rows)

    def drain(self) -> Drained:
        """Sends all entries, oldest first. Raises the error that stops it; its entry and the later ones are kept."""
        total = Drained()
        with self._spill.turn() as mine:
            while mine:
                sent = self._send_oldest()
                if sent is None:
                    break
                total.count(sent[1])
        return total

    def _laid_down(self, entry: SpillEntry, failed: Unavailable | None) -> int:
        try:
            number = self._spill.append(entry)
        except SpillFull as full:
            if failed is None or failed.outcome is Outcome.NOT_WRITTEN:
                raise
            raise SpillFull(f"{full}; before that: {failed}", outcome=failed.outcome) from failed
        if failed is not None:
            self._retry_ms = self._gateway.clock.monotonic_ms() + RETRY_MS
        return number

    def _sent(self, number: int) -> Written | None:
        """Sends entries up to the given one, for at most a call's timeout.

        Returns that entry's result; None if the entry still waits.
        """
        now_ms = self._gateway.clock.monotonic_ms
        ends_ms = now_ms() + self._gateway.calls.tries.timeout_ms
        with self._spill.turn() as mine:
            while mine and self._retry_ms <= now_ms() < ends_ms:
                try:
                    sent = self._send_oldest()
                except OncegateError:
                    self._retry_ms = now_ms() + RETRY_MS
                    return None
                if sent is None or sent[0] == number:
                    return sent and sent[1]
        return None

    def _send_oldest(self) -> tuple[int, Written] | None:
        """Sends the oldest entry; returns its number and result, or None if there is none. Logs the error that stops
        it.
        """
        try:
            oldest = self._spill.oldest()
            return None if oldest is None else (oldest[0], self._send(*oldest))
        except OncegateError as error:
            if not isinstance(error, Unavailable):
                log.error("%s", error)
            raise

    def _send(self, number: int, entry: SpillEntry) -> Written:
        try:
            return self._done(number, entry)
        except Unavailable:
            raise
        except OncegateError as error:
            raise stopped(error, self._spill.folder, number) from error

    def _done(self, number: int, entry: SpillEntry) -> Written:
        """Produces one entry under its own token, and removes it once all its rows are done.

        The request carries the time of the spill: the gateway counts such rows, and operators see them.
        """
        check_namespace(entry, self._namespace)
        attempt = AttemptCalls(self._gateway.calls, id_set=entry.id_set, spilled_ms=entry.spilled_ms)
        columns = entry.id_col, entry.key_col, entry.digest_cols
        steps = produce_spilled(attempt, entry.topic, entry.rows, *columns, entry.on_conflict)
        written = self._gateway.run(steps)
        check_none_stale(entry, written.stale)
        self._spill.done(number)
        return written
