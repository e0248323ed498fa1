"""The peer for rows into Kafka: confluent-kafka's transactional producer, tuned, with rows prepared in advance.

The producer runs in the load process, with keys and values as bytes, one transaction per `ids` rows, partitions in
turns (no hash of keys to compute), and batches as large as brokers accept.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from bench.load import bodies
from bench.load.told import told

Job = dict[str, Any]
Send = Callable[[Producer, Job, Any], None]
# Above its actual rate; with PREPARED_BYTES it bounds the prepared rows.
RATE, PREPARED_BYTES = 600e3, 256 << 20
END_S = 60.0
TUNED = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 900_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "compression.type": "none",
}


def one_by_one(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Measures `produce()` for each row."""
    return _measured(job, go, list, _produce)


def by_batches(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Measures `produce_batch()` for the rows of each partition in a transaction."""
    return _measured(job, go, _messages, _produce_batch)


def _rows(job: Job) -> list[list[tuple[bytes, bytes]]]:
    """Returns the rows of each transaction."""
    ids, width = job["ids"], job["row_bytes"]
    count = max(2, min(int(RATE * job["seconds"]), PREPARED_BYTES // (width + 150)) // ids)
    row_list = []
    for number in range(count):
        keys, values = bodies.records(job["stream"], number * ids, ids, width)
        row_list.append(list(zip(_cells(keys), _cells(values), strict=True)))
    return row_list


def _cells(cells: bodies.U8) -> list[bytes]:
    width, data = cells.shape[1], cells.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]


def _messages(rows: Sequence[tuple[bytes, bytes]]) -> Any:
    return [{"key": key, "value": value} for key, value in rows]


def _produce(producer: Producer, job: Job, rows: Any) -> None:
    partitions, produce = job["partitions"], producer.produce
    for at, (key, value) in enumerate(rows):
        produce(job["topic"], value, key, at % partitions)


def _produce_batch(producer: Producer, job: Job, rows: Any) -> None:
    share = -(-len(rows) // job["partitions"])
    for partition in range(job["partitions"]):
        part = rows[partition * share : (partition + 1) * share]
        if producer.produce_batch(job["topic"], part, partition=partition) != len(part):
            raise RuntimeError("produce_batch did not take all rows")


def _measured(job: Job, go: Callable[[], None], made: Callable[..., Any], send: Send) -> dict[str, float]:
    transactions = [made(rows) for rows in _rows(job)]
    producer = Producer(
        {**TUNED, "bootstrap.servers": job["bootstrap"], "transactional.id": f"bench-{job['kind']}-{job['stream']}"}
    )
    producer.init_transactions(END_S)
    go()
    latencies, began_s = [], time.perf_counter()
    for rows in transactions:
        start_s = time.perf_counter()
        producer.begin_transaction()
        send(producer, job, rows)
        producer.commit_transaction(END_S)
        end_s = time.perf_counter()
        latencies.append(end_s - start_s)
        if end_s - began_s > job["seconds"]:
            break
    return told(latencies, job["ids"], time.perf_counter() - began_s)
