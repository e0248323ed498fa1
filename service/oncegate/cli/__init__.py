"""The command line: serve, init, ledger dump."""

import typer

from oncegate.cli import ledger, serve

app = typer.Typer(
    help="A deduplicating gateway: retried writes take effect once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("init")(ledger.init)
app.add_typer(ledger.app, name="ledger")

__all__ = ["app"]
