"""Starts real servers, each a process on one core with its own folder: the gateway, a Redis, a bare front."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.load.cores import SERVER, pinned
from deploy.ports import free_port

START_S = 120.0
# The bench leaves claims open, more than any pool of writers would, so the limit is raised.
SETTINGS = {"ONCEGATE_OPEN_CLAIMS": str(10_000_000)}


@dataclass(frozen=True)
class Served:
    """A server that answers on 127.0.0.1, and its process."""

    port: int
    process: psutil.Process

    @property
    def cpu_s(self) -> float:
        """Returns the processor time used so far, by all threads."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def gateway(
    folder: Path, core: int | None = SERVER, settings: Mapping[str, str] | None = None, ledger: str | None = None
) -> Iterator[Served]:
    """Runs a gateway with its data in `folder`, or on the `ledger` of a URL, until the context exits."""
    where = ["--data", str(folder / "data")] if ledger is None else ["--ledger", ledger]
    command = [sys.executable, "-m", "oncegate", "serve", *where, "--port", "0"]
    environment = SETTINGS | dict(settings or {})
    with _running(command, folder, "gateway", core, environment, port_file=True) as served:
        yield served


@contextmanager
def front(folder: Path, redis_port: int | None = None) -> Iterator[Served]:
    """Runs `bench.load.front`: the gateway's HTTP server over a Redis, or over nothing."""
    command = [sys.executable, "-m", "bench.load.front", *([] if redis_port is None else ["--redis", str(redis_port)])]
    with _running(command, folder, "front", SERVER, {}, port_file=True) as served:
        yield served


@contextmanager
def grpc_servers(folder: Path, grpcio_port: int, grpclib_port: int) -> Iterator[Served]:
    """Runs `bench.load.grpc_servers`: one gateway with two gRPC servers."""
    command = [sys.executable, "-m", "bench.load.grpc_servers", "--data", str(folder / "data")]
    command += ["--grpcio", str(grpcio_port), "--grpclib", str(grpclib_port)]
    with _running(command, folder, "gateway", SERVER, SETTINGS, port_file=True) as served:
        yield served


@contextmanager
def redis(folder: Path, core: int | None = SERVER) -> Iterator[Served]:
    """Runs Debian's redis-server on a folder; each append is synced before its reply, and only the AOF is kept.

    `DEBUG` is enabled: it reports whether a table is being rehashed.
    """
    port = free_port()
    command = [find_redis(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    # On a busy machine the prefill scripts exceed the default of five seconds, after which others get BUSY replies.
    command += ["--enable-debug-command", "local", "--busy-reply-threshold", "120000"]
    with _running(command, folder, "redis", core, {}, port=port) as served:
        yield served


@contextmanager
def _running(
    command: list[str],
    folder: Path,
    name: str,
    core: int | None,
    environment: Mapping[str, str],
    port: int | None = None,
    port_file: bool = False,
) -> Iterator[Served]:
    """Starts a server, waits for its port, yields it, and stops it."""
    file, log = folder / f"{name}.port", folder / f"{name}.log"
    file.unlink(missing_ok=True)
    if port_file:
        command = [*command, "--port-file", str(file)]
    with log.open("wb") as said:
        pin = None if core is None else pinned(core)
        process = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **environment}, preexec_fn=pin
        )
        try:
            yield Served(_port(process, file, port, log), psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(START_S)


def _port(process: "subprocess.Popen[bytes]", file: Path, port: int | None, log: Path) -> int:
    """Returns the port once the server answers. Raises RuntimeError with its output if it never does."""
    end = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end:
        if port is None and file.exists() and (text := file.read_text().strip()):
            return int(text)
        if port is not None and _answers(port):
            return port
        time.sleep(0.02)
    raise RuntimeError(f"it did not start: {log.read_text()}")


def _answers(port: int) -> bool:
    """Returns whether the server is ready; a Redis that is still loading its AOF answers with an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(5) == b"+PONG"
    except OSError:
        return False


def find_redis() -> str:
    """Returns the path of redis-server; installs it if possible. Otherwise raises RuntimeError with the command."""
    path = shutil.which("redis-server")
    if path is not None:
        return path
    install = "apt-get install -y --no-install-recommends redis-server"
    if os.getuid() == 0 and shutil.which("apt-get"):
        print("redis-server is missing; installing it", file=sys.stderr)
        quiet = {"check": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)  # type: ignore[call-overload]
        subprocess.run(install.split(), env=environment, **quiet)  # type: ignore[call-overload]
        path = shutil.which("redis-server")
    if path is None:
        raise RuntimeError(f"the bench needs redis-server beside the gateway; install it with: {install}")
    return path
