"""Reports the failure of a verb: one line on stderr, exit status 1."""

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
    """Prints expected errors as one line on stderr and exits with status 1; unexpected errors keep their traceback.

    A closed output pipe ends the verb silently, with the status of a process killed by SIGPIPE.
    """
    try:
        yield
    except OncegateError as error:
        _refuse(error.detail)
    except SettingsError as error:
        _refuse(str(error))
    except BrokenPipeError as error:
        # The reader has closed the pipe, as `head` does.
        raise typer.Exit(128 + signal.SIGPIPE) from error
    except OSError as error:
        _refuse(f"{error.filename or 'the system'}: {error.strerror or error}")


def going_past(
    results: "Iterable[T | Refused]", shown: Callable[[T], tuple[str, dict[str, object]]], as_json: bool
) -> None:
    """Prints a line for each ledger; refused ledgers go to stderr. Raises Exit with status 1 if there were any.

    `shown`: returns the line of an accepted ledger, and its members for `as_json`.
    """
    # Imported here: the import of ledgers takes a quarter of a second.
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


# Hints of the verbs that copy or verify a data folder, for the URL of a ledger on servers.
_COPIES = {
    "backup": "its servers' own replicas and copies stand for a backup",
    "restore": "a copy of it is put back into its servers",
    "verify": "the gateway verifies it whenever it opens it",
}


def refuse_urls(context: typer.Context, folder: Path | None) -> Path | None:
    """Returns the data folder. Refuses the URL of a ledger, which would create a folder of that name."""
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
