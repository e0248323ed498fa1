"""Logs events with structlog to stderr, one line each: text for people, JSON for machines."""

import contextlib
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

from oncegate.ports.tracing import current_span

LogFormat = Literal["text", "json"]
# Without what variables held: keys, ids and rows are among them, and a log is read by more people than those.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


class Lossy:
    """Writes to a stream, and loses what it cannot take: a full disk below the log ends no start and no shutdown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes the text, or loses it."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flushes the stream, if it can be."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def open_log(form: LogFormat, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """A logger that writes one line per event, or loses it, and a traceback of a bug; nothing global is configured.

    `stream` None: stderr. Text is coloured on a terminal only.
    """
    target = sys.stderr if stream is None else stream
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=target.isatty(),
            pad_event_to=0,
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(cast(TextIO, Lossy(target))),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([_TRACEBACKS] if form == "json" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    return log


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
