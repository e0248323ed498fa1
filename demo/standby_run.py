"""Supervises one way on a ledger on servers: a run of the demo, and an owner that is killed while it has a standby."""

import subprocess
from pathlib import Path

from demo.data import Flights
from demo.faults import GATEWAY_KILL_STRIKES, state
from demo.owners import Owners
from demo.plan import Plan
from demo.proxy import Trap
from demo.supervisor import Run, Tell


class StandbyRun(Run):
    """A run of one way on the owner of the ledger or, after its death, on the standby."""

    def __init__(
        self, plan: Plan, name: str, folder: Path, logs: Path, flights: Flights, owners: Owners, tell: Tell
    ) -> None:
        super().__init__(plan, name, folder, logs, flights, owners.owner, tell)
        self._owners = owners

    def _tick(self, job: subprocess.Popen[bytes]) -> None:
        if self._gateway.alive and self._standby_is_due():
            self._owners.stand_by()
        super()._tick(job)

    def _standby_is_due(self) -> bool:
        """Returns whether the next death of the owner is followed by a takeover rather than a restart."""
        events, faults = self._events.all(), self._plan.faults_of(self._name)
        waiting = [fault.name for fault in faults if fault.gateway and state(fault, events) == "waiting"]
        is_served = all(state(fault, events) == "hit" for fault in faults if fault.name == "gateway_kill")
        return is_served and "standby_takeover" in waiting

    def _revive(self) -> None:
        standby = self._owners.revive()
        self._gateway = self._owners.owner
        self._proxy.upstream_port = self._gateway.port
        self._events.say("gateway_serves_again", standby=standby)

    def _traps(self) -> list[Trap]:
        def kill_owner(request: str) -> None:
            stood_by = self._owners.await_standby()
            struck = {"request": request, "stood_by": stood_by, "exit_status": self._gateway.kill()}
            self._events.say("injected", fault="standby_takeover", **struck)

        return [*super()._traps(), *self._trap("standby_takeover", GATEWAY_KILL_STRIKES, kill_owner)]
