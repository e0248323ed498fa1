"""Event ids that contain their creation time, for events without an id; detects ids too old for the gateway to judge.

An id combines server, process and timestamp, strictly increasing within a process, like the event ids of Photon
(Ananthanarayanan et al., "Photon: Fault-tolerant and Scalable Joining of Continuous Data Streams", SIGMOD 2013).
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Sequence

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.sync.gateway import Gateway

DRIVER = "event-ids@"
SKEW_MS = 60_000  # allowed difference between the clocks of writers and of judges; NTP keeps them far closer
_SERVER = re.compile(r"[A-Za-z0-9.-]{1,100}")
_ID = re.compile(r"([0-9a-f]{12})-([0-9a-f]{4,})-([0-9a-f]+)@([A-Za-z0-9.-]{1,100})")


def system_wall_ms() -> int:
    """Returns milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class EventIds:
    """Generates ids of one process, `<milliseconds>-<number>-<process>@<server>` in hexadecimal; thread-safe.

    The process number is the epoch of a registration with the gateway, which never assigns one twice. Ids are therefore
    unique even if clocks go back or a paused process resumes late, and no lease is needed. Ids of one process increase,
    as text too. Assign each event its id once, and store it with the event across retries.

    `server`: any name for this machine, constant or not; by default the host name. Raises BadOption for an invalid
    name, and errors of the gateway's calls: no id was made.
    """

    def __init__(
        self, gateway: Gateway, server: str | None = None, *, wall_ms: Callable[[], int] = system_wall_ms
    ) -> None:
        self.server = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:100] if server is None else server
        if not _SERVER.fullmatch(self.server):
            raise BadOption(
                f"server is {self.server!r}; it must be at most 100 letters, digits, . and -; nothing was sent"
            )
        self.process = gateway.driver(DRIVER + self.server).register().epoch
        self._wall_ms, self._lock = wall_ms, threading.Lock()
        self._last_ms, self._number = 0, 0

    def next(self) -> str:
        """Returns a globally unique id, greater than this object's previous ones."""
        with self._lock:
            now_ms = max(self._wall_ms(), self._last_ms)
            self._number = self._number + 1 if now_ms == self._last_ms else 0
            self._last_ms = now_ms
            if self._number > 0xFFFF:
                self._last_ms, self._number = now_ms + 1, 0
            return f"{self._last_ms:012x}-{self._number:04x}-{self.process:x}@{self.server}"


def time_ms_of(event_id: str) -> int:
    """Returns the creation time of an id, in ms since 1970 by its writer's clock. Raises BadId for other texts."""
    match = _ID.fullmatch(event_id)
    if match is None:
        raise BadId(f"{event_id!r} was not made by EventIds, so it does not contain its time")
    return int(match[1], 16)


class Horizon:
    """Detects ids older than the namespace's memory: they are STALE, neither new nor duplicates.

    A completed id is forgotten once the namespace's retention of ids has passed, and would be new afterwards. The time
    in an id of EventIds detects this. `skew_ms`: safety margin for the clocks of writer, gateway and this machine.
    Without a retention of ids nothing is stale. The retention is read once: create a new object after changing it.
    """

    def __init__(
        self, gateway: Gateway, *, skew_ms: int = SKEW_MS, wall_ms: Callable[[], int] = system_wall_ms
    ) -> None:
        horizon_ms = gateway.describe()["horizon_ms"]
        self._kept_ms = max(0, horizon_ms - skew_ms) if horizon_ms else None
        self._wall_ms = wall_ms

    def stale(self, ids: Sequence[str]) -> set[str]:
        """Returns the ids that are too old to be judged. Raises BadId for an id without a time."""
        times = {event_id: time_ms_of(event_id) for event_id in ids}
        if self._kept_ms is None:
            return set()
        oldest_ms = self._wall_ms() - self._kept_ms
        return {event_id for event_id, made_ms in times.items() if made_ms <= oldest_ms}
