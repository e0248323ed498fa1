"""Says what log lines and callers are told of an error that ends something."""

import re

from oncegate.core.errors import LedgerDown, OncegateError

# An answer to a probe is read in a terminal, or in what Kubernetes keeps of it.
REASON_CHARS = 400
_PASSWORDS = re.compile(r"[^\s/@:]+:[^\s/@]*(?=@)|(?<=password=)[^&\s]+")


def error_fields(error: BaseException) -> dict[str, object]:
    """Returns fields of an event: `error`, as text; `cause`, an error of our own that is behind it, if one is."""
    expected = isinstance(error, OncegateError | OSError)
    bug = error.__cause__ if expected else error
    cause = {} if bug is None or isinstance(bug, OncegateError | OSError) else {"cause": bug}
    return {"error": (expected and str(error)) or repr(error), **cause}


def reason_of(error: BaseException) -> str:
    """Returns in one line what whoever asks a probe is told of an error: its code and its text, without passwords.

    Of a bug nothing: its text may be what somebody has sent, and the log has it.
    """
    if not isinstance(error, OncegateError | OSError):
        return "an error that nobody expected: the log tells it"
    text = _PASSWORDS.sub("***", " ".join(str(error).split()) or repr(error))
    text = text if len(text) <= REASON_CHARS else f"{text[: REASON_CHARS - 1]}…"
    return f"{error.code}: {text}" if isinstance(error, OncegateError) else text


def without_frames(error: Exception) -> Exception:
    """Returns an error that is to be kept, and takes the frames from it and its causes: they keep all that they use."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def unknown_end(work: str, error: BaseException) -> LedgerDown:
    """Returns what whoever waits is told when `work` raised what nobody expected: nothing is known of its effect."""
    down = LedgerDown(f"{work} failed ({error!r}); whether this was written is unknown")
    down.__cause__ = error
    return down


def again(error: OncegateError) -> OncegateError:
    """Copies an error for one more caller: each has a traceback of its own."""
    return type(error)(error.detail, **error.extra)
