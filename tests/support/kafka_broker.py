"""A broker for tests, reached directly and through a proxy's port, with another client's view of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from deploy.kafka.access import ADMIN, CLIENT, OPEN, Access
from deploy.kafka.cluster import Cluster
from deploy.ports import free_ports
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.security import Security

WAIT_S = 60

_names = count()


class Broker:
    """A broker, at `bootstrap` and, through a proxy's port, at `proxied_bootstrap`."""

    def __init__(self, cluster: Cluster, behind: int, proxy_port: int) -> None:
        self.cluster, self.behind, self.proxy_port = cluster, behind, proxy_port
        self.admin = AdminClient({**self._as_admin(), "log_level": 0})

    @property
    def proxied_bootstrap(self) -> str:
        return f"127.0.0.1:{self.proxy_port}"

    def settings(self, user: str = CLIENT, **changed: str | None) -> dict[str, Any]:
        """Returns the arguments of a user's aiokafka client. `changed`: parameters of a ledger URL; None omits one."""
        parameters = self.cluster.access.parameters(self.cluster.files, user) | changed
        given = [(name, value) for name, value in parameters.items() if value is not None]
        return {"bootstrap_servers": self.cluster.bootstrap, **Security.parsed(given).client_arguments()}

    def _as_admin(self) -> dict[str, str]:
        access, files = self.cluster.access, self.cluster.files
        told = {"bootstrap.servers": self.cluster.bootstrap, "security.protocol": access.protocol}
        if access.sasl:
            told |= {"sasl.mechanism": "PLAIN", "sasl.username": ADMIN, "sasl.password": files.password(ADMIN)}
        if access.tls:
            told |= {"ssl.ca.location": str(files.authority), "ssl.key.location": str(files.key(ADMIN))}
            told["ssl.certificate.location"] = str(files.certificate(ADMIN))
        return told

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> Partition:
        """Creates a topic and returns its first partition."""
        name = name or f"topic-{next(_names)}"
        self.admin.create_topics(
            [
                NewTopic(
                    name,
                    partitions,
                    len(self.cluster.nodes),
                    config={key.replace("_", "."): value for key, value in config.items()},
                )
            ]
        )[name].result(WAIT_S)
        # The controller creates the topic; this broker learns of it a moment later.
        while name not in self.admin.list_topics(timeout=WAIT_S).topics:
            pass
        return Partition(name, 0)

    def committed(self, partition: Partition) -> list[bytes]:
        """Returns the values that another client reads from a partition."""
        return [message.value() for message in self.messages(partition)]

    def values(self, topic: str) -> list[bytes]:
        """Returns all non-null values of a topic with one partition."""
        return [value for value in self.committed(Partition(topic, 0)) if value is not None]

    def low(self, topic: str) -> int:
        """Returns the first retained offset of a topic with one partition."""
        return self._offset(topic, OffsetSpec.earliest())

    def ends(self, topic: str) -> tuple[int, int]:
        """Returns the last stable offset and the end offset of a topic with one partition."""
        levels = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        stable, end = (self._offset(topic, OffsetSpec.latest(), isolation_level=level) for level in levels)
        return stable, end

    def _offset(self, topic: str, spec: OffsetSpec, **more: Any) -> int:
        """Uses a new client: one that predates a broker restart insists on the leader epoch that it knows."""
        admin = AdminClient({**self._as_admin(), "log_level": 0})
        (answer,) = admin.list_offsets({TopicPartition(topic, 0): spec}, **more).values()
        return int(answer.result(WAIT_S).offset)

    def messages(self, partition: Partition, isolation: str = "read_committed") -> list[Message]:
        """Returns the messages of a partition up to its end, as another client reads them at this isolation level."""
        request = {
            **self._as_admin(),
            "group.id": "test",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            # The end is signalled by an empty answer, which a broker delays for this long.
            "fetch.wait.max.ms": 10,
        }
        consumer = Consumer({**request, "enable.partition.eof": True})
        consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING)])
        found = []
        try:
            while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
                found.append(message)
            assert message is not None, "the end of the topic was not reached"
            return found
        finally:
            consumer.close()


@contextmanager
def one_broker(folder: Path, access: Access = OPEN, **more: str) -> Iterator[Broker]:
    """Runs a broker with its files in `folder` until the context ends. Connections through the proxy do not use TLS.

    `more`: properties of the broker, with underscores for dots.
    """
    behind, proxy_port = free_ports(2)
    cluster = Cluster(folder, access=access)
    own, votes = cluster.ports[0].clients, cluster.ports[0].controllers
    unencrypted = Access(sasl=access.sasl)
    cluster.files.make(access)
    protocols = f"CLIENTS:{access.protocol},PROXY:{unencrypted.protocol},CONTROLLER:{access.protocol}"
    cluster.more = {
        "listeners": f"CLIENTS://127.0.0.1:{own},PROXY://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{votes}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{own},PROXY://127.0.0.1:{proxy_port}",
        "listener.security.protocol.map": protocols,
        **unencrypted.properties(cluster.files, ("proxy",)),
        # Clients that log in there by PLAIN must reauthenticate every minute.
        "listener.name.proxy.plain.connections.max.reauth.ms": "60000",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    with cluster:
        yield Broker(cluster, behind, proxy_port)
