"""The command line: a verb a file."""

import sys
from typing import Annotated

import typer

import oncegate
from oncegate.cli import backup, config, demo, explain, kafka, keys, ledger, resolve, restore, serve, size, verify
from oncegate.cli.audit import verb as audit
from oncegate.cli.carry import export, importing
from oncegate.cli.doctor import verb as doctor
from oncegate.cli.operating import drain, fence, forget, log, release, replay
from oncegate.cli.running.paragraphs import let_paragraphs_flow

app = typer.Typer(
    help="A deduplicating gateway: retried writes take effect once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("config")(config.config)
app.command("doctor")(doctor.doctor)
app.command("audit")(audit.audit)
app.command("explain")(explain.explain)
app.command("resolve")(resolve.resolve)
app.command("release")(release.release)
app.command("forget")(forget.forget)
app.command("replay")(replay.replay)
app.command("fence")(fence.fence)
app.command("drain")(drain.drain)
app.command("log")(log.log)
app.command("demo")(demo.demo)
app.command("init")(ledger.init)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.command("verify")(verify.verify)
app.command("export")(export.export)
app.command("import")(importing.take_in)
app.command("size")(size.size)
app.add_typer(ledger.app, name="ledger")
app.add_typer(kafka.app, name="kafka")
app.add_typer(keys.app, name="keys")
let_paragraphs_flow(app)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"oncegate {oncegate.__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """A deduplicating gateway: retried writes take effect once."""


__all__ = ["app"]
