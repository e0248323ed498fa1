"""Writes into Kafka topics through a gateway, compared with Spark's own Kafka sink: on a real broker, read by another
client."""

import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Gateway, formats
from tests.spark.jobs.faults import FaultySource
from tests.spark.jobs.job import Job
from tests.support.before_any_task import refused_on_driver
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
PARTITIONS = 3
RECORD = ("id as key", "cast(n as string) as value")
BY_ID = {"write": "ids", "idCol": "key"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def process(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    url = f"kafka://{broker.cluster.bootstrap}/spark?replication=1&min_insync=1&bare_key=yes"
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url) as process:
        yield process


@pytest.fixture
def job(spark: Any, process: GatewayProcess, tmp_path: Path, spark_log: Path) -> Iterator[Job]:
    with Gateway(process.url, timeout_ms=60_000) as client:
        yield Job(spark, client, tmp_path, spark_log)


def options(job: Job, topic: str | None, **more: str) -> dict[str, str]:
    given = {"url": job.gateway.url, "timeoutMs": "60000", **more}
    return given if topic is None else {**given, "topic": topic}


def named(job: Job, topic: str | None, **more: str) -> dict[str, str]:
    """Returns the options of a df.write, which has no query to name it."""
    return options(job, topic, **{"txnAppId": uuid.uuid4().hex, "txnVersion": "1", **more})


def records_of(broker: Broker, topic: str, partitions: int = PARTITIONS) -> list[Any]:
    return [message for part in range(partitions) for message in broker.messages(Partition(topic, part))]


def numbers(broker: Broker, topic: str, partitions: int = PARTITIONS) -> Counter[int]:
    """Counts each number that a client reads with read_committed."""
    return Counter(int(message.value()) for message in records_of(broker, topic, partitions))


def alike(broker: Broker, topic: str) -> Counter[Any]:
    """Returns the records without the parts that each writer chooses: the time, and the partition of a record with
    neither key nor partition."""
    found: Counter[Any] = Counter()
    for message in records_of(broker, topic):
        value, headers = message.value(), tuple(message.headers() or ())
        number = 0 if value is None else int(value[2:])
        is_placed = message.key() is not None or (value is not None and number % 7 == 0)
        found[message.partition() if is_placed else None, message.key(), value, headers] += 1
    return found


def run(which: str, process: GatewayProcess, folder: Path, broker: Broker, theirs: str, ours: str) -> Any:
    """Runs a driver in a separate process."""
    where = [process.url, str(folder), broker.cluster.bootstrap, theirs, ours]
    command = [sys.executable, "-m", "tests.spark.jobs.kafka_topics", which, *where]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_same_rows_make_the_same_records_by_sparks_sink_and_by_the_gateway(
    broker: Broker, process: GatewayProcess, tmp_path: Path
) -> None:
    for prefix in ("theirs", "ours"):
        for number in range(3):
            broker.topic(PARTITIONS, f"{prefix}-{number}")
    done = run("both", process, tmp_path, broker, "theirs", "ours")
    assert done.returncode == 0, done.stderr[-4000:]
    for number, rows in ((0, 300), (1, 150), (2, 150)):
        by_spark, by_us = (alike(broker, f"{prefix}-{number}") for prefix in ("theirs", "ours"))
        assert by_us == by_spark
        assert by_us.total() == rows


def test_a_query_whose_driver_is_killed_continues_with_each_row_once(
    broker: Broker, process: GatewayProcess, job: Job
) -> None:
    for number in range(2):
        broker.topic(PARTITIONS, f"killed-{number}")
    for begin in (0, 20, 40):
        job.add_file(*range(begin, begin + 20))
    died = run("killed", process, job.folder, broker, "", "killed")
    assert died.returncode != 0
    assert job.batches() == [0], died.stderr[-4000:]
    done = run("following", process, job.folder, broker, "", "killed")
    assert done.returncode == 0, done.stderr[-4000:]
    assert job.batches() == [0, 1, 2]
    for number in range(2):
        assert numbers(broker, f"killed-{number}") == dict.fromkeys(range(number, 60, 2), 1)


@pytest.mark.parametrize("given", [{}, BY_ID], ids=["staged", "ids"])
def test_a_batch_that_comes_again_writes_nothing_again(broker: Broker, job: Job, given: dict[str, str]) -> None:
    topic = broker.topic(PARTITIONS).topic
    stream = job.stream().selectExpr(*RECORD)
    job.add_file(1, 2, 3)
    job.run(stream, **options(job, topic, **given))
    job.forget_last_commit()
    job.add_file(4)
    job.run(stream, **options(job, topic, **given))
    assert job.batches() == [0, 1]
    assert numbers(broker, topic) == {1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize("given", [{}, BY_ID], ids=["staged", "ids"])
def test_two_attempts_of_one_task_at_a_time_write_once(broker: Broker, job: Job, given: dict[str, str]) -> None:
    topic = broker.topic(PARTITIONS).topic
    job.spark.dataSource.register(FaultySource)
    faults = {"fault": "twin", "faultFolder": str(job.folder)}
    write = options(job, topic, **given) if given else named(job, topic)
    job.write(job.rows(*range(20)).selectExpr(*RECORD), "oncegate_faulty", **write, **faults)
    assert numbers(broker, topic) == dict.fromkeys(range(20), 1)


def test_plain_writes_each_time(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    rows = job.rows(1, 2).selectExpr(*RECORD, "timestamp'2026-11-23 10:00:00+00:00' as timestamp")
    for _ in range(2):
        job.write(rows, **options(job, topic, write="plain"))
    assert numbers(broker, topic) == {1: 2, 2: 2}
    assert {message.timestamp()[1] for message in records_of(broker, topic)} == {1_795_428_000_000}


def test_an_id_that_is_no_part_of_a_record_counts_once(broker: Broker, job: Job) -> None:
    topic, other = broker.topic(PARTITIONS).topic, broker.topic(PARTITIONS).topic
    for rows in (job.rows(1, 2), job.rows(2, 3)):
        given = options(job, topic, write="ids", idCol="id,topic")
        job.write(rows.selectExpr("id", "cast(n as string) as value", "'events' as topic"), **given)
        given = options(job, None, write="ids", idCol="id", idSet="several")
        job.write(rows.selectExpr("id", "cast(n as string) as value", f"'{other}' as topic"), **given)
    assert numbers(broker, topic) == numbers(broker, other) == {1: 1, 2: 1, 3: 1}


def test_rows_known_by_sequence_are_written_once_and_in_order(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    rows = job.rows(*range(10), partitions=1).sortWithinPartitions("n")
    rows = rows.selectExpr("'events-0' as source", "n as at", "'k' as key", "cast(n as string) as value")
    given = {"write": "ids", "producerCol": "source", "sequenceCol": "at", "txnAppId": "etl"}
    for _ in range(2):
        job.write(rows, **options(job, topic, **given))
    assert [int(message.value()) for message in records_of(broker, topic)] == list(range(10))


DIRECT = {"write": "direct", "producerCol": "source", "sequenceCol": "at"}
NUMBERED = ("concat('events-', n % 2) as source", "n as at", "id as key", "cast(n as string) as value")


def numbered(job: Job, *at: int) -> Any:
    """Returns rows of two lanes, in order, each in one task."""
    return job.rows(*at, partitions=1).sortWithinPartitions("n").selectExpr(*NUMBERED)


def test_tasks_that_write_into_kafka_themselves_write_each_sequence_once(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    job.write(numbered(job, *range(10)), **options(job, topic, **DIRECT))
    job.write(numbered(job, *range(5, 15)), **options(job, topic, **DIRECT))
    assert numbers(broker, topic) == dict.fromkeys(range(15), 1)
    assert {message.key() for message in records_of(broker, topic)} == {f"id-{n}".encode() for n in range(15)}
    by_ids = job.rows(1).selectExpr("id as key", "cast(n as string) as value")
    with pytest.raises(Exception, match="a topic is written one way"):
        job.write(by_ids, **options(job, topic, **BY_ID))


def test_records_that_tasks_write_themselves_are_those_that_the_gateway_writes(broker: Broker, job: Job) -> None:
    """Covers users' keys, headers, times, partitions and tombstones, and values in a format."""
    staged, direct = (broker.topic(PARTITIONS).topic for _ in range(2))
    rows = (
        job.rows(*range(1, 40), partitions=1)
        .sortWithinPartitions("n")
        .selectExpr(
            "'events' as source",
            "n as at",
            "if(n % 3 = 0, null, id) as key",
            "if(n % 5 = 0, null, concat('v-', n)) as value",
            "if(n % 4 = 0, null, array(named_struct('key', 'h', 'value', cast(id as binary)), "
            "named_struct('key', 'h', 'value', cast(null as binary)))) as headers",
            "timestamp_millis(1700000000000 + n) as timestamp",
            "if(n % 7 = 0, 1, null) as partition",
        )
    )
    job.write(rows.drop("source", "at"), **named(job, staged))
    job.write(rows, **options(job, direct, **DIRECT))
    assert alike(broker, direct) == alike(broker, staged)
    theirs, ours = (
        {(one.timestamp(), one.key(), one.value()) for one in records_of(broker, name)} for name in (staged, direct)
    )
    assert ours == theirs
    assert len(ours) == 39


def test_values_in_a_format_are_written_by_tasks_themselves(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    value = formats.column(formats.arrow(pa.schema([("n", pa.int64())])), "n").alias("value")
    rows = job.rows(*range(5), partitions=1).sortWithinPartitions("n")
    job.write(rows.select(F.lit("e").alias("source"), F.col("n").alias("at"), value), **options(job, topic, **DIRECT))
    values = [pa.ipc.open_stream(one.value()).read_all()["n"][0].as_py() for one in records_of(broker, topic)]
    assert sorted(values) == list(range(5))


@pytest.mark.parametrize("fault", ["kill_after_write", "raise_thrice"])
def test_a_task_that_dies_once_it_has_committed_is_run_again_and_writes_nothing_more(
    broker: Broker, job: Job, fault: str
) -> None:
    topic = broker.topic(PARTITIONS).topic
    job.spark.dataSource.register(FaultySource)
    given = {**options(job, topic, **DIRECT), "fault": fault, "faultFolder": str(job.folder)}
    job.write(numbered(job, *range(20)), "oncegate_faulty", **given)
    assert numbers(broker, topic) == dict.fromkeys(range(20), 1)


def test_a_task_that_fails_before_its_commit_has_written_nothing(broker: Broker, job: Job) -> None:
    topic, flag = broker.topic(PARTITIONS).topic, job.folder / "failed"

    def failing(batches: Any) -> Any:
        for batch in batches:
            yield batch
            if batch.num_rows and not flag.exists():
                flag.touch()
                raise RuntimeError("it was made to fail")

    rows = numbered(job, *range(20))
    job.write(rows.mapInArrow(failing, rows.schema), **options(job, topic, **DIRECT))
    assert flag.exists()
    assert numbers(broker, topic) == dict.fromkeys(range(20), 1)


def test_a_stream_acks_its_lanes_so_that_their_holes_are_forgotten(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    stream = job.stream().selectExpr("'events' as source", "n as at", "cast(n as string) as value")
    for first in range(0, 40, 10):
        job.add_file(*range(first, first + 10, 3))
    job.run(stream, **options(job, topic, **DIRECT))
    # Offsets up to 29 by the ack of the third batch; 30 is adjacent.
    assert job.gateway.ask_lane(topic, "events", 0, 99) == ((0, 30), (33, 33), (36, 36), (39, 39))
    assert numbers(broker, topic).total() == 16


def test_a_batch_of_a_stream_that_is_replayed_writes_nothing_again(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    stream = job.stream().selectExpr("'events' as source", "n as at", "cast(n as string) as value")
    job.add_file(1, 2, 3)
    job.run(stream, **options(job, topic, **DIRECT))
    job.forget_last_commit()
    job.add_file(4)
    job.run(stream, **options(job, topic, **DIRECT))
    assert numbers(broker, topic) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_what_direct_cannot_keep_is_refused_by_name(broker: Broker, job: Job, tmp_path: Path) -> None:
    topic = broker.topic(PARTITIONS).topic
    rows, known = numbered(job, 1), options(job, topic, **DIRECT)
    by_id = {name: one for name, one in known.items() if name not in ("producerCol", "sequenceCol")}
    refused_on_driver(job, "recognises a row only by its sequence", rows, **by_id)
    refused_on_driver(job, r"idCol has no effect with write=direct", rows, **known, idCol="key")
    refused_on_driver(job, r"write=direct needs a topic", rows, **{**options(job, None), **DIRECT})
    refused_on_driver(job, r"required column 'value'", rows.drop("value"), **known)
    shuffled = job.rows(2, 1, partitions=1).sortWithinPartitions(F.desc("n")).selectExpr(*NUMBERED[:2], NUMBERED[3])
    shuffled = shuffled.withColumn("source", F.lit("events"))
    with pytest.raises(Exception, match="do not come in the order of their sequences"):
        job.write(shuffled, **known)
    (config := tmp_path / "kafka.properties").write_text("# as whom\nacks=1\n")
    with pytest.raises(Exception, match="acks: the lane sets it itself"):
        job.write(rows, **known, kafkaConfigFile=str(config))
    assert numbers(broker, topic) == {}


def test_a_task_that_fails_midway_leaves_nothing_in_any_of_several_topics(broker: Broker, job: Job) -> None:
    topics = [broker.topic(PARTITIONS).topic for _ in range(2)]

    def failing(batches: Any) -> Any:
        for batch in batches:
            yield batch
            if batch.num_rows and "39" in batch.column("value").to_pylist():
                raise RuntimeError("it was made to fail")

    where = F.when(F.col("n") % 2 == 0, topics[0]).otherwise(topics[1])
    rows = job.rows(*range(40)).withColumn("topic", where).selectExpr(*RECORD, "topic")
    with pytest.raises(Exception, match="it was made to fail"):
        job.write(rows.mapInArrow(failing, rows.schema), **named(job, None))
    assert [numbers(broker, topic) for topic in topics] == [Counter(), Counter()]
    job.write(rows, **named(job, None))
    assert [numbers(broker, topic) for topic in topics] == [dict.fromkeys(range(n, 40, 2), 1) for n in range(2)]


def test_claimed_records_of_a_killed_task_are_found_in_the_topic(broker: Broker, job: Job) -> None:
    """Each run repartitions by id into the same number of partitions: a record returns under the transactional id that
    wrote it."""
    topic = broker.topic(PARTITIONS).topic
    job.add_file(*range(25))
    sink, place = "tests.spark.jobs.ready_sinks:open_topic", broker.cluster.bootstrap
    given = job.claim_options(sink=sink, place=place, faultFolder=str(job.folder), timeoutMs="60000", topic=topic)
    for _ in range(2):
        job.run(job.stream().repartition(2, "id"), **given)
        assert (job.folder / "died").exists()
        assert numbers(broker, topic) == dict.fromkeys(range(25), 1)
        job.forget_last_commit()


def test_what_makes_no_record_is_refused_before_any_task(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    rows, known = job.rows(1), named(job, topic)
    refused_on_driver(job, r"no Kafka topic 'nowhere' at", rows.selectExpr(*RECORD), **{**known, "topic": "nowhere"})
    refused_on_driver(job, r"id, n: not a column of a Kafka record.*F\.to_json", rows, **known)
    refused_on_driver(job, "required column 'value' not found", rows.selectExpr("id as key"), **known)
    refused_on_driver(job, r"value is of type bigint.*cast\(.string.\)", rows.selectExpr("n as value"), **known)
    refused_on_driver(job, "keyCol has no effect on Kafka topics", rows.selectExpr(*RECORD), **known, keyCol="key")
    refused_on_driver(job, "mergeSchema has no effect", rows.selectExpr(*RECORD), **known, mergeSchema="true")
    refused_on_driver(job, r"write=staged needs a topic", rows.selectExpr(*RECORD), **named(job, None))
    by_row = rows.selectExpr(*RECORD, f"'{topic}' as topic")
    refused_on_driver(job, r"add \.option\(.idSet.", by_row, **options(job, None, **BY_ID))
    job.write(job.spark.createDataFrame([], "value string"), **known)
    assert numbers(broker, topic) == {}


def test_a_topic_named_by_rows_that_does_not_exist_fails_the_task(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    rows = job.rows(1, 2).selectExpr(*RECORD, f"case n when 1 then '{topic}' else 'missing' end as topic")
    with pytest.raises(Exception, match="no Kafka topic 'missing'"):
        job.write(rows, **named(job, None))
    assert numbers(broker, topic) == {}


def test_a_read_explains_how_such_a_topic_is_read(broker: Broker, job: Job) -> None:
    topic = broker.topic(PARTITIONS).topic
    job.write(job.rows(1).selectExpr(*RECORD), **named(job, topic))
    message = rf'(?s)format\("kafka"\).*{broker.cluster.bootstrap}.*{topic}.*kafka\.isolation\.level.*read_committed'
    for reader in (job.spark.read, job.spark.readStream):
        with pytest.raises(Exception, match=message):
            reader.format("oncegate").options(**options(job, topic)).load()
