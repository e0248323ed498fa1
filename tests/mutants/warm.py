"""Runs tests in forks of one process that has imported their libraries, which each process imports for seconds otherwise.

    python -m tests.mutants.warm SOCKET TEST…    serves until its input ends

Each connection runs the tests until the first failure, and reads their exit code. The file with the test that failed
last comes first: it likely sees the next mutant too.
"""

import importlib
import os
import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

# Connects to the server named as the first argument, and exits with the code of the tests.
CLIENT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.exit(int(s.recv(9) or b'3'))"
)
# `plain`: libraries that are imported before pytest need no rewriting of their asserts.
OPTIONS = ("-q", "-x", "-n", "0", "--no-header", "--assert=plain", "-p", "no:cacheprovider", "--timeout=120")


class Tests:
    """Holds files of tests in the order in which they are run."""

    def __init__(self, files: list[str]) -> None:
        self.files, self._limit_s = files, 600

    def check_unchanged(self) -> int:
        """Returns the exit code of all of them, imports what they need, and bounds the processor time of later runs by its own."""
        code, output = self._forked(report_modules=True)
        for name in output.split():
            with suppress(Exception):
                importlib.import_module(name)
        self._limit_s = 10 + 3 * int(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)
        return code

    def run(self) -> int:
        """Returns the exit code of pytest, and 1 for a run that does not end."""
        code, failed = self._forked(report_modules=False)
        self.files.sort(key=lambda file: file != failed)
        return code

    def _forked(self, *, report_modules: bool) -> tuple[int, str]:
        reading, writing = os.pipe()
        if (process := os.fork()) == 0:
            os.dup2(2, 1)
            # Processor time, so that a busy machine ends no run; what waits without end meets the timeout of each test.
            resource.setrlimit(resource.RLIMIT_CPU, (self._limit_s, self._limit_s))
            libraries = Path(pytest.__file__).parents[1]
            recorder = _FailedFile()
            code = int(pytest.main([*OPTIONS, *self.files], plugins=[recorder]))
            names = [name for name, module in sys.modules.items() if _is_below(module, libraries)]
            os.write(writing, (" ".join(names) if report_modules else recorder.file).encode()[:60_000])
            os._exit(code)
        os.close(writing)
        with os.fdopen(reading) as output:
            text = output.read()
        return (1 if os.WIFSIGNALED(status := os.waitpid(process, 0)[1]) else os.waitstatus_to_exitcode(status)), text


class _FailedFile:
    """Records the file of the test that failed."""

    file = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.file = report.nodeid.partition("::")[0]


def _is_below(module: Any, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and folder in Path(file).parents


def main() -> None:
    sys.dont_write_bytecode = True
    address, *files = sys.argv[1:]
    tests = Tests(files)
    if code := tests.check_unchanged():
        sys.exit(code)
    Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"%d" % tests.run())


if __name__ == "__main__":
    main()
