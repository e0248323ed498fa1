"""Events as log lines, one each."""

import contextlib

import structlog

from oncegate.ports.tracing import current_span

# Everything else is told at level info.
LEVELS = {
    "request_failed": "error",
    "ledger_behind": "error",
    "owner_failed": "error",
    "ledger_lost": "warning",
    "ledger_full": "warning",
    "ledger_away": "warning",
    "recovering_long": "error",
    "maintenance_failed": "error",
    "policies": "warning",
    "passing_unchecked": "error",
    "unchecked_so_far": "warning",
    "unchecked_not_noted": "error",
    "unchecked_note_failed": "warning",
    "compaction_failed": "warning",
    "eviction_failed": "warning",
    "mark_of_predecessor": "warning",
    "replay_differs": "warning",
    "stopped": "warning",
    "plain_write": "warning",
    "connections_cut": "warning",
    "readers_cut": "warning",
    "keys_unreadable": "error",
    "issuer_keys_unreadable": "error",
    "certificates_unreadable": "error",
    "traces_not_sent": "warning",
    "duplicates_not_told": "warning",
}


class LogObserver:
    """`ports.Observer` over structlog. Never raises: a line that cannot be written is lost, the request is not."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log

    def event(self, name: str, /, **fields: object) -> None:
        """Logs an event with its fields, at the level that its name has, and with the ids of the trace that it happened
        in, if that is recorded; never raises."""
        with contextlib.suppress(Exception):
            shown = {key: _shown(value) for key, value in fields.items()}
            if (span := current_span()) is not None:
                trace_id, span_id = span.ids
                shown = {"trace_id": trace_id, "span_id": span_id} | shown
            error = next((value for value in fields.values() if isinstance(value, BaseException)), None)
            write = getattr(self._log, LEVELS.get(name, "info"))
            write(name, **shown, **({} if error is None else {"exc_info": error}))


def _shown(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return repr(value) if isinstance(value, BaseException) else value
