"""Queries after Spark's own Kafka source, on a real broker whose offsets have gaps; one is killed, replayed and
followed.

Each committed record of the source is in the gateway's topic once; another query continues where it ended.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Gateway
from tests.spark.jobs.kafka_queries import FIRST
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_transactions import PARTITIONS, RECORDS, write_transactions

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with one_broker(tmp_path / "kafka") as broker:
        yield broker


class Source:
    """A topic of the broker, and the queries over it, each in a process with its own Spark."""

    def __init__(self, broker: Broker, gateway: Gateway, folder: Path) -> None:
        self.broker, self.gateway, self.folder = broker, gateway, folder
        self.topic = broker.topic(PARTITIONS).topic

    def run(self, which: str) -> "subprocess.CompletedProcess[str]":
        where = [self.gateway.url, self.gateway.namespace, str(self.folder), self.broker.cluster.bootstrap, self.topic]
        command = [sys.executable, "-m", "tests.spark.jobs.kafka_queries", which, *where]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    def values(self) -> Counter[str]:
        """Counts the values of committed transactions that another client reads from the topic."""
        found = [self.broker.committed(Partition(self.topic, part)) for part in range(PARTITIONS)]
        return Counter(value.decode() for of_part in found for value in of_part)

    def written(self, topic: str) -> Counter[str]:
        table = self.gateway.read(topic)
        return Counter() if table is None else Counter(table.column("value").to_pylist())

    def batches(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "lanes/commits").iterdir() if file.name.isdigit())


def test_each_committed_record_is_written_once_through_a_kill_a_replay_and_another_query(
    broker: Broker, gateway: Gateway, tmp_path: Path
) -> None:
    source = Source(broker, gateway, tmp_path)
    write_transactions(broker.cluster.bootstrap, source.topic, 0, FIRST)
    before = source.values()
    assert len(before) == 4 * PARTITIONS * RECORDS, "of six transactions two were aborted"
    died = source.run("killed")
    assert died.returncode != 0
    assert source.batches() == ["0"], died.stderr[-4000:]
    done = source.run("following")
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads((tmp_path / "results.json").read_text())
    replayed, *later = by_sequence(done.stderr)
    assert (replayed[1], replayed[0] > 0) == (0, True), "batch 1 was written before the kill"
    assert sum(rows - written for rows, written in later) > 0, "the last batch was not acked, and is read again"
    check_refusals(answer["refusals"])
    check_offsets(answer["offsets"], source.topic)
    everything = source.values()
    assert len(everything) > len(before)
    assert source.written("t") == everything
    assert source.written("s") == everything


def test_a_restored_checkpoint_continues_if_it_reads_the_same_and_otherwise_stops(
    broker: Broker, gateway: Gateway, tmp_path: Path
) -> None:
    """The refused cases include a recreated topic, which has other rows at the same offsets."""
    where = [gateway.url, gateway.namespace, str(tmp_path), broker.cluster.bootstrap]
    command = [sys.executable, "-m", "tests.spark.jobs.kafka_restored", *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads((tmp_path / "results.json").read_text())
    assert {name: "BATCH_CONFLICT" in text for name, text in answer.items() if text} == {
        "another input": True,
        "with payloads, a topic that was made again": False,
        "by sequence, a topic that was made again": False,
        "a topic that was made again": True,
    }
    refused = answer["by sequence, a topic that was made again"]
    assert "SOURCE_REPLACED" in refused
    assert 'prefix="' in refused
    assert 'topic_ids={"' in refused
    refused = answer["with payloads, a topic that was made again"]
    assert "2 of 2 ids came with another payload" in refused
    with_payloads = gateway.read("d")
    assert with_payloads is not None
    assert Counter(with_payloads.column("value").to_pylist()) == Counter(["a1", "a2", "a3", "b1", "b2", "c1"])
    by_sequence = gateway.read("q")
    assert by_sequence is not None
    assert Counter(by_sequence.column("value").to_pylist()) == Counter(["a1", "a2", "a3", "b1", "b2", "c1", "y1", "y2"])
    table = gateway.read("s")
    assert table is not None
    assert Counter(table.column("value").to_pylist()) == Counter(["a1", "a2", "a3", "b1", "b2", "c1"])
    assert "DUPLICATE rows=2 suppressed=2" in done.stderr


def by_sequence(log: str) -> list[tuple[int, int]]:
    """Returns (rows, written) of each batch by sequence, in order."""
    lines = re.findall(r"by sequence to topic t: rows=(\d+) written=(\d+)", log)
    return [(int(rows), int(written)) for rows, written in lines]


def check_refusals(told: dict[str, str]) -> None:
    wanted = {
        "repartition": "Repartition comes between",
        "repartition by a column": "RepartitionByExpression comes between",
        "sort": "Sort comes between",
        "dropDuplicates": "Deduplicate comes between",
        "union": "Union comes between",
        "no offset": "columns topic, partition and offset",
        "minPartitions": "with minPartitions several tasks read one partition of the Kafka source",
        "a batch": "there is no Kafka stream here",
    }
    assert {name: text in told[name] for name, text in wanted.items()} == dict.fromkeys(wanted, True), told
    assert all('option("idCol", "topic,partition,offset")' in text for text in told.values())


def check_offsets(told: dict[str, Any], topic: str) -> None:
    """The staged query's offsets are the end of all records; by sequence the last batch is not acked yet."""
    ends = told["staged-1"][topic]
    assert sorted(ends) == [str(part) for part in range(PARTITIONS)]
    # Each transaction has a marker in each of its partitions, and aborted transactions have records too.
    assert set(ends.values()) == {FIRST * (RECORDS + 1)}
    acked = told["etl"][topic]
    assert sum(acked.values()) < sum(ends.values())
    assert all(acked[part] <= ends[part] for part in ends)
