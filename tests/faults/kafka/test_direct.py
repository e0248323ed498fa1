"""Clients that write into Kafka directly, on a real broker: each row is written once despite deaths, sleeps and
replays."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from oncegate.engine.usecases.direct.entering import TRIM_RECORDS
from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Fenced, Gateway, Refused, SinkRefused
from oncegate_spark.direct import DirectRow, DirectWriter, DirectWritten
from oncegate_spark.errors import BadId, BadOption, OncegateError, OutOfOrder, TaskFailed
from oncegate_spark.spark.writers.direct import acked
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_lanes import (
    ProxyBeside,
    open_record,
    proxy_beside,
    rows,
    serving,
    transaction,
    writer,
    written,
)
from tests.support.kafka_proxy import END_TXN, PRODUCE
from tests.support.lane_queries import Query
from tests.support.tree import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with serving(broker, tmp_path_factory.mktemp("gateway"), "direct") as gateway:
        yield gateway


@pytest.fixture
def gateway(served: GatewayProcess) -> Iterator[Gateway]:
    with Gateway(served.url) as client:
        yield client


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.topic().topic


def test_each_row_is_written_once_however_often_it_is_brought(gateway: Gateway, broker: Broker, topic: str) -> None:
    row = DirectRow(17, b"v", b"k", [("h", b"1")], partition=0, timestamp_ms=1_700_000_000_000)
    assert writer(gateway, topic).write([row]) == DirectWritten(1, 0)
    assert writer(gateway, topic).write([row, *rows(18, 20)]) == DirectWritten(2, 1)
    assert writer(gateway, topic).write(rows(16, 17, 19, 20)) == DirectWritten(2, 2)
    assert writer(gateway, topic, "q").write(rows(17)) == DirectWritten(1, 0), "another producer's"
    first, *others = broker.messages(Partition(topic, 0))
    assert (first.value(), first.key(), first.headers(), first.timestamp()[1]) == (
        b"v", b"k", [("h", b"1")], 1_700_000_000_000,
    )  # fmt: skip
    assert sorted(one.value() for one in others) == [b"16", b"17", b"18", b"19", b"20"]


def test_acked_sequences_are_known_by_one_number_after_a_restart_too(
    served: GatewayProcess, gateway: Gateway, broker: Broker, topic: str
) -> None:
    holes = range(0, 60, 2)  # as transaction markers of the source leave them
    assert writer(gateway, topic).write(rows(*holes)) == DirectWritten(30, 0)
    assert writer(gateway, topic).write(rows(60, 62), acked=58) == DirectWritten(2, 0)
    with pytest.raises(Refused, match="that is as high was written"):
        writer(gateway, topic).write(rows(100), acked=99)
    served.kill()
    served.start()
    assert gateway.ask_lane(topic, "p", 0, 99) == ((0, 58), (60, 60), (62, 62))
    assert writer(gateway, topic).write(rows(*holes)) == DirectWritten(0, 30)
    assert written(broker, topic) == [*holes, 60, 62]


def lane(name: str, *sequences: int) -> pa.RecordBatch:
    """Returns rows of one lane of a query."""
    values = pa.array([str(one).encode() for one in sequences])
    return pa.RecordBatch.from_pydict({"lane": [name] * len(sequences), "at": list(sequences), "value": values})


def query(gateway: Gateway, topic: str, folder: Path) -> Query:
    return Query(gateway, folder, write="direct", topic=topic, producerCol="lane", sequenceCol="at")


def test_a_query_acks_the_batches_in_its_commit_log_with_its_next_questions(
    gateway: Gateway, broker: Broker, topic: str, tmp_path: Path
) -> None:
    job = query(gateway, topic, tmp_path)
    for batch in range(6):
        first = 20 * batch
        sequences = [*range(first, first + 10, 2)]
        job.commit(batch, job.write(batch, lane("a", *sequences), lane("a", first + 13)))
        holes = tuple((one, one) for one in (*sequences, first + 13))
        before = ((0, first - 7),) if batch else ()
        assert gateway.ask_lane(topic, "a", 0, 200) == before + holes, "one interval, and those of the last batch"
        job.log(batch)
    (tmp_path / "commits" / "5").unlink()  # as if a driver had died before writing it
    again = job.write(5, lane("a", *range(100, 110, 2)), lane("b", 3))
    assert (again.written, again.suppressed) == (1, 5), "a repeated batch is reported and not acked by itself"
    assert gateway.ask_lane(topic, "b", 0, 9) == ((3, 3),)
    assert len(broker.committed(Partition(topic, 0))) == 6 * 6 + 1


def test_a_batch_that_may_come_again_is_not_acked_and_its_holes_may_be_filled(
    gateway: Gateway, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A task that saw fewer rows than its retry, for example because a filter read other data."""
    job = query(gateway, topic, tmp_path)
    job.commit(0, job.write(0, lane("a", 1, 3)))
    job.log(0)
    job.commit(1, job.write(1, lane("a", 5, 9)))
    restarted = query(gateway, topic, tmp_path).write(1, lane("a", 5, 7, 9))
    assert (restarted.written, restarted.suppressed) == (1, 2)
    assert written(broker, topic) == [1, 3, 5, 7, 9]
    assert gateway.ask_lane(topic, "a", 0, 20) == ((0, 3), (5, 5), (7, 7), (9, 9))


@pytest.mark.parametrize("first", [7, 9])
def test_rows_that_come_behind_their_ack_fail_their_task_and_are_not_dropped(
    gateway: Gateway, broker: Broker, topic: str, tmp_path: Path, first: int
) -> None:
    job = query(gateway, topic, tmp_path)
    job.commit(0, job.write(0, lane("a", 1, 9)))
    job.log(0)
    with pytest.raises(TaskFailed, match=rf"has sequence {first}, but earlier batches, .*, had all up to 9") as late:
        job.write(1, lane("a", first, 11))
    assert isinstance(late.value.__cause__, OutOfOrder)
    assert written(broker, topic) == [1, 9]


def test_an_ack_of_a_lane_that_is_another_ledgers_fails_no_batch(
    gateway: Gateway, broker: Broker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = query(gateway, topic, tmp_path)
    acked.note(job.options, str(tmp_path), 0, [{"a": 9}])
    job.log(0)
    assert job.write(1, lane("a", 11)).written == 1
    assert "the lane of producer a could not be acked up to 9" in caplog.text
    assert written(broker, topic) == [11]


def test_a_twin_that_starts_later_fences_the_one_before(gateway: Gateway, broker: Broker, topic: str) -> None:
    with transaction(gateway, topic) as first, transaction(gateway, topic) as second:
        first.start()
        assert first.ask(0, 9) == ()
        first.add(rows(*range(10)))
        second.start()
        assert second.ask(0, 9) == ()
        second.add(rows(*range(10)))
        with pytest.raises(Fenced, match="a later writer owns this lane"):
            first.commit()
        assert second.commit() == 10
    assert written(broker, topic) == list(range(10))
    assert gateway.ask_lane(topic, "p", 0, 99) == ((0, 9),)


def test_a_twin_that_starts_after_the_others_commit_gets_an_error(gateway: Gateway, topic: str) -> None:
    with transaction(gateway, topic) as first, transaction(gateway, topic) as second:
        first.start()
        first.add(rows(*range(10)))
        assert first.commit() == 10
        second.start()
        assert second.ask(5, 14) == ((5, 9),)


def committed(gateway: Gateway, topic: str, some: list[DirectRow]) -> int:
    with transaction(gateway, topic) as one:
        one.start()
        one.add(some)
        return one.commit()


def test_a_row_that_no_broker_takes_is_refused_and_nothing_is_unknown(gateway: Gateway, broker: Broker) -> None:
    topic = broker.topic(max_message_bytes="1000").topic
    for body in (b"x" * 2_000, b"x" * 2_000_000):  # too large for this topic; for the client itself
        with pytest.raises(SinkRefused, match=r"size too large.*nothing was written"):
            committed(gateway, topic, [*rows(0), DirectRow(1, body)])
    with pytest.raises(Refused, match="timestamp 0"):
        committed(gateway, topic, [DirectRow(0, b"0", timestamp_ms=0)])
    assert writer(gateway, topic).write(rows(0)) == DirectWritten(1, 0)
    assert written(broker, topic) == [0]


def kill_a_writer(beside: ProxyBeside, fault: str, arguments: list[str]) -> None:
    """Starts a process that writes, and kills it once the proxy has seen the end of its transaction."""
    beside.do(fault, END_TXN)
    process = subprocess.Popen([sys.executable, "-m", "tests.support.direct_process", *arguments], cwd=ROOT)
    beside.wait_until_held()
    process.kill()
    process.wait()


def test_a_writer_killed_between_its_commit_and_the_answer_has_written_and_is_answered_so(
    served: GatewayProcess, gateway: Gateway, broker: Broker, topic: str
) -> None:
    with proxy_beside(broker) as beside:
        kill_a_writer(beside, "hold_answer", [served.url, topic, broker.proxied_bootstrap])
        beside.do("forget")
    assert writer(gateway, topic).write(rows(*range(12))) == DirectWritten(2, 10)
    assert written(broker, topic) == list(range(12))


def test_a_writer_killed_before_its_commit_has_written_nothing(
    served: GatewayProcess, gateway: Gateway, broker: Broker, topic: str
) -> None:
    with proxy_beside(broker) as beside:
        kill_a_writer(beside, "hold", [served.url, topic, broker.proxied_bootstrap])
        assert writer(gateway, topic).write(rows(*range(12))) == DirectWritten(12, 0)
        beside.do("forget")  # its commit arrives after its successor's
    assert written(broker, topic) == list(range(12))


@pytest.mark.parametrize("fault", ["lose_answer", "lose"])
def test_a_lost_commit_or_answer_leaves_each_row_once(gateway: Gateway, broker: Broker, topic: str, fault: str) -> None:
    with proxy_beside(broker) as beside:
        beside.do(fault, END_TXN)
        done = writer(gateway, topic, bootstrap=broker.proxied_bootstrap).write(rows(*range(10)))
        assert done.written + done.duplicates == 10
        assert beside.proxy.struck[END_TXN] == 1
    assert written(broker, topic) == list(range(10))
    assert writer(gateway, topic).write(rows(*range(10))) == DirectWritten(0, 10)


def test_another_lanes_open_transaction_holds_a_question_until_its_deadline(
    served: GatewayProcess, gateway: Gateway, broker: Broker, topic: str
) -> None:
    """Lanes are distributed over four partitions, so the fifth shares the first one's partition."""
    lanes = [gateway.open_lane(topic, f"p-{number}") for number in range(5)]
    first, fifth = lanes[0], lanes[4]
    assert first.partition == fifth.partition
    other = open_record(broker, first, (0, 9))
    with closing(HTTPConnection(served.url[7:], timeout=60)) as asked:
        ask(asked, topic, "p-4", **{"Oncegate-Timeout-Ms": "1500"})
        refused = json.loads(asked.getresponse().read())
    assert (refused["code"], refused["action"], refused["effect"]) == ("DEADLINE", "retry", "none")
    assert f"{fifth.topic}, partition {fifth.partition}, was not read to its end" in refused["detail"]
    assert gateway.ask_lane(topic, "p-3", 0, 9) == ()
    other.abort_transaction(30)
    assert gateway.ask_lane(topic, "p-4", 0, 9) == ()
    assert gateway.ask_lane(topic, "p-0", 0, 9) == ()


def test_an_owner_killed_between_reading_and_entering_is_followed_by_one_that_reads_again(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    with (
        proxy_beside(broker) as beside,
        serving(broker, tmp_path / "one", "killed-lanes", proxy=True) as gateway,
        Gateway(gateway.url) as client,
        ThreadPoolExecutor(1) as aside,
    ):
        lane = client.open_lane(topic, "p")
        open_record(broker, lane, (0, 9)).commit_transaction(30)
        beside.do("hold", PRODUCE)
        pending = aside.submit(client.ask_lane, topic, "p", 0, 9)
        beside.wait_until_held()
        gateway.kill()
        beside.do("forget")
        gateway.start()
        assert pending.result(60) == ((0, 9),)


def ask(connection: HTTPConnection, topic: str, producer: str = "p", **headers: str) -> None:
    body = json.dumps({"producer": producer, "first": 0, "last": 9})
    path = f"/v1/namespaces/default/topics/{topic}/lanes:ask"
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})


def test_an_owner_that_slept_while_it_was_followed_denies_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Its successor has entered and trimmed the records that it misses."""
    with serving(broker, tmp_path / "one", "slept-lanes") as first, Gateway(first.url) as client:
        lane = client.open_lane(topic, "p")
        assert client.ask_lane(topic, "p", 0, 9) == ()
        with closing(HTTPConnection(first.url[7:], timeout=60)) as asked:
            ask(asked, topic)
            assert json.loads(asked.getresponse().read())["duplicates"] == []
            first.signal(signal.SIGSTOP)
            try:
                with serving(broker, tmp_path / "two", "slept-lanes") as second, Gateway(second.url) as other:
                    open_record(broker, lane, (0, 9), count=TRIM_RECORDS).commit_transaction(30)
                    assert other.ask_lane(topic, "p", 0, 9) == ((0, 9),)
                    second.wait_until("trims", lambda: lowest(broker, lane.topic, lane.partition) >= TRIM_RECORDS)
                    ask(asked, topic)
                    first.signal(signal.SIGCONT)
                    assert json.loads(asked.getresponse().read())["code"] == "LEDGER_FENCED"
            finally:
                first.signal(signal.SIGCONT)


def lowest(broker: Broker, topic: str, partition: int) -> int:
    """Returns the first retained offset of a partition."""
    consumer = Consumer({"bootstrap.servers": broker.cluster.bootstrap, "group.id": "test"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[0])
    finally:
        consumer.close()


def test_records_are_trimmed_once_entered_and_known_after_a_restart(
    served: GatewayProcess, broker: Broker, topic: str
) -> None:
    with Gateway(served.url, "trimmed") as client:
        client.create_namespace()
        lane = client.open_lane(topic, "p")
        open_record(broker, lane, (0, 0), count=TRIM_RECORDS - 1).commit_transaction(30)
        assert client.ask_lane(topic, "p", 0, 9_999) == ((0, TRIM_RECORDS - 2),)
        assert lowest(broker, lane.topic, lane.partition) == 0
        open_record(broker, lane, (5_000, 5_000)).commit_transaction(30)
        assert client.ask_lane(topic, "p", 0, 9_999) == ((0, TRIM_RECORDS - 2), (5_000, 5_000))
        served.wait_until("trims", lambda: lowest(broker, lane.topic, lane.partition) > TRIM_RECORDS - 1)
        served.kill()
        served.start()
        assert client.ask_lane(topic, "p", 0, 9_999) == ((0, TRIM_RECORDS - 2), (5_000, 5_000))


def test_a_foreign_record_blocks_its_partition_and_is_named(served: GatewayProcess, broker: Broker, topic: str) -> None:
    with Gateway(served.url, "foreign") as client:
        client.create_namespace()
        lane = client.open_lane(topic, "p")
        foreign = type(lane)(lane.lane, bytes(16), lane.brokers, lane.topic, lane.partition, "somebody")
        open_record(broker, foreign, (0, 9)).commit_transaction(30)
        with pytest.raises(OncegateError, match=f"partition {lane.partition}, offset 0"):
            client.ask_lane(topic, "p", 0, 9)


def test_a_topic_of_lanes_takes_no_rows_another_way(gateway: Gateway, topic: str) -> None:
    writer(gateway, topic).write(rows(1))
    import pyarrow as pa

    with gateway.attempt() as attempt, pytest.raises(Refused, match="written one way"):
        attempt.produce(topic, pa.table({"value": ["x"]}))


def test_rows_that_are_refused_are_refused_before_any_is_written(gateway: Gateway, broker: Broker, topic: str) -> None:
    with pytest.raises(BadId, match="they must increase"):
        writer(gateway, topic).write(rows(2, 1))
    with pytest.raises(BadOption, match=r"acks, transactional\.id"):
        DirectWriter(gateway, topic, "p", config={"transactional.id": "x", "acks": "1"})
    with transaction(gateway, topic) as torn:
        torn.start()
        torn.add(rows(1))
        with pytest.raises(BadId):
            torn.add(rows(1))
    assert written(broker, topic) == []
    assert writer(gateway, topic).write([]) == DirectWritten(0, 0)
