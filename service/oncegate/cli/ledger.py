"""`oncegate init`, `oncegate ledger dump`."""

import asyncio
import dataclasses
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oncegate.cli.refusals import refusing
from oncegate.core.entries import decode
from oncegate.core.errors import BadRequest, NotFound
from oncegate.ledgers.catalog import Wrote
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.body import Change, Location, decode_body
from oncegate.ledgers.log.disk import Disk
from oncegate.ledgers.log.recovery import SHARD_NAME
from oncegate.ledgers.log.segments import Walk

app = typer.Typer(help="Look at an embedded ledger.", no_args_is_help=True)

Data = Annotated[Path, typer.Option(help="Data folder of the embedded ledger.")]
Witness = Annotated[str | None, typer.Option(help="Where its witness is, if not beside it.")]
Namespace = Annotated[str, typer.Option(help="The namespace whose ledger is shown.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, with every field whole.")]
# What a table shows of a long value; --json shows it all.
SHOWN_CHARS = 32

Item = tuple[int, str, dict[str, Any]]


def init(data: Data = Path("data"), witness: Witness = None) -> None:
    """Make a new, empty ledger; refused where the folder or its witness knows of one already."""
    with refusing():
        asyncio.run(_init(data, witness))


async def _init(data: Path, witness: str | None) -> None:
    async with open_log(str(data), create=True, witness=witness) as ledgers:
        names = ", ".join(ledgers.names())
        if not ledgers.new:
            raise BadRequest(f"data folder {data} holds the namespaces {names} already; nothing was changed")
        sys.stdout.write(f"data folder {data}: NEW, EMPTY; namespaces: {names}\n")


@app.command("dump")
def dump(data: Data = Path("data"), namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Show every entry and every change of outputs, verified. Owns nothing: the gateway may be running.

    Ends with status 1 at the first byte that is not what was written. Example: oncegate ledger dump --json
    """
    with refusing():
        folder = data / namespace / SHARD_NAME
        if not folder.is_dir():
            raise NotFound(f"there is no ledger of namespace {namespace} in data folder {data}")
        if as_json:
            for position, kind, fields in items(folder):
                line = {"position": position, "kind": kind} | {name: _plain(value) for name, value in fields.items()}
                sys.stdout.write(msgspec.json.encode(line, enc_hook=str).decode() + "\n")
        else:
            _show(namespace, items(folder))


def items(folder: Path) -> Iterator[Item]:
    """Entries and, after those of their append, the changes of outputs: position, kind, fields.

    A change has the position of its append's last entry. LedgerDamaged at the first contradiction.
    """
    for frame in Walk(Disk(), folder):
        body = decode_body(frame.body)
        for position, raw in enumerate(body.entries, frame.header.first_position):
            entry = decode(raw)
            names = [field.name for field in dataclasses.fields(entry)]
            yield position, type(entry).__name__, {name: getattr(entry, name) for name in names}
        for change in body.changes:
            yield frame.header.last_position, type(change).__name__, _change_fields(change)


def _change_fields(change: Change) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(change, name) for name in change.__struct_fields__}
    if isinstance(change, Wrote):
        place: Location = fields.pop("place")
        fields |= {name: getattr(place, name) for name in place.__struct_fields__}
    return fields


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _show(namespace: str, found: Iterable[Item]) -> None:
    table = Table("position", "kind", "fields", title=f"ledger of namespace {namespace}")
    for position, kind, fields in found:
        words = " ".join(f"{name}={_short(value)}" for name, value in fields.items())
        table.add_row(str(position), kind, Text(words))
    Console().print(table)


def _short(value: object) -> str:
    text = str(_plain(value))
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}... ({len(text)} characters)"
