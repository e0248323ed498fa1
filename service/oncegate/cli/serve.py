"""Defines `oncegate serve` and its flags, and `oncegate config`, which shows the effective settings."""

import asyncio
import inspect
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from oncegate.cli.options import AsJsonOption, declare
from oncegate.cli.refusals import refuse_urls, refusing
from oncegate.cli.tables import table_of
from oncegate.core.errors import SettingsError

if TYPE_CHECKING:
    import structlog

    from oncegate.settings import SettingOrigin

ServeDataOption = Annotated[
    Path | None, typer.Option(help="Data folder of the embedded ledger.  [default: ./data]", callback=refuse_urls)
]
LedgerOption = Annotated[
    str | None,
    typer.Option(help="Ledger by URL, instead of --data: memory:, log:FOLDER, kafka://… or redis://…"),
]
ServeWitnessOption = Annotated[
    str | None, typer.Option(help="Where to keep the ledger's witness (rollback check); another disk is better.")
]
HostOption = Annotated[str | None, typer.Option(help="Other than loopback only with --keys.  [default: 127.0.0.1]")]
KeysOption = Annotated[Path | None, typer.Option(help="File of keys that callers must show; see `oncegate keys`.")]
InsecureOption = Annotated[
    bool | None,
    typer.Option("--insecure-without-keys", help="Listen on any address; every caller may do everything."),
]
TlsCertificateOption = Annotated[
    Path | None, typer.Option(help="Serve TLS, over HTTP and gRPC: PEM file of the certificate and its chain.")
]
TlsKeyOption = Annotated[Path | None, typer.Option(help="PEM file of its private key.  [default: in the same file]")]
TlsClientCaOption = Annotated[
    Path | None, typer.Option(help="PEM file of authorities: callers must present a certificate signed by one of them.")
]
PortOption = Annotated[int | None, typer.Option(min=0, max=65535, help="0: any free one.  [default: 8080]")]
GrpcPortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve gRPC there too; 0: any free port.  [default: no gRPC]")
]
HealthPortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Answer only probes there, in plain HTTP.  [default: none]")
]
PortFileOption = Annotated[Path | None, typer.Option(help="Write the port to this file when ready.")]
ConfigOption = Annotated[Path | None, typer.Option(help="Settings file.  [default: ./oncegate.toml if it exists]")]
StandbyOption = Annotated[
    bool | None, typer.Option("--standby", help="Wait until the owner of the servers' ledgers is gone, then take over.")
]
LogFormatOption = Annotated[str | None, typer.Option(help="text or json.  [default: text]")]


def serve_flags(
    data: ServeDataOption = None,
    ledger: LedgerOption = None,
    witness: ServeWitnessOption = None,
    host: HostOption = None,
    port: PortOption = None,
    port_file: PortFileOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = None,
    standby: StandbyOption = None,
    keys: KeysOption = None,
    insecure_without_keys: InsecureOption = None,
    grpc_port: GrpcPortOption = None,
    health_port: HealthPortOption = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
) -> tuple[Path | None, dict[str, Any]]:
    """Returns the settings file, and the other flags as settings; None for a flag that is not given.

    Raises SettingsError if both --data and --ledger were given.
    """
    settings: dict[str, Any] = {"ledger": ledger_url(data, ledger), "witness": witness, "host": host, "port": port}
    settings |= {"port_file": port_file, "log_format": log_format, "standby": standby}
    settings |= {"keys": keys, "insecure_without_keys": insecure_without_keys, "grpc_port": grpc_port}
    settings |= {"health_port": health_port}
    settings |= {"tls_certificate": tls_certificate, "tls_key": tls_key, "tls_client_ca": tls_client_ca}
    return config, settings


def taking_serve_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags of `serve` before a verb's own; the verb receives all flags by name.

    The verb passes its `flags` to `serve_flags`.
    """
    shared = list(inspect.signature(serve_flags).parameters.values())
    own = [flag for flag in inspect.signature(verb).parameters.values() if flag.kind is not flag.VAR_KEYWORD]
    return declare(verb, [*shared, *own])


def ledger_url(data: Path | None, ledger: str | None) -> str | None:
    """Returns the ledger's URL from `--data` or `--ledger`; None if neither is given.

    Raises SettingsError if both are given.
    """
    if data is not None and ledger is not None:
        raise SettingsError("give --data or --ledger, not both")
    return ledger if data is None else f"log:{data}"


@taking_serve_flags
def serve(**flags: Any) -> None:
    """Serve the gateway over HTTP until SIGTERM. Flags override ONCEGATE_*, which overrides the settings file.

    Example: oncegate serve --data ./data --port 8080
    """
    from oncegate.settings import load

    with refusing():
        file, flag_values = serve_flags(**flags)
        settings = load(file, **flag_values)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            # Unlike in other verbs: an exception inside the loop would look like a bug. Everything appended is on disk.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        from oncegate.runtime.logging import LibraryLog, open_log

        log = open_log(settings.process.log_format)
        logging.getLogger().addHandler(LibraryLog(log))
        # Before the kernels are imported. They and the server take a second, and no other verb needs them.
        _keep_kernels(settings.process.ledger, log)
        import uvloop

        from oncegate.app import serve as run

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(run(settings, log))
            except asyncio.CancelledError:
                log.info("stopped", message="stopped before it was ready")


def _keep_kernels(ledger: str, log: "structlog.typing.FilteringBoundLogger") -> None:
    """Chooses a folder for compiled kernels, next to the data if numba has none; logs a warning if none is writable."""
    from oncegate.ledgers import parse_url
    from oncegate.runtime.kernel_cache import keep_kernels

    scheme, location = parse_url(ledger)
    data = Path(location).absolute() if scheme == "log" else None
    if not keep_kernels(data and data.with_name(data.name + ".kernels")):
        message = "compiled kernels are not kept, so each start compiles them: set NUMBA_CACHE_DIR to a folder"
        log.warning("kernels_not_kept", message=message)


@taking_serve_flags
def config(as_json: AsJsonOption = False, **flags: Any) -> None:
    """Show every setting that `serve` would use with the same flags, and its source: flag, ONCEGATE_*, file or default.

    Example: ONCEGATE_PORT=9090 oncegate config --data /var/lib/oncegate
    """
    from oncegate.settings import load, origins

    with refusing():
        file, flag_values = serve_flags(**flags)
        shown_origins = [_shown(origin) for origin in origins(load(file, **flag_values), file, **flag_values)]
        if as_json:
            shown = {origin.name: {"value": origin.value, "source": origin.source} for origin in shown_origins}
            sys.stdout.write(msgspec.json.encode(shown, enc_hook=str).decode() + "\n")
        else:
            _show(shown_origins)


def _shown(origin: "SettingOrigin") -> "SettingOrigin":
    """Returns a setting for display, without the password in a ledger's URL, which `serve` rejects."""
    from oncegate.ledgers.url_options import without_passwords

    return replace(origin, value=without_passwords(str(origin.value))) if origin.name == "ledger" else origin


def _show(shown_origins: "list[SettingOrigin]") -> None:
    table = table_of("setting", "value", "from")
    for origin in shown_origins:
        table.add_row(
            origin.name, str(origin.value), origin.source, style=None if origin.source == "default" else "bold"
        )
    Console().print(table)
