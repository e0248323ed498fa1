"""Groups the verbs of `oncegate kafka`: they prepare brokers for a ledger."""

import typer

from oncegate.cli.kafka import plan

app = typer.Typer(help="Prepare Kafka's brokers for a ledger.", no_args_is_help=True)


# With a callback of its own a group of one verb keeps the verb's name.
@app.callback()
def main() -> None:
    """Prepare Kafka's brokers for a ledger."""


app.command("plan")(plan.plan)

__all__ = ["app"]
