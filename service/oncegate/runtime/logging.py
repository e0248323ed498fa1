"""Logs events with structlog to stderr, one line each: text for people, JSON for machines.

Each event has a name and fields. A `message` is the same fact as a sentence: a line of text shows it in place of the
name and the fields, a line of JSON has all three.
"""

import contextlib
import logging
import os
import socket
import sys
from typing import Literal, TextIO, cast

import structlog

import oncegate
from oncegate.ports.tracing import current_span

LogFormat = Literal["text", "json"]
# Without what variables held: keys, ids and rows are among them, and a log is read by more people than those.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


class Lossy:
    """Writes to a stream and drops text that cannot be written, so that a full log disk prevents no start or
    shutdown.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes the text; drops it on an error."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flushes the stream; ignores errors."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def _message_only(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replaces an event's name and fields with its message, if it has one."""
    if "message" not in event:
        return event
    kept = {key: event[key] for key in ("timestamp", "level", "exc_info") if key in event}
    return {"event": event["message"], **kept}


def instance() -> str:
    """Returns this process's name in log lines: HOST/PID (in a container, the pod's name and 1)."""
    return f"{socket.gethostname()}/{os.getpid()}"


def open_log(form: LogFormat, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """Returns a logger that writes one line per event, with a traceback for bugs; configures nothing globally.

    A line that cannot be written is lost. Each line of JSON has `instance` and `version`.

    Args:
        stream: None: stderr. Text is coloured on a terminal only.
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
            _TRACEBACKS if form == "json" else _message_only,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    return log.bind(instance=instance(), version=oncegate.__version__) if form == "json" else log


# Every other event has level info.
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
    "attempt_refused": "warning",
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
    """Implements `ports.Observer` with structlog. Never raises: a line that cannot be written is lost, the request is
    not.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log

    def event(self, name: str, /, **fields: object) -> None:
        """Logs an event with its fields, at the level of its name, with the ids of the current trace if it is recorded;
        never raises.
        """
        with contextlib.suppress(Exception):
            shown = {key: _shown(value) for key, value in fields.items()}
            if (span := current_span()) is not None:
                trace_id, span_id = span.ids
                shown = {"trace_id": trace_id, "span_id": span_id} | shown
            error = next((value for value in fields.values() if isinstance(value, BaseException)), None)
            write = getattr(self._log, LEVELS.get(name, "info"))
            write(name, **shown, **({} if error is None else {"exc_info": error}))


class LibraryLog(logging.Handler):
    """Logs the `logging` records of libraries as events named `library`, so that all lines have the same format.

    aiokafka's are left out: it logs each failed attempt, and the ledger raises or logs what matters.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Implements `logging.Handler`; never raises."""
        if record.name.startswith("aiokafka"):
            return
        with contextlib.suppress(Exception):
            fields = {} if record.exc_info is None else {"exc_info": record.exc_info}
            write = self._log.error if record.levelno >= logging.ERROR else self._log.warning
            write("library", message=record.getMessage(), logger=record.name, **fields)


def _shown(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return repr(value) if isinstance(value, BaseException) else value
