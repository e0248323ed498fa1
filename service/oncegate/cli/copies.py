"""Defines `oncegate backup` and `oncegate restore`, which copy a data folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from oncegate.cli.options import AsJsonLinesOption, DataOption, OneNamespaceOption, WitnessOption
from oncegate.cli.progress import counted
from oncegate.cli.refusals import going_past, refuse_urls, refusing

if TYPE_CHECKING:
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

    A damaged ledger is left out and named; the others are copied. Status 1: one was left out.

    Example: oncegate backup --data ./data --to /mnt/other/monday
    """
    from oncegate.ledgers import log

    with refusing(), counted("backing up", data, times=2) as disk:
        going_past(log.backup(str(data), str(to), witness, disk, namespace), _shown, as_json)


def _shown(copied: "Copied") -> tuple[str, dict[str, object]]:
    line = f"{copied.namespace}: copied up to position {copied.end.position} of ledger {copied.ledger.hex()}"
    return line, {"namespace": copied.namespace, "ledger": copied.ledger.hex(), "position": copied.end.position}


FromOption = Annotated[Path, typer.Option("--from", help="A folder written by `oncegate backup`.")]
NewDataOption = Annotated[Path, typer.Option(help="The data folder to create: new or empty.", callback=refuse_urls)]


def restore(
    source: FromOption, data: NewDataOption, witness: WitnessOption = None, as_json: AsJsonLinesOption = False
) -> None:
    """Restore a data folder from a backup. Later changes are forgotten: their ids will be granted again.

    Each ledger continues under a new id, so that clients that remember a later state are reported.
    Example: oncegate restore --from /mnt/other/monday --data ./data
    """
    from oncegate.ledgers import log

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
