"""Says what log lines and callers are told of an error that ends something."""

from oncegate.core.errors import LedgerDown, OncegateError


def error_fields(error: BaseException) -> dict[str, object]:
    """Returns fields of an event: `error`, as text; `cause`, an error of our own that is behind it, if one is."""
    expected = isinstance(error, OncegateError | OSError)
    bug = error.__cause__ if expected else error
    cause = {} if bug is None or isinstance(bug, OncegateError | OSError) else {"cause": bug}
    return {"error": (expected and str(error)) or repr(error), **cause}


def unknown_end(work: str, error: BaseException) -> LedgerDown:
    """Returns what whoever waits is told when `work` raised what nobody expected: nothing is known of its effect."""
    down = LedgerDown(f"{work} failed ({error!r}); whether this was written is unknown")
    down.__cause__ = error
    return down


def again(error: OncegateError) -> OncegateError:
    """Copies an error for one more caller: each has a traceback of its own."""
    return type(error)(error.detail, **error.extra)
