"""Valid uses of the client for asyncio."""

import pyarrow as pa

from oncegate_spark import (
    Acked,
    AsyncAttempt,
    AsyncGateway,
    Claimed,
    ClaimedSequences,
    OncegateError,
    Outcome,
    Produced,
    Registered,
    Taken,
    Topic,
    Written,
)


async def claimed(gateway: AsyncGateway, ids: list[str]) -> int:
    async with gateway.attempt() as attempt:
        answer: Claimed = await attempt.claim(ids, lease_ms=5_000, payloads=ids, on_conflict="drop")
        async with attempt.holding(answer):
            print(answer.granted)
        await attempt.complete(answer)
        return answer.verdicts.takeovers


async def produced(attempt: AsyncAttempt, rows: pa.Table) -> int:
    written: Written = await attempt.produce("t", rows, id_col="id", key_col=["a", "b"], digest_cols="n")
    return written.rows + written.own + sum(one.rows for one in written.offsets)


async def the_rest(gateway: AsyncGateway) -> tuple[str, int]:
    topic: Topic = await gateway.topic("t")
    taken: Taken = await gateway.take("owner", [("a", 1), ("b", 2)])
    answer: Produced = await gateway.produce("t", "ab" * 16, 0, b"", id_col=("a",))
    await gateway.create_topic("t", partitions=2, retention_ms=0, schema=pa.schema([("a", pa.string())]))
    await gateway.create_namespace(
        horizon_ms=0,
        auto_create_topics=False,
        record_headers=False,
        lease_expiry="hold",
        id_time="uuid7",
        shadow=False,
        on_ledger_down="reject",
    )
    table, following = await gateway.fetch("t", 0, columns="a")
    if answer.verdicts is not None:
        print(answer.verdicts.may_write, taken.busy, table)
    return topic.name, topic.low_offsets[0] + following


async def caught() -> Outcome:
    try:
        await AsyncGateway("http://127.0.0.1:8080", namespace="mail", timeout_ms=1_000).describe()
    except OncegateError as error:
        return error.outcome
    return Outcome.WRITTEN


async def by_sequence(gateway: AsyncGateway) -> int | None:
    async with gateway.producer("events-3", driver="load", lease_ms=5_000) as producer:
        standing: Registered = await producer.register()
        answer: ClaimedSequences = await producer.claim(range(17, 20), prev_sequence=standing.claimed_to)
        async with producer.holding(answer):
            print(answer.granted, producer.epoch)
        await producer.complete(answer)
    async with gateway.driver("load") as driver:
        acked: Acked = await driver.ack({"events-3": 19}, batch=4)
    return acked.watermarks["events-3"]
