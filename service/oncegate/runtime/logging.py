"""structlog, set up once by the program: text for people, JSON for machines, to stderr."""

import logging
import sys
from typing import Literal, TextIO

import structlog

Format = Literal["text", "json"]


def open_log(form: Format, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """A logger that writes one line per event; nothing global is configured.

    `stream` None: stderr. Text is coloured on a terminal only.
    """
    target = sys.stderr if stream is None else stream
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=target.isatty(), pad_event_to=0, sort_keys=False)
    )
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(target),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.dict_tracebacks] if form == "json" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    return log
