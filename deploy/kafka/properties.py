"""Properties of brokers, as KRaft nodes that are broker and controller in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.kafka.access import OPEN, Access, Files
from deploy.kafka.probe import ADDRESS


@dataclass(frozen=True)
class Ports:
    """Ports of a broker: `clients` for its users, `controllers` for the quorum."""

    clients: int
    controllers: int


def properties(
    folder: Path, node: int, ports: Sequence[Ports], more: Mapping[str, str] = {}, access: Access = OPEN
) -> dict[str, str]:
    """Returns the properties of broker `node`, counted from 1; `more` takes precedence."""
    own = ports[node - 1]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@{ADDRESS}:{port.controllers}" for n, port in enumerate(ports, 1)),
        "listeners": f"CLIENTS://{ADDRESS}:{own.clients},CONTROLLER://{ADDRESS}:{own.controllers}",
        "advertised.listeners": f"CLIENTS://{ADDRESS}:{own.clients}",
        "listener.security.protocol.map": f"CLIENTS:{access.protocol},CONTROLLER:{access.protocol}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "log.dirs": str(folder / f"broker-{node}"),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        # Retention uses the records' own timestamps, so an event of last year would be deleted at once.
        "log.retention.ms": "-1",
        **_copies(len(ports)),
        **access.properties(Files(folder)),
        **more,
    }


def as_file(settings: Mapping[str, str]) -> str:
    """Formats properties as a file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _copies(brokers: int) -> dict[str, str]:
    """Returns replication settings: as many replicas as brokers, one of which may be missing; few partitions, for
    tests.
    """
    copies, in_sync = str(min(brokers, 3)), str(max(1, min(brokers, 3) - 1))
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        **{f"{topic}.replication.factor": copies for topic in internal},
        **{f"{topic}.min.isr": in_sync for topic in internal[1:]},
        **{f"{topic}.num.partitions": "4" for topic in internal},
    }
