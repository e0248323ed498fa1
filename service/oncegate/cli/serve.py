"""`oncegate serve`."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from oncegate.cli.refusals import refusing
from oncegate.runtime.logging import open_log
from oncegate.settings import SettingsError, load

Data = Annotated[Path | None, typer.Option(help="Data folder of the embedded ledger.  [default: ./data]")]
Ledger = Annotated[str | None, typer.Option(help="Ledger by URL, instead of --data: memory: or log:FOLDER.")]
Witness = Annotated[str | None, typer.Option(help="Where to keep the ledger's witness; another disk is better.")]
Host = Annotated[str | None, typer.Option(help="A loopback address.  [default: 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0: any free one.  [default: 8080]")]
PortFile = Annotated[Path | None, typer.Option(help="Write the port here when ready.")]
Config = Annotated[Path | None, typer.Option(help="Settings file.  [default: ./oncegate.toml if it is there]")]
LogFormat = Annotated[str | None, typer.Option(help="text or json.  [default: text]")]


def serve(
    data: Data = None,
    ledger: Ledger = None,
    witness: Witness = None,
    host: Host = None,
    port: Port = None,
    port_file: PortFile = None,
    config: Config = None,
    log_format: LogFormat = None,
) -> None:
    """Serve the gateway over HTTP until SIGTERM. Flags win over ONCEGATE_*, which wins over the settings file.

    Example: oncegate serve --data ./data --port 8080
    """
    # The compiler and the server take a second to import; no other verb needs them.
    import uvloop

    from oncegate.app import serve as run

    with refusing():
        settings = load(config, **flags(data, ledger, witness, host, port, port_file, log_format))
        log = open_log(settings.process.log_format)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(run(settings, log))
            except asyncio.CancelledError:
                log.info("stopped before it was ready")


def flags(
    data: Path | None,
    ledger: str | None,
    witness: str | None,
    host: str | None,
    port: int | None,
    port_file: Path | None,
    log_format: str | None,
) -> dict[str, Any]:
    """What was given on the command line, as settings; None: not given. SettingsError: --data and --ledger."""
    given = {"ledger": ledger_url(data, ledger), "witness": witness, "host": host, "port": port}
    return given | {"port_file": port_file, "log_format": log_format}


def ledger_url(data: Path | None, ledger: str | None) -> str | None:
    """The ledger's URL from `--data` or `--ledger`; None when neither is given."""
    if data is not None and ledger is not None:
        raise SettingsError("give --data or --ledger, not both")
    return ledger if data is None else f"log:{data}"
