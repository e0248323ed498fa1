"""Groups the verbs of `oncegate keys`: they keep the file of keys that a gateway asks its callers for."""

import typer

from oncegate.cli.keys import verbs

app = typer.Typer(help="Make, list and revoke the keys that callers show.", no_args_is_help=True)
app.command("add")(verbs.add)
app.command("list")(verbs.list_keys)
app.command("revoke")(verbs.revoke)

__all__ = ["app"]
