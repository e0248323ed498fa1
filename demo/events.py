"""The events of a run, which several processes append to one file, a JSON object per line.

Each line is a single write, so lines of parallel tasks never mix. Times are CLOCK_MONOTONIC in seconds, the same clock
in every process of a machine.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Events:
    """The event file of a run; it caches the events that it has read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: list[Event] = []
        self._read_bytes = 0

    def say(self, kind: str, **fields: Any) -> None:
        """Appends an event; it is visible to other processes, and survives a kill of this one, when this returns."""
        line = json.dumps({"kind": kind, "t": time.monotonic(), **fields}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def all(self) -> list[Event]:
        """Returns every complete event so far, oldest first."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                more = file.read()
            whole = more[: more.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            self._seen += [json.loads(line) for line in whole.splitlines()]
        return list(self._seen)

    def first_time(self, name: str) -> bool:
        """Returns true exactly once per run and name, across all processes and restarts."""
        try:
            os.close(os.open(self.path.with_name(f"once-{name}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def of_kind(events: list[Event], kind: str, **fields: Any) -> list[Event]:
    """Returns the events of a kind whose members equal all of `fields`."""
    return [e for e in events if e["kind"] == kind and all(e.get(name) == value for name, value in fields.items())]
