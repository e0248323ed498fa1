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
from oncegate.settings import SettingOrigin, load, origins

AsJsonOption = Annotated[bool, typer.Option("--json", help="One JSON object: name to value and source.")]


@taking_serve_flags
def config(as_json: AsJsonOption = False, **flags: Any) -> None:
    """Show every setting that `serve` would use with the same flags, and whether a flag, ONCEGATE_*, the file or the
    default gave it.

    Example: ONCEGATE_PORT=9090 oncegate config --data /var/lib/oncegate
    """
    with refusing():
        file, flag_values = serve_flags(**flags)
        shown_origins = [_shown(origin) for origin in origins(load(file, **flag_values), file, **flag_values)]
        if as_json:
            shown = {origin.name: {"value": origin.value, "source": origin.source} for origin in shown_origins}
            sys.stdout.write(msgspec.json.encode(shown, enc_hook=str).decode() + "\n")
        else:
            _show(shown_origins)


def _shown(origin: SettingOrigin) -> SettingOrigin:
    """The setting as it may be seen: whoever wrote a password into the ledger's URL, which `serve` refuses."""
    return replace(origin, value=without_passwords(str(origin.value))) if origin.name == "ledger" else origin


def _show(shown_origins: list[SettingOrigin]) -> None:
    table = table_of("setting", "value", "from")
    for origin in shown_origins:
        table.add_row(
            origin.name, str(origin.value), origin.source, style=None if origin.source == "default" else "bold"
        )
    Console().print(table)
