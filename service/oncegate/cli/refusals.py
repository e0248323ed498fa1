"""How a verb says no: one line to stderr, exit status 1."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import typer

from oncegate.core.errors import OncegateError, SettingsError

if TYPE_CHECKING:
    from oncegate.ledgers.log.data_dir import Refused

T = TypeVar("T")


@contextmanager
def refusing() -> Iterator[None]:
    """Turns expected errors into one line on stderr and status 1; a bug keeps its traceback.

    An output that nobody reads any more ends it without a word, with a shell's status for that.
    """
    try:
        yield
    except OncegateError as error:
        _refuse(error.detail)
    except SettingsError as error:
        _refuse(str(error))
    except BrokenPipeError as error:
        # Whoever reads it has seen enough, as `head` has; at its end the interpreter would flush, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from error
    except OSError as error:
        _refuse(f"{error.filename or 'the system'}: {error.strerror or error}")


def going_past(
    results: "Iterable[T | Refused]", shown: Callable[[T], tuple[str, dict[str, object]]], as_json: bool
) -> None:
    """Writes a line for each ledger, of those that were refused to stderr; then raises Exit with status 1.

    `shown`: the line of one that was not refused, and its members for `as_json`.
    """
    # Ledgers take a quarter of a second to import.
    from oncegate.ledgers.log.data_dir import Refused

    is_whole = True
    for result in results:
        if isinstance(result, Refused):
            is_whole = False
            sys.stderr.write(f"oncegate: namespace {result.namespace}: {result.error.detail}\n")
            line = ""
            fields = {
                "ok": False,
                "namespace": result.namespace,
                "code": result.error.code,
                "detail": result.error.detail,
            }
        else:
            line, fields = shown(result)
        if as_json or line:
            sys.stdout.write((msgspec.json.encode(fields).decode() if as_json else line) + "\n")
        sys.stdout.flush()
    if not is_whole:
        raise typer.Exit(1)


# What the verbs of a data folder's copies say of a ledger elsewhere.
_COPIES = {
    "backup": "its servers' own replicas and copies stand for a backup",
    "restore": "a copy of it is put back into its servers",
    "verify": "the gateway verifies it whenever it opens it",
}


def refuse_urls(context: typer.Context, folder: Path | None) -> Path | None:
    """Returns a data folder as it was given; refuses the URL of a ledger, which would become a folder of that name."""
    scheme, colon, _ = str(folder).partition(":")
    if folder is None or not colon:
        return folder
    from oncegate.ledgers import SCHEMES
    from oncegate.ledgers.url_options import without_passwords

    if scheme in SCHEMES:
        instead = _COPIES.get(context.info_name or "", "`oncegate serve --ledger` takes those")
        _refuse(f"--data takes a folder, and {without_passwords(str(folder))} is the URL of a ledger; {instead}")
    return folder


def _refuse(reason: str) -> None:
    sys.stderr.write(f"oncegate: {reason}\n")
    raise typer.Exit(1)
