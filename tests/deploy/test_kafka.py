"""Apache Kafka brokers started from jars: killed, restarted, stopped."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from urllib.parse import parse_qsl

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.kafka.access import ADMIN, Access, AccessRefused
from deploy.kafka.cluster import BrokerDied, Cluster
from deploy.kafka.jars import BROKER, CONNECTOR, TOOLS, JarSet, JarsMissing, check, fetched
from deploy.kafka.probe import brokers_seen
from oncegate.ledgers.kafka.security import Security

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
# How long a client waits for a broker on a busy machine.
WAIT_S = 60
ALL = Access(sasl=True, tls=True, client_certificates="required", acls=True)


def make_topic(cluster: Cluster, copies: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("flights", 1, copies)])["flights"].result(WAIT_S)


def write(cluster: Cluster, *values: str) -> None:
    """Writes rows and waits until all in-sync replicas hold them."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce("flights", value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert (producer.flush(WAIT_S), failed) == (0, [])


def read(cluster: Cluster, rows: int) -> list[str]:
    request = {"bootstrap.servers": cluster.bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer(request)
    consumer.assign([TopicPartition("flights", 0, 0)])
    try:
        found = consumer.consume(rows, WAIT_S)
        for message in found:
            if message.error():
                raise KafkaException(message.error())
        return [message.value().decode() for message in found]
    finally:
        consumer.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, 3) as cluster:
        yield cluster


def test_rows_outlive_their_only_broker(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        make_topic(cluster, 1)
        write(cluster, "a", "b")
        cluster.kill_node(1)
        assert brokers_seen(cluster.ports[0].clients) == 0
        cluster.start_node(1)
        write(cluster, "c")
        assert read(cluster, 3) == ["a", "b", "c"]
    assert brokers_seen(cluster.ports[0].clients) == 0
    with cluster:
        assert read(cluster, 3) == ["a", "b", "c"], "started again over the same folder"


def test_three_brokers_accept_rows_while_one_is_dead_and_a_paused_one_recovers(three: Cluster) -> None:
    make_topic(three, 3)
    write(three, "a")
    three.kill_node(1)
    write(three, "b")
    three.start_node(1)
    three.pause_node(2)
    three.resume_node(2)
    write(three, "c")
    assert read(three, 3) == ["a", "b", "c"]


def test_a_broker_that_cannot_start_reports_the_reason_and_leaves_no_process(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, more={"log.segment.bytes": "1"})
    with pytest.raises(BrokerDied, match=r"log\.segment\.bytes"):
        cluster.start()
    assert brokers_seen(cluster.ports[0].clients) == 0


def test_a_port_where_another_broker_answers_is_refused(tmp_path: Path) -> None:
    with Cluster(tmp_path / "first") as first, pytest.raises(BrokerDied, match="is in use"):
        Cluster(tmp_path / "second", first_port=first.ports[0].clients).start()


@pytest.mark.parametrize(
    ("jars", "named"),
    [(BROKER, "kafka_2.13-*.jar"), (CONNECTOR, "spark-sql-kafka-*.jar"), (TOOLS, "kafka-tools-*.jar")],
    ids=["broker", "connector", "tools"],
)
def test_jars_that_are_missing_or_others_are_refused_by_name(tmp_path: Path, jars: JarSet, named: str) -> None:
    check(fetched(jars), jars)
    for spoiled in ("missing", "another"):
        folder = copytree(fetched(jars), tmp_path / spoiled)
        (jar,) = folder.glob(named)
        jar.unlink() if spoiled == "missing" else jar.write_bytes(b"another")
        with pytest.raises(JarsMissing, match=rf"not the jars of deploy/kafka/{jars.hashes}: {jar.name}"):
            check(folder, jars)


def test_a_broker_that_asks_for_users_certificates_and_rights_starts_again_with_them(tmp_path: Path) -> None:
    for _ in range(2):
        with Cluster(tmp_path, access=ALL) as cluster:
            port = cluster.ports[0].clients
            assert brokers_seen(port, ALL, cluster.files) == 1
            assert brokers_seen(port) == 0, "a client without credentials sees no broker"


def test_brokers_know_one_another_as_their_admin(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3, access=ALL) as cluster:
        assert brokers_seen(cluster.ports[0].clients, ALL, cluster.files) == 3


def test_brokers_know_one_another_by_certificates_alone(tmp_path: Path) -> None:
    access = Access(tls=True, client_certificates="requested", acls=True)
    with Cluster(tmp_path, 3, access=access) as cluster:
        assert brokers_seen(cluster.ports[0].clients, access, cluster.files) == 3


def test_passwords_and_keys_are_their_owners_alone_and_on_no_command_line(tmp_path: Path) -> None:
    access = Access(sasl=True)
    with Cluster(tmp_path, access=access) as cluster:
        password = cluster.files.password(ADMIN)
        holders = [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
        lines = [" ".join(process.cmdline()) for process in psutil.Process().children()]
        assert any("kafka.Kafka" in line for line in lines)
        assert all(password not in line for line in lines)
        assert password not in cluster.log(1)
    assert {path.name for path in holders} == {"admin.password", "broker-1.properties"}
    assert {path.stat().st_mode & 0o777 for path in holders} == {0o600}


@pytest.mark.parametrize("made", [Access(), Access(sasl=True)])
def test_a_folder_that_was_made_with_another_access_is_refused_before_anything_starts(
    made: Access, tmp_path: Path
) -> None:
    with Cluster(tmp_path, access=made):
        pass
    with pytest.raises(AccessRefused, match="use the same, or another --data"):
        Cluster(tmp_path, access=Access(sasl=True, tls=True)).start()


@pytest.mark.parametrize("options", ["--acls", "--acls --tls", "--client-certificates required", "--sasl plain"])
def test_options_that_do_nothing_alone_are_refused_in_one_line(options: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.kafka", "--data", str(tmp_path), *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    said = done.stderr.splitlines()[-1]
    assert options.split()[0] in said or "plain" in said
    assert "Traceback" not in done.stderr


def test_the_command_prints_how_clients_connect(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.kafka", "--port", "0", "--data", str(tmp_path), "--sasl", "--tls"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("brokers at ")
        query = process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    security = Security.parsed(parse_qsl(query, strict_parsing=True))
    assert (security.protocol, security.username) == ("SASL_SSL", "oncegate")


def test_the_command_prints_where_its_brokers_are_and_ends_them_with_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.kafka", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline().split()
        port = int(told[2].rpartition(":")[2])
        assert told[:2] == ["brokers", "at"]
        assert brokers_seen(port) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert brokers_seen(port) == 0
