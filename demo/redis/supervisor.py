"""Supervises one way on a Redis ledger: a run with a standby, and a server that is killed."""

import subprocess
import time
from pathlib import Path

from demo.data import Flights
from demo.events import of_kind
from demo.faults import GATEWAY_KILL_STRIKES
from demo.owners import Owners
from demo.plan import Plan
from demo.proxy import Trap
from demo.redis.server import RedisServer
from demo.standby_run import StandbyRun
from demo.supervisor import Tell

# Downtime of the server after the retry of the lost request, so that the retry fails.
DEAD_S = 3


class RedisRun(StandbyRun):
    """Runs one way on a Redis server."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        folder: Path,
        logs: Path,
        flights: Flights,
        owners: Owners,
        tell: Tell,
        server: RedisServer,
    ) -> None:
        super().__init__(plan, name, folder, logs, flights, owners, tell)
        self._server = server

    def _tick(self, job: subprocess.Popen[bytes]) -> None:
        self._start_server_again()
        super()._tick(job)

    def _start_server_again(self) -> None:
        events = self._events.all()
        killed = of_kind(events, "injected", fault="server_kill")
        if not killed or of_kind(events, "server_serves_again"):
            return
        again = [event for event in of_kind(events, "repeat_seen") if event["request"] == killed[0]["request"]]
        if again and time.monotonic() > again[0]["t"] + DEAD_S:
            self._server.start()
            self._events.say("server_serves_again")

    def _traps(self) -> list[Trap]:
        def kill_server(request: str) -> None:
            struck = {"request": request, "exit_status": self._server.kill()}
            self._events.say("injected", fault="server_kill", **struck)

        return [*super()._traps(), *self._trap("server_kill", GATEWAY_KILL_STRIKES, kill_server)]
