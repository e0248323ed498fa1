"""A real Prometheus for tests, on a free port of 127.0.0.1, and its promtool.

Their tests are skipped if it is not installed; with CI=true they fail.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.ports import free_port
from tests.support.tree import ROOT

RULES = ROOT / "deploy/prometheus/rules.yaml"
# Long enough on a busy machine.
WAIT_S = 120
SCRAPES = "500ms"


def program(name: str) -> str:
    """Returns the path of `prometheus` or `promtool`."""
    found = shutil.which(name)
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"{name} is not installed: apt-get install prometheus")
    return found


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs promtool and returns the finished process."""
    return subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)


class Prometheus:
    """Scrapes one port of 127.0.0.1 twice a second and evaluates the rules of deploy/prometheus."""

    def __init__(self, folder: Path, scraped_port: int) -> None:
        self._folder = folder / "prometheus"
        self._folder.mkdir()
        self._port = free_port()
        target = {"job_name": "oncegate", "static_configs": [{"targets": [f"127.0.0.1:{scraped_port}"]}]}
        every = {"scrape_interval": SCRAPES, "scrape_timeout": SCRAPES, "evaluation_interval": SCRAPES}
        config = {"global": every, "rule_files": [str(RULES)], "scrape_configs": [target]}
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Prometheus":
        """Starts the server; returns once it answers."""
        flags = {"config.file": "prometheus.yaml", "storage.tsdb.path": "data"}
        flags["web.listen-address"] = f"127.0.0.1:{self._port}"
        command = [program("prometheus"), *(f"--{name}={value}" for name, value in flags.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        self._until(lambda: self._answers() or None)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Evaluates a query now. Returns its series, each with `metric` (labels) and `value` (time and text)."""
        found: list[dict[str, Any]] = self._get("/api/v1/query", query=expr)["result"]
        return found

    def names(self) -> set[str]:
        """Returns the names of all metrics."""
        return set(self._get("/api/v1/label/__name__/values"))

    def wait_for(self, expr: str) -> None:
        """Returns once a query has a series; a comparison has one while it holds."""
        self._until(lambda: self.query(expr) or None)

    def _until(self, ask: Any) -> Any:
        end = time.monotonic() + WAIT_S
        while (answer := ask()) is None:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, (self._folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        return answer

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self._port}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()[:500]}") from error
