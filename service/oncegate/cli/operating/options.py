"""The options that operators' verbs share: why, who, and which gateway."""

import getpass
from typing import Annotated

import typer

Reason = Annotated[str, typer.Option("--reason", help="Why; it stands in the ledger.")]
Who = Annotated[
    str | None, typer.Option(help="Who you are, if not the user that you are logged in as; a key has a name beside it.")
]


def note(reason: str, who: str | None) -> dict[str, str]:
    """Returns who asks and why, as the gateway reads it."""
    return {"why": reason, "who": getpass.getuser() if who is None else who}
