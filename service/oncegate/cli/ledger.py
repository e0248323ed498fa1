"""`oncegate init`, `oncegate ledger dump`, `oncegate ledger accept`: what a person does with a data folder."""

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
    help="Look at an embedded ledger, or accept what is left of one.", no_args_is_help=True, add_completion=False
)

# What a table shows of a long value; --json shows it all.
SHOWN_CHARS = 32


def init(data: DataOption = Path("data"), witness: WitnessOption = None) -> None:
    """Make a new, empty ledger; refused where the folder or its witness knows of one already."""
    from oncegate.ledgers import log

    with refusing():
        log.init(str(data), witness)
        sys.stdout.write(f"data folder {data}: NEW, EMPTY; namespace default\n")


@app.command("accept")
def accept(
    data: DataOption = Path("data"), witness: WitnessOption = None, namespace: OneNamespaceOption = None
) -> None:
    """Go on with a ledger as it is although its witness knew more: what it lost is forgotten, knowingly.

    Without --namespace all are accepted, each under a new id. One that is damaged in itself stays as it is, and is
    named. Status 1: one is.
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
    """Show all that stands in a ledger, verified. Owns nothing: the gateway may be running.

    Ends with status 1 where something is damaged. Example: oncegate ledger dump --json
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
    """The items; LedgerDamaged after the last one when that is damage."""
    for item in items:
        yield item
        if item.kind == "DAMAGED":
            raise LedgerDamaged(str(item.fields["detail"]))


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _show(namespace: str, items: "Iterable[Item]") -> None:
    """A table of what was found, also when the last of it is damage."""
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
