"""Supervises one way into a Kafka topic: a run with a standby, and a broker that is killed."""

import subprocess
import time
from pathlib import Path

from demo.data import Flights
from demo.events import of_kind
from demo.kafka.topics import name_of
from demo.owners import Owners
from demo.plan import Plan
from demo.standby_run import StandbyRun
from demo.supervisor import Tell
from deploy.kafka.cluster import Cluster
from deploy.kafka.probe import brokers_seen

NODE = 1
# Downtime of the broker after a task has handed over rows, so that sending them fails.
DEAD_S = 3


class KafkaRun(StandbyRun):
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
        super().__init__(plan, name, folder, logs, flights, owners, tell)
        self._cluster, self._jars = cluster, jars

    def _more_arguments(self) -> list[str]:
        topic, brokers = name_of(self._name), self._cluster.bootstrap
        return ["--topic", topic, "--brokers", brokers, "--jars", str(self._jars)]

    def _sample(self) -> None:
        """Does nothing: each record has a timestamp."""

    def _tick(self, job: subprocess.Popen[bytes]) -> None:
        self._strike_broker()
        super()._tick(job)

    def _strike_broker(self) -> None:
        """Kills the broker once a task waits for it, and restarts it some time after that task has continued."""
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
