"""A topic that was deleted and recreated: its known records are refused, and both ways to continue are tested."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.direct import DirectRow, DirectWriter
from oncegate_spark.direct.transaction import LaneTransaction
from oncegate_spark.errors import OncegateError, Outcome
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.staged_batches import Batch, body

pytestmark = pytest.mark.slow


def url(broker: Broker, prefix: str) -> str:
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes"


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("served"), ledger=url(broker, "recreated")) as gateway:
        yield gateway


def write(gateway: GatewayProcess, topic: str, ids: list[str], id_set: str | None = None) -> int:
    rows = pa.table({"key": ids, "value": ids})
    with Gateway(gateway.url) as client, client.attempt(id_set=id_set) as attempt:
        return attempt.produce(topic, rows, id_col="key").rows


def make_again(broker: Broker, topic: str, partitions: int = 1) -> None:
    broker.admin.delete_topics([topic])[topic].result(WAIT_S)
    while topic in broker.admin.list_topics(timeout=WAIT_S).topics:
        pass
    broker.topic(partitions, topic)


def refused(gateway: GatewayProcess, topic: str, ids: list[str]) -> OncegateError:
    with pytest.raises(OncegateError) as raised:
        write(gateway, topic, ids)
    assert (raised.value.code, raised.value.outcome) == ("TOPIC_REPLACED", Outcome.NOT_WRITTEN), raised.value
    return raised.value


def forget_all(gateway: GatewayProcess, id_set: str) -> None:
    verb = [sys.executable, "-m", "oncegate", "forget", "--id-set", id_set, "--all", "--confirm", id_set]
    said = ["--reason", "its topic was made again", "--who", "ada", "--url", gateway.url]
    subprocess.run([*verb, *said], check=True, capture_output=True)


def test_ids_of_a_topic_that_was_made_again_are_refused_with_both_ways_on(
    broker: Broker, gateway: GatewayProcess
) -> None:
    partition = broker.topic()
    topic = partition.topic
    assert write(gateway, topic, ["a", "b"]) == 2
    make_again(broker, topic)
    for ids in (["a"], ["new"]):
        error = refused(gateway, topic, ids)
        assert "Write under a new id_set" in str(error)
        assert f"oncegate forget --id-set {topic} --all --namespace default" in str(error)
    assert broker.committed(partition) == []
    assert write(gateway, topic, ["a", "b"], id_set=f"{topic}-2") == 2
    assert sorted(broker.committed(partition)) == [b"a", b"b"]
    forget_all(gateway, topic)
    assert write(gateway, topic, ["a", "c"]) == 2
    assert write(gateway, topic, ["a", "c"]) == 0
    assert sorted(broker.committed(partition)) == [b"a", b"a", b"b", b"c"]
    status, audit = gateway.ask("GET", "/v1/namespaces/default/audit")
    assert (status, audit["actions"][0]["action"]) == (200, "forget --all")


def test_it_is_seen_after_a_restart_and_the_way_on_outlives_another(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    assert write(gateway, topic, ["a"]) == 1
    gateway.kill()
    make_again(broker, topic, partitions=3)
    gateway.start()
    refused(gateway, topic, ["a"])
    forget_all(gateway, topic)
    gateway.kill()
    gateway.start()
    assert write(gateway, topic, ["a"]) == 1
    gateway.kill()
    gateway.start()
    assert write(gateway, topic, ["a"]) == 0


def test_a_standby_that_takes_over_knows_which_topic_it_was(broker: Broker, tmp_path: Path) -> None:
    topic, ledger = broker.topic().topic, url(broker, "taken-over")
    for name in ("owner", "standby"):
        (tmp_path / name).mkdir()
    with GatewayProcess(tmp_path / "owner", "--standby", ledger=ledger) as owner:
        assert write(owner, topic, ["a"]) == 1
        standby = GatewayProcess(tmp_path / "standby", "--standby", ledger=ledger).stand_by()
        try:
            make_again(broker, topic)
            owner.kill()
            standby.wait_until("takes over", standby.is_ready)
            refused(standby, topic, ["a"])
            forget_all(standby, topic)
            assert write(standby, topic, ["a"]) == 1
        finally:
            standby.__exit__()


def test_a_topic_that_got_more_partitions_is_the_same_one(broker: Broker, gateway: GatewayProcess) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = broker.topic().topic
    assert write(gateway, topic, ["a"]) == 1
    broker.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_S)
    assert write(gateway, topic, ["a", "b"]) == 1


def test_each_topic_of_a_column_is_looked_at_and_named(broker: Broker, gateway: GatewayProcess) -> None:
    one, other = broker.topic().topic, broker.topic().topic
    rows = pa.table({"key": ["a", "b"], "value": ["a", "b"], "topic": [one, other]})
    with Gateway(gateway.url) as client, client.attempt() as attempt:
        assert attempt.produce("mixed", rows, id_col="key").rows == 2
        make_again(broker, other)
        assert attempt.produce("mixed", rows.slice(0, 1), id_col="key").rows == 0
        with pytest.raises(OncegateError, match=f"topic {other} was deleted and made again"):
            attempt.produce("mixed", rows, id_col="key")


def test_a_topic_that_is_gone_is_not_found_and_nothing_is_written(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic().topic
    assert write(gateway, topic, ["a"]) == 1
    broker.admin.delete_topics([topic])[topic].result(WAIT_S)
    while topic in broker.admin.list_topics(timeout=WAIT_S).topics:
        pass
    with pytest.raises(OncegateError) as raised:
        write(gateway, topic, ["a"])
    assert raised.value.code == "NOT_FOUND"


def write_sequences(gateway: GatewayProcess, topic: str, producer: str, *sequences: int) -> int:
    rows = pa.table({"value": [str(one) for one in sequences], "n": sequences})
    with Gateway(gateway.url) as client, client.producer(producer, driver=f"d-{producer}") as lane:
        return lane.produce(topic, body(rows), sequence_col="n").rows


def refused_sequences(gateway: GatewayProcess, topic: str, producer: str, *sequences: int) -> None:
    with pytest.raises(OncegateError, match="Write under another producer's name") as raised:
        write_sequences(gateway, topic, producer, *sequences)
    assert (raised.value.code, raised.value.outcome) == ("TOPIC_REPLACED", Outcome.NOT_WRITTEN), raised.value


def test_sequences_of_a_recreated_topic_are_refused_and_another_producer_continues(
    broker: Broker, gateway: GatewayProcess
) -> None:
    partition = broker.topic()
    topic = partition.topic
    assert write_sequences(gateway, topic, f"{topic}-p", 1, 2) == 2
    assert write_sequences(gateway, topic, f"{topic}-p", 1, 2, 3) == 1
    make_again(broker, topic)
    gateway.kill()
    gateway.start()
    for sequences in ((1, 2), (4,)):
        refused_sequences(gateway, topic, f"{topic}-p", *sequences)
    assert broker.committed(partition) == []
    assert write_sequences(gateway, topic, f"{topic}-q", 1, 2, 3) == 3
    assert write_sequences(gateway, topic, f"{topic}-q", 1, 2, 3) == 0
    assert sorted(broker.committed(partition)) == [b"1", b"2", b"3"]


def refused_batch(batch: Batch, steps: str) -> None:
    for step in steps.split():
        with pytest.raises(OncegateError, match="Two ways on: commit under another `app`") as raised:
            batch.stage(pa.table({"value": ["a"]})) if step == "stage" else batch.commit()
        assert (raised.value.code, raised.value.outcome) == ("TOPIC_REPLACED", Outcome.NOT_WRITTEN), raised.value


def test_batches_of_a_topic_that_was_made_again_are_refused_and_both_ways_on_write(
    broker: Broker, gateway: GatewayProcess
) -> None:
    partition = broker.topic()
    topic, rows = partition.topic, pa.table({"value": ["a"]})
    with Gateway(gateway.url) as client:
        first, next_one = Batch(client, topic, app=topic), Batch(client, topic, app=topic, version=1)
        first.stage(rows)
        assert first.commit().outcome == "COMMITTED"
        next_one.stage(rows)
        make_again(broker, topic)
        refused_batch(first, "stage commit")
        refused_batch(Batch(client, topic, "a-later-run", app=topic), "stage commit")
        refused_batch(next_one, "commit")
        assert broker.committed(partition) == []
        for version in (1, 0):
            other = Batch(client, topic, app=f"{topic}-2", version=version)
            other.stage(rows)
            assert (other.commit().outcome, other.commit().outcome) == ("COMMITTED", "COMMITTED")
    assert broker.committed(partition) == [b"a", b"a"]


def test_a_batch_of_several_topics_is_refused_where_one_of_them_was_made_again(
    broker: Broker, gateway: GatewayProcess
) -> None:
    one, other = broker.topic().topic, broker.topic().topic
    rows = pa.table({"value": ["a", "b"], "topic": [one, other]})
    with Gateway(gateway.url) as client:
        batch, next_one = (Batch(client, "mixed", app=one, version=version) for version in range(2))
        batch.stage(rows)
        assert batch.commit().outcome == "COMMITTED"
        next_one.stage(rows)
        make_again(broker, other)
        for refused_step in (lambda: batch.stage(rows), next_one.commit):
            with pytest.raises(OncegateError, match=f"topic {other} was deleted and made again"):
                refused_step()
        single = Batch(client, "mixed", app=one, version=2)
        single.stage(rows.slice(0, 1))
        assert single.commit().outcome == "COMMITTED"


def refused_lane(writer: DirectWriter, *sequences: int) -> None:
    with pytest.raises(OncegateError, match="Write under another producer's name") as raised:
        writer.write([DirectRow(one, b"%d" % one) for one in sequences])
    assert (raised.value.code, raised.value.outcome) == ("TOPIC_REPLACED", Outcome.NOT_WRITTEN), raised.value


def test_rows_of_a_lane_whose_topic_was_recreated_are_refused_and_another_producer_continues(
    broker: Broker, gateway: GatewayProcess
) -> None:
    partition = broker.topic()
    topic, rows = partition.topic, [DirectRow(one, b"%d" % one) for one in (1, 2)]
    with Gateway(gateway.url) as client:
        lives = DirectWriter(client, topic, "p")
        assert (lives.write(rows).written, lives.write(rows).written) == (2, 0)
        make_again(broker, topic)
        refused_lane(lives, 1, 2)
        gateway.kill()
        gateway.start()
        for sequences in ((1, 2), (2, 3), (3,)):
            refused_lane(DirectWriter(client, topic, "p"), *sequences)
        assert broker.committed(partition) == []
        other = DirectWriter(client, topic, "q")
        assert (other.write(rows).written, other.write(rows).written) == (2, 0)
    assert sorted(broker.committed(partition)) == [b"1", b"2"]


def test_a_lane_without_rows_is_written_into_the_topic_that_was_made_again(
    broker: Broker, gateway: GatewayProcess
) -> None:
    partition = broker.topic()
    topic = partition.topic
    with Gateway(gateway.url) as client:
        lane = client.open_lane(topic, "p")
        with LaneTransaction(client, (topic, "p"), lane) as begun:
            begun.start()
            assert begun.ask(1, 2) == ()
        make_again(broker, topic)
        assert DirectWriter(client, topic, "p").write([DirectRow(1, b"1")]).written == 1
    assert broker.committed(partition) == [b"1"]
