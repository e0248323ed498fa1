"""`oncegate init`, `oncegate ledger dump`."""

import typer

app = typer.Typer()


def init() -> None:
    """x"""


@app.command("dump")
def dump() -> None:
    """x"""
