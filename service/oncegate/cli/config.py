"""Defines the verb `oncegate config`: what is in force, and where it comes from."""

import sys
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from oncegate.cli.refusals import refusing
from oncegate.cli.running.tables import table_of
from oncegate.cli.serve import serve_flags, taking_serve_flags
from oncegate.ledgers.url_options import without_passwords
from oncegate.settings import Origin, load, origins

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object: name to value and source.")]


@taking_serve_flags
def config(as_json: AsJson = False, **flags: Any) -> None:
    """Show every setting that `serve` would use with the same flags, and whether a flag, ONCEGATE_*, the file or the
    default gave it.

    Example: ONCEGATE_PORT=9090 oncegate config --data /var/lib/oncegate
    """
    with refusing():
        file, given = serve_flags(**flags)
        found = [_shown(one) for one in origins(load(file, **given), file, **given)]
        if as_json:
            shown = {one.name: {"value": one.value, "source": one.source} for one in found}
            sys.stdout.write(msgspec.json.encode(shown, enc_hook=str).decode() + "\n")
        else:
            _show(found)


def _shown(one: Origin) -> Origin:
    """The setting as it may be seen: whoever wrote a password into the ledger's URL, which `serve` refuses."""
    return replace(one, value=without_passwords(str(one.value))) if one.name == "ledger" else one


def _show(found: list[Origin]) -> None:
    table = table_of("setting", "value", "from")
    for one in found:
        table.add_row(one.name, str(one.value), one.source, style=None if one.source == "default" else "bold")
    Console().print(table)
