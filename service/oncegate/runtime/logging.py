"""structlog, set up once by the program: text for people, JSON for machines, to stderr."""

import contextlib
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

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
