"""Controls the load process, one job at a time."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.load.cores import LOAD, pinned
from bench.load.server import Served


class Worker:
    """Sends jobs to `bench.load.client`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._streams = 0

    def run(self, served: Served, kind: str, **job: Any) -> dict[str, float]:
        """Runs a job; returns its result with the server's processor time (`cpu_s`) and the stream of its new ids.

        Every run has its own stream, so its ids are new. Raises RuntimeError if the load failed or a verdict was wrong.
        """
        self._streams += 1
        self._say(json.dumps({"kind": kind, "port": served.port, "stream": self._streams, **job}))
        self._hear(kind)
        cpu_s = served.cpu_s
        self._say("go")
        result = self._hear(kind)
        if result.get("wrong"):
            raise RuntimeError(f"{kind}: {result['wrong']} sampled ids were answered wrongly: {job}")
        return {**result, "cpu_s": served.cpu_s - cpu_s, "stream": self._streams}

    @property
    def runs(self) -> int:
        """Returns the number of runs so far."""
        return self._streams

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self, kind: str) -> dict[str, float]:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said == "ready\n":
            return {}
        result: dict[str, Any] = json.loads(said) if said else {"error": "the load process ended"}
        if "error" in result:
            raise RuntimeError(f"{kind}: {result['error']}")
        return result


@contextmanager
def worker() -> Iterator[Worker]:
    """Runs a load process on its own core until the context exits."""
    command = [sys.executable, "-m", "bench.load.client"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, preexec_fn=pinned(LOAD))
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
