"""Makes ids for events of writers that have none, which carry their time, and tells which ids are too old to judge.

An id is server, process and timestamp, the timestamp strictly increasing within a process: as the event ids of Photon
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
SKEW_MS = 60_000  # by how much the clocks of writers and of those who judge ids may differ; NTP keeps them far closer
_SERVER = re.compile(r"[A-Za-z0-9.-]{1,100}")
_ID = re.compile(r"([0-9a-f]{12})-([0-9a-f]{4,})-([0-9a-f]+)@([A-Za-z0-9.-]{1,100})")


def system_wall_ms() -> int:
    """Return milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class EventIds:
    """Makes ids of one process, `<milliseconds>-<number>-<process>@<server>` in hexadecimal, for any of its threads.

    The process's number is the epoch of a registration with the gateway, which gives each one once: so no id comes
    twice, whatever the clocks do and however late a process that was paused goes on. No lease has to be renewed for
    that. Ids of one process grow, as texts too; give each event its id once, and keep it with the event over retries.

    server: any name for the machine, the same or not at every start; without it the host's. Raises what the gateway's
    calls raise, and BadOption: no id was made.
    """

    def __init__(
        self, gateway: Gateway, server: str | None = None, *, wall_ms: Callable[[], int] = system_wall_ms
    ) -> None:
        self.server = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:100] if server is None else server
        if not _SERVER.fullmatch(self.server):
            raise BadOption(f"server is {self.server!r}; it is letters, digits, . and -, at most 100; nothing was sent")
        self.process = gateway.driver(DRIVER + self.server).register().epoch
        self._wall_ms, self._lock = wall_ms, threading.Lock()
        self._last_ms, self._number = 0, 0

    def next(self) -> str:
        """Return an id that nobody else has, greater than those before it."""
        with self._lock:
            now_ms = max(self._wall_ms(), self._last_ms)
            self._number = self._number + 1 if now_ms == self._last_ms else 0
            self._last_ms = now_ms
            if self._number > 0xFFFF:
                self._last_ms, self._number = now_ms + 1, 0
            return f"{self._last_ms:012x}-{self._number:04x}-{self.process:x}@{self.server}"


def time_ms_of(event_id: str) -> int:
    """Return when an id was made, in milliseconds since 1970 by its writer's clock. Raises BadId for any other text."""
    match = _ID.fullmatch(event_id)
    if match is None:
        raise BadId(f"{event_id!r} is no id that EventIds makes, so it does not carry its time")
    return int(match[1], 16)


class Horizon:
    """Tells which ids are older than what the namespace still knows: they are STALE, neither new nor duplicates.

    A done id is forgotten once the namespace's horizon has passed since its completion, and is new from then on. An id
    of EventIds says when it was made, so who asks can be told instead. skew_ms: an id is stale so much earlier, for the
    clocks of its writer, of the gateway and of this machine are not one. A namespace without horizon has none stale.
    The horizon is looked up once: make another object after it was changed.
    """

    def __init__(
        self, gateway: Gateway, *, skew_ms: int = SKEW_MS, wall_ms: Callable[[], int] = system_wall_ms
    ) -> None:
        horizon_ms = gateway.describe()["horizon_ms"]
        self._kept_ms = max(0, horizon_ms - skew_ms) if horizon_ms else None
        self._wall_ms = wall_ms

    def stale(self, ids: Sequence[str]) -> set[str]:
        """Return those that are too old to be judged. Raises BadId for an id that does not carry its time."""
        times = {event_id: time_ms_of(event_id) for event_id in ids}
        if self._kept_ms is None:
            return set()
        oldest_ms = self._wall_ms() - self._kept_ms
        return {event_id for event_id, made_ms in times.items() if made_ms <= oldest_ms}
