"""Valid uses of the synchronous client."""

import pyarrow as pa

from oncegate_spark import (
    Acked,
    Attempt,
    Claimed,
    ClaimedSequences,
    Gateway,
    OncegateError,
    Outcome,
    Produced,
    Registered,
    Taken,
    Topic,
    Written,
)


def claimed(gateway: Gateway, ids: list[str]) -> int:
    with gateway.attempt() as attempt:
        answer: Claimed = attempt.claim(ids, lease_ms=5_000, payloads=ids, on_conflict="drop")
        with attempt.holding(answer):
            print(answer.granted)
        attempt.complete(answer)
        return answer.verdicts.takeovers


def produced(attempt: Attempt, rows: pa.Table) -> int:
    written: Written = attempt.produce("t", rows, id_col="id", key_col=["a", "b"], digest_cols="n")
    return written.rows + written.own + sum(one.rows for one in written.offsets)


def the_rest(gateway: Gateway) -> tuple[str, int]:
    topic: Topic = gateway.topic("t")
    taken: Taken = gateway.take("owner", [("a", 1), ("b", 2)])
    answer: Produced = gateway.produce("t", "ab" * 16, 0, b"", id_col=("a",))
    gateway.create_topic("t", partitions=2, retention_ms=0, schema=pa.schema([("a", pa.string())]))
    gateway.create_namespace(
        horizon_ms=0,
        auto_create_topics=False,
        record_headers=False,
        lease_expiry="hold",
        id_time="uuid7",
        shadow=False,
        on_ledger_down="reject",
    )
    table, following = gateway.fetch("t", 0, columns="a")
    if answer.verdicts is not None:
        print(answer.verdicts.may_write, taken.busy, table)
    return topic.name, topic.low_offsets[0] + following


def caught() -> Outcome:
    try:
        Gateway("http://127.0.0.1:8080", namespace="mail", timeout_ms=1_000).describe()
    except OncegateError as error:
        return error.outcome
    return Outcome.WRITTEN


def by_sequence(gateway: Gateway) -> int | None:
    with gateway.producer("events-3", driver="load", lease_ms=5_000) as producer:
        standing: Registered = producer.register()
        answer: ClaimedSequences = producer.claim(range(17, 20), prev_sequence=standing.claimed_to)
        with producer.holding(answer):
            print(answer.granted, producer.epoch)
        producer.complete(answer)
    with gateway.driver("load") as driver:
        acked: Acked = driver.ack({"events-3": 19}, batch=4)
    return acked.watermarks["events-3"]
