"""A real gateway process for the bench, on a data folder of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def gateway(folder: Path) -> Iterator[int]:
    """Serve from `folder` until left; the port on 127.0.0.1."""
    port_file, log = folder / "port", (folder / "gateway.log").open("wb")
    command = [sys.executable, "-m", "oncegate", "serve", "--data", str(folder / "data"), "--port", "0"]
    process = subprocess.Popen([*command, "--port-file", str(port_file)], stdout=log, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 60
        while not port_file.exists() or not port_file.read_text().strip():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the gateway did not start: {(folder / 'gateway.log').read_text()}")
            time.sleep(0.02)
        yield int(port_file.read_text())
    finally:
        process.terminate()
        process.wait(30)
        log.close()
