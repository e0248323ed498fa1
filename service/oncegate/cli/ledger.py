"""Defines `oncegate init`, `oncegate ledger dump` and `oncegate ledger accept`, which work on a data folder."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oncegate.cli.options import AsJsonOption, DataOption, NamespaceOption, OneNamespaceOption, WitnessOption
from oncegate.cli.refusals import going_past, refusing
from oncegate.core.errors import LedgerDamaged

if TYPE_CHECKING:
    from oncegate.ledgers.log.admin.dump import Item

app = typer.Typer(
    help="Inspect an embedded ledger, or accept a shortened one.", no_args_is_help=True, add_completion=False
)

# Maximum length of a value in a table; --json shows the whole value.
SHOWN_CHARS = 32


def init(data: DataOption = Path("data"), witness: WitnessOption = None) -> None:
    """Make a new, empty ledger. Refused if the folder or its witness (rollback check) already has one."""
    from oncegate.ledgers import log

    with refusing():
        log.init(str(data), witness)
        sys.stdout.write(f"data folder {data}: NEW, EMPTY; namespace default\n")


@app.command("accept")
def accept(
    data: DataOption = Path("data"), witness: WitnessOption = None, namespace: OneNamespaceOption = None
) -> None:
    """Accept a ledger that is shorter than its witness (rollback check) recorded. The lost entries are forgotten.

    Without --namespace all ledgers are accepted, each under a new id. A damaged one is left as it is and named. Status
    1: one is damaged.
    """
    from oncegate.ledgers import log

    with refusing():
        going_past(log.accept(str(data), witness, namespace), lambda line: (line, {}), as_json=False)


@app.command("dump")
def dump(
    data: DataOption = Path("data"),
    namespace: NamespaceOption = "default",
    witness: WitnessOption = None,
    as_json: AsJsonOption = False,
) -> None:
    """Show the whole content of a ledger, verified. Takes no lock: the gateway may be running.

    Ends with status 1 if something is damaged. Example: oncegate ledger dump --json
    """
    from oncegate.ledgers import log

    with refusing():
        items = _checked(log.dump(str(data), namespace, witness))
        if as_json:
            for item in items:
                line = {"position": item.position, "kind": item.kind, **{k: _plain(v) for k, v in item.fields.items()}}
                sys.stdout.write(msgspec.json.encode(line, enc_hook=str).decode() + "\n")
        else:
            _show(namespace, items)


def _checked(items: "Iterable[Item]") -> "Iterable[Item]":
    """Yields the items of a ledger. Raises LedgerDamaged after the last one if that is damage."""
    for item in items:
        yield item
        if item.kind == "DAMAGED":
            raise LedgerDamaged(str(item.fields["detail"]))


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _show(namespace: str, items: "Iterable[Item]") -> None:
    """Prints a table of the items, even if the last item reports damage."""
    table = Table("position", "kind", "fields", title=f"ledger of namespace {namespace}")
    try:
        for item in items:
            words = " ".join(f"{name}={_short(value)}" for name, value in item.fields.items())
            table.add_row(str(item.position), item.kind, Text(words))
    finally:
        if table.row_count:
            Console().print(table)


def _short(value: object) -> str:
    text = str(_plain(value))
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}... ({len(text)} characters)"
