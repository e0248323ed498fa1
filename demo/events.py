"""What happened in a run, told by several processes into one file: a JSON object a line.

Appended by single writes, so lines of parallel tasks never mix. Times are CLOCK_MONOTONIC in seconds, the same
clock in every process of one machine.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Events:
    """The event file of one run. Cheap to make; what it has read once it keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: list[Event] = []
        self._read_bytes = 0

    def say(self, kind: str, **fields: Any) -> None:
        """Appends one event; on disk for other processes when this returns (a killed process keeps what it said)."""
        line = json.dumps({"kind": kind, "t": time.monotonic(), **fields}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def all(self) -> list[Event]:
        """Every whole event so far, oldest first."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                more = file.read()
            whole = more[: more.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            self._seen += [json.loads(line) for line in whole.splitlines()]
        return list(self._seen)

    def first_time(self, name: str) -> bool:
        """True exactly once per run and name, whichever process asks, restarts included."""
        try:
            os.close(os.open(self.path.with_name(f"once-{name}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def of_kind(events: list[Event], kind: str, **fields: Any) -> list[Event]:
    """The events of a kind whose members equal all of `fields`."""
    return [e for e in events if e["kind"] == kind and all(e.get(name) == value for name, value in fields.items())]
