"""How a verb says no: one line to stderr, exit status 1."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from oncegate.core.errors import OncegateError
from oncegate.settings import SettingsError


@contextmanager
def refusing() -> Iterator[None]:
    """Turns expected errors into one line on stderr and status 1; a bug keeps its traceback."""
    try:
        yield
    except OncegateError as error:
        _refuse(error.detail)
    except SettingsError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename or 'the system'}: {error.strerror or error}")


def _refuse(reason: str) -> None:
    sys.stderr.write(f"oncegate: {reason}\n")
    raise typer.Exit(1)
