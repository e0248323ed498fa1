"""Converts an error into fields of log events, reasons for probes, and errors for callers."""

import re

from oncegate.core.errors import LedgerDown, OncegateError

# Answers to probes are read in a terminal, or in the part of them that Kubernetes keeps.
REASON_CHARS = 400
_PASSWORDS = re.compile(r"[^\s/@:]+:[^\s/@]*(?=@)|(?<=password=)[^&\s]+")


def error_fields(error: BaseException) -> dict[str, object]:
    """Returns the log fields for an error: `error`, its text, and `cause`, the underlying unexpected exception, if
    any."""
    expected = isinstance(error, OncegateError | OSError)
    bug = error.__cause__ if expected else error
    cause = {} if bug is None or isinstance(bug, OncegateError | OSError) else {"cause": bug}
    return {"error": (expected and str(error)) or repr(error), **cause}


def reason_of(error: BaseException) -> str:
    """Returns an error's code and text for a probe's answer, in one line and without passwords.

    The text of a bug is left out, as it may quote a request; the log has it.
    """
    if not isinstance(error, OncegateError | OSError):
        return "an error that nobody expected: the log tells it"
    text = _PASSWORDS.sub("***", " ".join(str(error).split()) or repr(error))
    text = text if len(text) <= REASON_CHARS else f"{text[: REASON_CHARS - 1]}…"
    return f"{error.code}: {text}" if isinstance(error, OncegateError) else text


def without_frames(error: Exception) -> Exception:
    """Removes the frames from an error and its causes, and returns it: frames keep all their variables in memory."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def unknown_end(work: str, error: BaseException) -> LedgerDown:
    """Returns the error for waiting callers after `work` raised an unexpected error: its effect is unknown."""
    down = LedgerDown(f"{work} failed ({error!r}); whether this was written is unknown")
    down.__cause__ = error
    return down


def again(error: OncegateError) -> OncegateError:
    """Copies an error for each further caller, because every caller needs a separate traceback."""
    return type(error)(error.detail, **error.extra)
