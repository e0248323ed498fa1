"""Starts and stops the programs of the demo; each is killed by its pid, children included."""

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

HOST = "127.0.0.1"
ROOT = Path(__file__).parent.parent
_START_S_MAX = 60
_STOP_S_MAX = 20
_POLL_S = 0.02


def start(module: str, *arguments: str, log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts `python -m module …` from the project's root, in its own session, so that Ctrl-C reaches only the demo."""
    return run([sys.executable, "-m", module, *arguments], log, env)


def run(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts any program with the environment and its own session, like `start`."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    with log.open("ab") as out:
        return subprocess.Popen(
            command, cwd=ROOT, env={**environment, **(env or {})}, stdout=out, stderr=out, start_new_session=True
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Locks a folder for this process and empties it. Raises OSError if another process uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        _lock(lock, folder)
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        yield
    finally:
        os.close(lock)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(f"another one is running in {shown(folder)}") from error


def end_as_ctrl_c() -> None:
    """Makes SIGTERM act like Ctrl-C, so that started programs are stopped."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def shown(path: Path) -> str:
    """Returns a path relative to the project's root if it is below it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


@contextmanager
def temporary_files(folder: Path) -> Iterator[None]:
    """Redirects temporary files to a folder that is removed on exit, since a killed JVM removes none of its files.

    Java ignores TMPDIR, so `job.session` passes the folder to it.
    """
    before, path = os.environ.get("TMPDIR"), str(folder)
    folder.mkdir(parents=True)
    os.environ["TMPDIR"] = path
    try:
        yield
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


def kill_all(process: subprocess.Popen[bytes], first: int | None = None) -> None:
    """Kills with SIGKILL: the pid `first` if given, then the process, then everything that it has started."""
    family = _session(process.pid)
    for member in sorted(family, key=lambda member: (member.pid != first, member.pid != process.pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
    end = time.monotonic() + _STOP_S_MAX
    while not all(_gone(member) for member in family) and time.monotonic() < end:
        time.sleep(_POLL_S)


def _gone(process: psutil.Process) -> bool:
    """Returns whether a process is dead; zombies count, since a container may have no init that reaps orphans."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _session(leader: int) -> list[psutil.Process]:
    """Returns the live processes of a session, including orphans and the leader."""
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader:
                pids.append(process)
    return pids


class GatewayProcess:
    """A context manager for `python -m oncegate serve`, which can be restarted.

    `folder`: its own folder, with its data unless `ledger` is given as a URL. `options`: passed at each start.
    """

    def __init__(self, folder: Path, log: Path, ledger: str | None = None, options: tuple[str, ...] = ()) -> None:
        self.port = 0
        self._folder = folder
        self._log = log
        self._where = ("--data", str(folder / "data")) if ledger is None else ("--ledger", ledger)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "GatewayProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops it with SIGTERM, after a timeout with SIGKILL; does nothing if it is not running."""
        if self.alive and self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def alive(self) -> bool:
        """Returns whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self, *more: str) -> None:
        """Starts it on a free port and waits until it listens. Raises RuntimeError with the end of its log.

        `more`: further options.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        port_file = self._folder / "port"
        port_file.unlink(missing_ok=True)
        options = (*self._where, "--port", "0", "--port-file", str(port_file), *self._options, *more)
        self._process = start("oncegate", "serve", *options, log=self._log)
        try:
            self._await(port_file)
        except BaseException:
            self.kill()
            raise
        self.port = int(port_file.read_text())

    def _await(self, port_file: Path) -> None:
        end = time.monotonic() + _START_S_MAX
        while not (port_file.exists() and port_file.read_text().strip()):
            if not self.alive or time.monotonic() > end:
                raise RuntimeError(f"the gateway did not start; {self._log} ends:\n{tail(self._log)}")
            time.sleep(_POLL_S)

    def kill(self) -> int:
        """Kills the process with SIGKILL; returns the exit status, -9 if it was alive."""
        assert self._process is not None, "started before"
        self._process.kill()
        return self._process.wait()

    def get(self, path: str) -> Any:
        """Returns the JSON of a GET below /v1."""
        return json.loads(self.ask("GET", path)[0])

    def readiness(self) -> tuple[int, dict[str, str]]:
        """Returns the status of /healthz/ready and the state of each namespace; 0 and none without an answer."""
        try:
            status, _, body = self._request("GET", "/healthz/ready", "application/json")
            states: dict[str, str] = json.loads(body).get("namespaces", {})
        except (OSError, ValueError):
            return 0, {}
        return status, states

    def ask(self, method: str, path: str, accept: str = "application/json") -> tuple[bytes, Mapping[str, str]]:
        """Returns body and headers (lower case) of a 2xx response. Raises OSError for any other."""
        status, headers, body = self._request(method, "/v1" + path, accept)
        if not 200 <= status < 300:
            raise OSError(f"{method} {path}: {status} {body[:500]!r}")
        return body, headers

    def _request(self, method: str, target: str, accept: str) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.request(method, target, headers={"Accept": accept})
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, headers, response.read()
        except http.client.HTTPException as error:
            raise OSError(f"{method} {target}: {error!r}") from error
        finally:
            connection.close()


def tail(log: Path, lines: int = 25) -> str:
    """Returns the last lines of a log file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
