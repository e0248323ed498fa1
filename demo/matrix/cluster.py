"""Runs Spark's standalone master and two workers of one core each on this machine."""

import re
import subprocess
import time
from pathlib import Path

import pyspark

from demo import processes

# Spark starts no second attempt on the same host, so each worker has its own host name.
HOSTS = ("127.0.0.1", "localhost")
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"
_START_S_MAX = 90
_POLL_S = 0.05


class Cluster:
    """A context manager that runs a master and its workers; they write only below `folder`."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.master = ""
        self._folder = folder
        self._log = logs / "master.log"
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Cluster":
        try:
            self._start("master.Master", self._log, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._told(r"Starting Spark master at (spark://\S+)")[0]
            for host in HOSTS:
                ports = ("--port", "0", "--webui-port", "0", "--work-dir", str(self._folder / "work"))
                log = self._log.with_name(f"worker-{host}.log")
                self._start("worker.Worker", log, "--host", host, *ports, "--cores", "1", "--memory", "1g", self.master)
            self._told(r"Registering worker", len(HOSTS))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            processes.kill_all(process)

    def _start(self, name: str, log: Path, *arguments: str) -> None:
        """Starts a daemon. Executors write to their worker's folder, not the driver's, so it is set here."""
        env = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(self._folder / "spark")}
        command = [str(_SPARK_CLASS), f"{_DEPLOY}.{name}", *arguments]
        self._started.append(processes.run(command, log, env))

    def _told(self, pattern: str, times: int = 1) -> list[str]:
        """Waits until the master's log has `times` matches of the pattern. Raises RuntimeError on timeout."""
        end = time.monotonic() + _START_S_MAX
        while len(matches := re.findall(pattern, self._log.read_text(errors="replace"))) < times:
            if time.monotonic() > end or any(process.poll() is not None for process in self._started):
                raise RuntimeError(
                    f"Spark's master or a worker did not start; its log ends:\n{processes.tail(self._log)}"
                )
            time.sleep(_POLL_S)
        return matches
