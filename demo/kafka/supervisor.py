"""One way into a Kafka topic: what the demo's supervisor does, and a broker and an owner that die."""

import subprocess
import time
from pathlib import Path

from demo.data import Flights
from demo.events import of_kind
from demo.faults import GATEWAY_KILL_STRIKES, state
from demo.kafka.owners import Owners
from demo.kafka.topics import name_of
from demo.plan import Plan
from demo.proxy import Trap
from demo.supervisor import Run, Tell
from deploy.kafka.cluster import Cluster
from deploy.kafka.probe import brokers_seen

NODE = 1
# The broker stays dead for so long after a task has handed over rows, so that these are sent in vain.
DEAD_S = 3


class KafkaRun(Run):
    """Runs one way on a broker. `jars`: the folder of Spark's Kafka connector."""

    module = "demo.kafka.job"

    def __init__(
        self,
        plan: Plan,
        name: str,
        folder: Path,
        logs: Path,
        flights: Flights,
        owners: Owners,
        tell: Tell,
        cluster: Cluster,
        jars: Path,
    ) -> None:
        super().__init__(plan, name, folder, logs, flights, owners.owner, tell)
        self._owners, self._cluster, self._jars = owners, cluster, jars

    def _more_arguments(self) -> list[str]:
        topic, brokers = name_of(self._name), self._cluster.bootstrap
        return ["--topic", topic, "--brokers", brokers, "--jars", str(self._jars)]

    def _sample(self) -> None:
        """Nothing: each record has its time."""

    def _tick(self, job: subprocess.Popen[bytes]) -> None:
        self._strike_broker()
        if self._gateway.alive and self._standby_is_due():
            self._owners.stand_by()
        super()._tick(job)

    def _standby_is_due(self) -> bool:
        """Whether this way is to meet the standby, and no longer an owner that is started again."""
        events, faults = self._events.all(), self._plan.faults_of(self._name)
        waiting = [fault.name for fault in faults if fault.gateway and state(fault, events) == "waiting"]
        is_served = all(state(fault, events) == "hit" for fault in faults if fault.name == "gateway_kill")
        return is_served and "standby_takeover" in waiting

    def _strike_broker(self) -> None:
        """SIGKILL once a task waits for it, and a start again some time after that task went on."""
        events = self._events.all()
        killed = of_kind(events, "injected", fault="broker_kill")
        if of_kind(events, "broker_due") and not killed:
            self._cluster.kill_node(NODE)
            answers = brokers_seen(self._cluster.ports[NODE - 1].clients) > 0
            self._events.say("injected", fault="broker_kill", answers=answers)
        handed = of_kind(events, "handed_over")
        if handed and not of_kind(events, "broker_serves_again") and time.monotonic() > handed[0]["t"] + DEAD_S:
            self._cluster.start_node(NODE)
            self._events.say("broker_serves_again")

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
