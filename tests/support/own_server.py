"""A database server for tests, under its own user and in its own data folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest


def program(path: str | None, name: str, package: str) -> str:
    """Returns the path of a server's program. If it is missing, skips the test; with CI=true the test fails."""
    if path is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"{name} is not installed: apt-get install {package}")
    return path


class OwnServer:
    """Starts and stops one server. As root it runs as `user`, because these servers refuse to run as root."""

    def __init__(self, user: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{user}-"))  # pytest's own folders are closed to other users
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, user, user)
            self._as = {"user": user, "group": user, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, make: Sequence[str], serve: Sequence[str], answers: Callable[[], bool]) -> None:
        """Creates the data folder and starts the server; returns once it answers."""
        subprocess.run(make, check=True, capture_output=True, cwd=self.folder, **self._as)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(serve, stdout=log, stderr=log, cwd=self.folder, **self._as)
        while not answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
