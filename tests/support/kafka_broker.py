"""One broker for tests, reached directly and through a proxy's port, with what another client reads of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.kafka.cluster import Cluster, free_ports
from oncegate.ledgers.kafka.guard import Partition

WAIT_S = 60

_names = count()


class Broker:
    """One broker, at `bootstrap` and, through a proxy's port, at `proxied_bootstrap`."""

    def __init__(self, cluster: Cluster, behind: int, proxy_port: int) -> None:
        self.cluster, self.behind, self.proxy_port = cluster, behind, proxy_port
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    @property
    def proxied_bootstrap(self) -> str:
        return f"127.0.0.1:{self.proxy_port}"

    def topic(self, partitions: int = 1, **config: str) -> Partition:
        """A new topic, and its first partition; others are named by the test."""
        name = f"topic-{next(_names)}"
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(WAIT_S)
        return Partition(name, 0)

    def committed(self, partition: Partition) -> list[bytes]:
        """The values that another client reads of it."""
        return [message.value() for message in self.messages(partition)]

    def messages(self, partition: Partition) -> list[Message]:
        """What another client reads of it, up to its end, of committed transactions."""
        asked = {"bootstrap.servers": self.cluster.bootstrap, "group.id": "test", "isolation.level": "read_committed"}
        consumer = Consumer({**asked, "enable.partition.eof": True})
        consumer.assign([TopicPartition(*partition, 0)])
        found = []
        try:
            while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
                found.append(message)
            assert message is not None, "the end of the topic was not reached"
            return found
        finally:
            consumer.close()


@contextmanager
def one_broker(folder: Path) -> Iterator[Broker]:
    """A broker that keeps its files in `folder`, until the context ends."""
    behind, proxy_port = free_ports(2)
    cluster = Cluster(folder)
    own, votes = cluster.ports[0].clients, cluster.ports[0].controllers
    cluster.more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{own},PROXY://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{votes}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own},PROXY://127.0.0.1:{proxy_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with cluster:
        yield Broker(cluster, behind, proxy_port)
