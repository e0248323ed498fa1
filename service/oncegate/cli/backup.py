"""Defines the verb `oncegate backup`."""

from pathlib import Path
from typing import Annotated

import typer

from oncegate.cli.ledger import DataOption, OneNamespaceOption, WitnessOption
from oncegate.cli.operating.options import AsJsonLinesOption
from oncegate.cli.progress import counted
from oncegate.cli.refusals import going_past, refusing
from oncegate.ledgers import log
from oncegate.ledgers.log.admin.backup import Copied

ToOption = Annotated[Path, typer.Option(help="A new or empty folder for the copy; another disk is better.")]


def backup(
    to: ToOption,
    data: DataOption = Path("data"),
    witness: WitnessOption = None,
    namespace: OneNamespaceOption = None,
    as_json: AsJsonLinesOption = False,
) -> None:
    """Copy every ledger, verified, while the gateway runs; a plain cp of a folder in use may be refused later.

    One that is damaged is left out, and named; the others are copied. Status 1: one was left out.

    Example: oncegate backup --data ./data --to /mnt/other/monday
    """
    with refusing(), counted("backing up", data, times=2) as disk:
        going_past(log.backup(str(data), str(to), witness, disk, namespace), _shown, as_json)


def _shown(copied: Copied) -> tuple[str, dict[str, object]]:
    line = f"{copied.namespace}: copied up to position {copied.end.position} of ledger {copied.ledger.hex()}"
    return line, {"namespace": copied.namespace, "ledger": copied.ledger.hex(), "position": copied.end.position}
