# Generated from oncegate_spark/aio/spilling.py by scripts/unasync.py; do not edit.
"""Rows that wait on this machine's disk while the gateway is down, and go through `produce` once it is back."""

import logging

from oncegate_spark.errors import OncegateError, Outcome, SpillFull, Unavailable
from oncegate_spark.protocol.answers import Drained, Written
from oncegate_spark.protocol.calls.attempt import AttemptCalls, produce_spilled
from oncegate_spark.protocol.calls.steps import Steps
from oncegate_spark.spill import Spill, SpillEntry
from oncegate_spark.spill.entry import check_namespace, check_none_stale, stopped
from oncegate_spark.sync.runner import Runner

RETRY_MS = 5_000  # between tries of what waits: a gateway that hangs costs a call seconds, and no more calls than this

log = logging.getLogger("oncegate_spark")


class Spilling:
    """What one gateway's calls do with a spill folder. Order: while anything waits there, rows go behind it."""

    def __init__(self, gateway: Runner, spill: Spill, namespace: str) -> None:
        self._gateway, self._spill, self._namespace = gateway, spill, namespace
        self._retry_ms = 0

    def produce(self, steps: Steps[Written], entry: SpillEntry) -> Written:
        """Take the steps of a produce of these rows; where the gateway is down, lay the rows down. Raises SpillFull."""
        failed: Unavailable | None = None
        if not self._spill.waiting:
            try:
                return self._gateway.run(steps)
            except Unavailable as error:
                failed = error
        number = self._laid_down(entry, failed)
        return self._sent(number) or Written(spilled=entry.rows.num_rows)

    def drain(self) -> Drained:
        """Send all that waits, the oldest first. Raises what stops it, which leaves that entry and those behind it."""
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
        """Send what waits, up to this entry and for a call's time; what became of it, None while it still waits."""
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
        """Send the next entry; its number and what became of it, None where nothing waits. Logs what stops it."""
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
        """Send one entry by the normal path, under a token of its own, and remove it when all its rows are done.

        The gateway is told since when it has waited: it counts the rows that it writes now, and tells operators.
        """
        check_namespace(entry, self._namespace)
        attempt = AttemptCalls(self._gateway.calls, id_set=entry.id_set, spilled_ms=entry.spilled_ms)
        columns = entry.id_col, entry.key_col, entry.digest_cols
        steps = produce_spilled(attempt, entry.topic, entry.rows, *columns, entry.on_conflict)
        written = self._gateway.run(steps)
        check_none_stale(entry, written.stale)
        self._spill.done(number)
        return written
