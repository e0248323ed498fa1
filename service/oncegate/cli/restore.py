"""Defines the verb `oncegate restore`."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from oncegate.cli.ledger import WitnessOption
from oncegate.cli.operating.options import AsJsonLinesOption
from oncegate.cli.progress import counted
from oncegate.cli.refusals import refuse_urls, refusing
from oncegate.ledgers import log

FromOption = Annotated[Path, typer.Option("--from", help="A folder that `oncegate backup` made.")]
DataOption = Annotated[Path, typer.Option(help="The data folder to make: new or empty.", callback=refuse_urls)]


def restore(
    source: FromOption, data: DataOption, witness: WitnessOption = None, as_json: AsJsonLinesOption = False
) -> None:
    """Make a data folder of a backup. What came after the backup is forgotten: its ids will be granted again.

    Each ledger goes on under a new id, so that clients that remember more are told of.
    Example: oncegate restore --from /mnt/other/monday --data ./data
    """
    with refusing(), counted("restoring", source, times=4) as disk:
        for restored in log.restore(str(source), str(data), witness, disk):
            line = (
                f"{restored.namespace}: restored at position {restored.position}; "
                f"ledger {restored.predecessor.hex()} goes on as {restored.ledger.hex()}"
            )
            fields = {
                "namespace": restored.namespace,
                "ledger": restored.ledger.hex(),
                "predecessor": restored.predecessor.hex(),
                "position": restored.position,
            }
            sys.stdout.write((msgspec.json.encode(fields).decode() if as_json else line) + "\n")
