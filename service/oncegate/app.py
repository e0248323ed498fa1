"""Assembles the program: one function opens all parts in order, and they close in reverse order.

1. The ledgers are locked: a folder in use is refused at once.
2. The HTTP port opens, so that probes are answered (503) while a long ledger is read.
3. Every index is rebuilt from its ledger; nothing is decided in a namespace before that. Ready means: one serves.

The ports are drained before the gateway closes: requests in flight are finished, answered and durable.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

import oncegate.transports.grpc  # noqa: F401 (before anything imports the library that it sets up)
from oncegate.clock import SystemClock
from oncegate.core.errors import SettingsError
from oncegate.doors import access_of, allowed_address, bound, credentials, is_guarded, is_loopback, tls_of, traced
from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.names import DEFAULT_NAMESPACE
from oncegate.index.lsm import tier
from oncegate.index.shard import warm_up
from oncegate.ledgers import open_duplicates, open_ledgers
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer
from oncegate.runs import run_folders
from oncegate.runtime.kernel_cache import saying_what_is_compiled
from oncegate.runtime.logging import LogObserver
from oncegate.runtime.process import (
    PROBES,
    collect_seldom,
    end_within,
    keep_freed_memory,
    leave_out_what_is_loaded,
    needed,
    raise_limit,
    share_often,
    shared_out,
)
from oncegate.settings import ProcessSettings, Settings
from oncegate.transports.access.access import Access
from oncegate.transports.decode import ids, json_rows, json_scan, records
from oncegate.transports.http.app import About, create_app
from oncegate.transports.http.server.probes import probed
from oncegate.transports.http.server.protocol import HttpServer, listening
from oncegate.transports.promises import OPEN, promise_of
from oncegate.transports.tls import Tls

if TYPE_CHECKING:
    from oncegate.transports.grpc.server import GrpcServer

Log = structlog.typing.FilteringBoundLogger
# Share of the shutdown time for callers that are being answered; the rest is for closing the ledgers.
_FOR_CALLERS = 0.9
# A probe is answered at once. After everything else is closed, probes get this long to finish.
PROBES_END_MS = 100


@dataclass(frozen=True)
class Program:
    """A serving gateway, its HTTP server and port, and its gRPC server; None: no gRPC.

    health_port: the port that answers only probes; None: none.
    """

    gateway: Gateway
    server: HttpServer
    port: int
    grpc: "GrpcServer | None" = None
    health_port: int | None = None

    def is_new(self, namespace: str) -> bool:
        """Returns whether the ledger is new: it contains only the entry of this process's first opening."""
        serving = self.gateway.readiness()[namespace] == "SERVING"
        return serving and self.gateway.namespace(namespace).mark.position == 1

    def durability(self, namespace: str) -> str:
        """Returns which failures an append survives, if known; empty if the namespace does not serve."""
        serving = self.gateway.readiness()[namespace] in ("SERVING", "FULL")
        return self.gateway.namespace(namespace).home.opened.storage.durability() if serving else ""


@asynccontextmanager
async def running(settings: Settings, log: Log) -> AsyncIterator[Program]:
    """Opens all parts of the gateway in order; closes them when the context ends.

    Raises SettingsError, and the errors of `open_ledgers` and `open_gateway`. Nothing was written.
    """
    process, health_port = settings.process, None
    kept = 0 if process.health_port is None else PROBES
    budget = shared_out(raise_limit(), settings.limits.connections, settings.limits.namespaces, kept)
    limits = replace(settings.limits, connections=budget.connections, namespaces=budget.namespaces)
    allowed_address(process.host, is_guarded(process))
    observer = LogObserver(log)
    access, tls = access_of(process, observer), tls_of(process, observer)
    async with AsyncExitStack() as stack:
        opening = open_ledgers(
            process.ledger, create=True, witness=process.witness, reserve_bytes=limits.disk_reserve_bytes
        )
        ledgers = await stack.enter_async_context(opening)
        require_descriptors(len(ledgers.names()), kept)
        runs = run_folders(process.ledger)
        tracer = await stack.enter_async_context(traced(observer))
        about = About(process.ledger, settings.semantic.fingerprint(), _names(process), credentials(process))
        app = create_app(observer, about, access=access, tracer=tracer)
        if process.health_port is not None:  # the first to be opened is the last to be closed
            beside = stack.enter_context(bound(process.host, process.health_port, is_guarded(process)))
            health_port = beside.getsockname()[1]
            await stack.enter_async_context(probed(app, beside, PROBES_END_MS))
        sock = stack.enter_context(bound(process.host, process.port, is_guarded(process)))
        port: int = sock.getsockname()[1]
        within_ms = int(_FOR_CALLERS * process.shutdown_ms)
        serving = listening(app, sock, within_ms, budget.connections, budget.backlog, tls, limits.unread_answer_ms)
        server = await stack.enter_async_context(serving)
        grpc = await stack.enter_async_context(_grpc(process, observer, limits, access, tls, tracer))
        with saying_what_is_compiled(lambda message: log.info("compiling_kernels", message=message)):
            await asyncio.to_thread(warm_up)
            # Done while ledgers are read: both take a second of a start.
            warming = asyncio.ensure_future(asyncio.to_thread(_warm_decoding))
            try:
                duplicates = await stack.enter_async_context(_duplicates(process, observer, limits))
                opened = open_gateway(ledgers, runs, SystemClock(), observer, limits, process.standby, duplicates)
                gateway = await stack.enter_async_context(opened)
            finally:
                await warming
        stack.push_async_callback(_drained, server, grpc, process.shutdown_ms)
        if DEFAULT_NAMESPACE not in gateway.namespaces() and not process.standby:
            await gateway.create(DEFAULT_NAMESPACE)
        gateway.tracer = tracer
        app.state.gateway = gateway
        if grpc is not None:
            grpc.gateway = gateway
        yield Program(gateway, server, port, grpc, health_port)


@asynccontextmanager
async def _duplicates(
    process: ProcessSettings, observer: Observer, limits: Limits
) -> AsyncIterator[DuplicateLogs | None]:
    """Writes a record for each duplicate to a topic, if the settings name one. Raises BadRequest and NotFound for that
    topic."""
    if process.duplicates_topic is None:
        yield None
        return
    async with open_duplicates(process.ledger, process.duplicates_topic) as topic:
        logs = DuplicateLogs(topic, SystemClock(), observer, limits.duplicate_records_per_second)
        try:
            yield logs
        finally:
            await logs.close()


@asynccontextmanager
async def _grpc(
    process: ProcessSettings,
    observer: Observer,
    limits: Limits,
    access: Access | None,
    tls: Tls | None,
    tracer: Tracer | None,
) -> "AsyncIterator[GrpcServer | None]":
    """Serves gRPC if a setting names its port. Raises SettingsError if the port is unavailable or the extra is
    missing."""
    if process.grpc_port is None:
        yield None
        return
    try:
        from oncegate.transports.grpc import server
    except ModuleNotFoundError as error:
        raise SettingsError(f"gRPC needs {error.name}: pip install 'oncegate[grpc]'") from error
    async with AsyncExitStack() as stack:
        # Checks the address and the port first, so that the error has the same text as for HTTP.
        with bound(process.host, process.grpc_port, is_guarded(process)) as sock:
            host, port = sock.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reflected, shutdown_ms = process.grpc_reflection, process.shutdown_ms
        serving = server.listening(address, observer, limits, access, reflected, shutdown_ms, tls, tracer)
        try:
            grpc_server = await stack.enter_async_context(serving)
        except RuntimeError as error:
            raise SettingsError(f"port {port} of {host} cannot be had; choose another") from error
        yield grpc_server


async def _drained(server: HttpServer, grpc: "GrpcServer | None", shutdown_ms: int) -> None:
    """Drains both servers at once: requests in flight at either are answered before the ledgers close."""
    begun = [server.drain()] if grpc is None else [server.drain(), grpc.drain(_FOR_CALLERS * shutdown_ms / 1_000)]
    await asyncio.gather(*begun)


def compile_kernels(say: Callable[[str], Any] = print) -> None:
    """Compiles every kernel into numba's cache in two processes, or loads it. Calls `say` with the progress.

    One process compiles kernels almost sequentially, however many threads it has.
    """
    beside = subprocess.Popen([sys.executable, "-c", f"import {__name__}; {__name__}.compile_smaller_part()"])
    with saying_what_is_compiled(say):
        warm_up()
        # Kernels whose compilation failed in the other process are compiled here.
        beside.wait()
        _warm_decoding()


def compile_smaller_part() -> None:
    """Compiles the kernels for decoding and for ids on disk, which claims need last; takes two fifths of the compile
    time.
    """
    _warm_decoding()
    tier.warm_up()
    with suppress(ModuleNotFoundError):  # the extra oncegate[kafka]
        from oncegate.ledgers.kafka import record_batch

        record_batch.warm_up()


def _names(process: ProcessSettings) -> list[str]:
    """Returns the host names, in addition to loopback's, by which callers may reach the gateway."""
    own = f"[{process.host}]" if ":" in process.host else process.host
    return [own, *process.hosts.split(",")]


def _warm_decoding() -> None:
    ids.warm_up()
    json_scan.warm_up()
    json_rows.warm_up()
    records.warm_up()


def require_descriptors(namespaces: int, kept: int = 0) -> None:
    """Raises SettingsError unless the open-file limit allows `namespaces` namespaces in addition to `kept` files."""
    limit = raise_limit()
    if shared_out(limit, 1, namespaces, kept).namespaces < namespaces:
        raise SettingsError(
            f"the process may have {limit} files open, too few for {namespaces} namespaces and connections to them: "
            f"raise the limit (ulimit -n {needed(namespaces, kept)}; LimitNOFILE of systemd)"
        )


async def serve(settings: Settings, log: Log) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the requests in flight. A second signal ends the wait for callers.

    The process ends `shutdown_ms` after the first signal, even if something is still open.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    started: list[Program] = []

    def stopped() -> None:
        if not stop.is_set():
            end_within(settings.process.shutdown_ms, lambda message: log.error("shutdown_timeout", message=message))
        if not started:
            task.cancel()
        elif stop.is_set():
            started[0].server.force_exit = True
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped)
    remove_port_file(settings.process)
    keep_freed_memory()
    collect_seldom()
    share_often()
    async with running(settings, log) as program:
        started.append(program)
        leave_out_what_is_loaded()
        announce(program, settings.process, log)
        await stop.wait()
        log.info("stopping", message="stopping: finishing the requests in flight, then closing the ledgers")
    log.info("stopped")


def announce(program: Program, process: ProcessSettings, log: Log) -> None:
    """Logs the guarantees of each namespace, the credentials required and the addresses; then writes the port file."""
    for name, state in program.gateway.readiness().items():
        if state in ("RECOVERING", "DOWN"):
            reason = program.gateway.reason(name) or "the ledger is being opened"
            message = f"namespace {name} does not serve: {state} ({reason})"
            log.warning("namespace_not_serving", message=message, namespace=name, state=state, reason=reason)
        else:
            lowering = program.gateway.namespace(name).settings.lowering if state in ("SERVING", "FULL") else ()
            promise = promise_of(name, process.ledger, program.is_new(name), program.durability(name), *lowering)
            log.info("namespace_opened", message=promise.sentence(), **asdict(promise))
    who, secure = credentials(process), process.tls_certificate is not None
    write = log.warning if who == OPEN else log.info
    write("credentials", message=f"credentials: {who}", credentials=who)
    if not secure and not is_loopback(process.host):
        message = "no encryption: keys and rows can be read on the wire; set tls_certificate"
        log.warning("no_encryption", message=message)
    host = f"[{process.host}]" if ":" in process.host else process.host
    if (ca := process.tls_client_ca) is not None:
        message = f"certificates: callers must show one that an authority of {ca} has signed"
        log.info("client_certificates_required", message=message, authorities=str(ca))
    url = f"{'https' if secure else 'http'}://{host}:{program.port}"
    log.info("listening", message=f"listening on {url}", protocol="http", address=url)
    if program.grpc is not None:
        address = f"{host}:{program.grpc.port}"
        log.info("listening", message=f"listening for gRPC on {address}", protocol="grpc", address=address)
    if program.health_port is not None:
        url = f"http://{host}:{program.health_port}"
        log.info("listening", message=f"listening for probes on {url}", protocol="probes", address=url)
    if process.port_file is not None:
        part = process.port_file.with_name(process.port_file.name + ".part")
        part.write_text(f"{program.port}\n")
        os.replace(part, process.port_file)


def remove_port_file(process: ProcessSettings) -> None:
    """Removes the port file, so that a previous process's port is not mistaken for this process's.

    Raises SettingsError if the file could not be written later.
    """
    if process.port_file is not None:
        folder = process.port_file.absolute().parent
        if process.port_file.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise SettingsError(f"port_file {process.port_file}: it is a folder, or lies in none that can be written")
        process.port_file.unlink(missing_ok=True)
