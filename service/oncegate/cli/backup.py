"""Defines the verb `oncegate backup`."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from oncegate.cli.ledger import Data, Witness
from oncegate.cli.operating.options import AsJsonLines
from oncegate.cli.progress import counted
from oncegate.cli.refusals import refusing
from oncegate.ledgers import log

To = Annotated[Path, typer.Option(help="A new or empty folder for the copy; another disk is better.")]


def backup(to: To, data: Data = Path("data"), witness: Witness = None, as_json: AsJsonLines = False) -> None:
    """Copy every ledger, verified, while the gateway runs; a plain cp of a folder in use may be refused later.

    Example: oncegate backup --data ./data --to /mnt/other/monday
    """
    with refusing(), counted("backing up", data, times=2) as disk:
        for one in log.backup(str(data), str(to), witness, disk):
            line = f"{one.namespace}: copied up to position {one.end.position} of ledger {one.ledger.hex()}"
            fields = {"namespace": one.namespace, "ledger": one.ledger.hex(), "position": one.end.position}
            sys.stdout.write((msgspec.json.encode(fields).decode() if as_json else line) + "\n")
