"""The log of individual duplicates: its records, their omissions, and that no claim waits for it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oncegate.core.claims import Verb
from oncegate.core.verdicts import Verdict
from oncegate.engine.counts.duplicate_log import PAUSE_MS, QUEUED_MAX, WRITTEN_AT_ONCE, DuplicateLogs, records_of
from oncegate.engine.requests import ProduceRequest, Scope
from oncegate.index.claims.firsts import AskedBy, Seen, duplicates_of
from oncegate.index.table.grants import NO_TOPIC
from oncegate.ports import NotTold
from oncegate.testing.clock import FakeClock
from tests.support.memory_gateway import Events, Served, id16, rows_of, run_ready_tasks, serving, verdicts_of
from tests.support.sealed import FORGOTTEN_MS, HOUR_MS, done, eviction, names, seal


class Topic:
    """A topic in memory. `gate`: writes wait for it; `refuses`: the number of writes that fail next."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self.sizes: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuses = 0

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        await self.gate.wait()
        if self.refuses:
            self.refuses -= 1
            raise NotTold("no broker is there")
        self.records += records
        self.sizes.append(len(records))

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(value) for _, value in self.records]


def unknown(count: int) -> Seen:
    """Returns duplicates with nothing known but their fingerprints."""
    ids = np.arange(2 * count, dtype=np.uint64).reshape(count, 2)
    nothing = np.full(count, -1, np.int64)
    return Seen(7, ids, np.zeros(count, np.uint8), nothing, nothing, np.full(count, NO_TOPIC, np.int64), {})


def outcomes(served: Served) -> dict[str, int]:
    assert served.gateway.duplicates is not None
    return {name: count for name, count in served.gateway.duplicates.outcomes.items() if count}


async def test_a_record_has_cause_age_and_location_of_the_first_and_neither_id_nor_claim() -> None:
    topic = Topic()
    async with serving(duplicates=topic) as served:
        granted = await served.claim("private-id")
        await served.settle(Verb.COMPLETE, granted.claim)
        position = served.namespace.mark.position
        served.clock.advance(90_000)
        await done(served, "a later one", token=7)
        assert verdicts_of(await served.claim("private-id", "new", token=2)) == ["DUPLICATE", "GRANTED"]
        await run_ready_tasks()
        printed = served.namespace.fingerprints().of_array(pa.array(["private-id"], pa.string())).tobytes().hex()
        assert topic.told == [
            {
                "namespace": "default",
                "fingerprint": printed,
                "cause": "unknown",
                "answered_ms": served.clock.wall_ms(),
                "age_ms": 90_000,
                "first": {"position": position, "topic": None},
            }
        ]
        assert topic.records[0][0] == printed.encode()
        assert granted.claim is not None
        for secret in (b"private-id", granted.claim.hex().encode(), id16(1).hex().encode()):
            assert secret not in topic.records[0][1]
        assert outcomes(served) == {"written": 1}


async def test_causes_and_topics_are_those_of_each_id_also_where_its_first_left_memory() -> None:
    topic = Topic()
    async with serving(duplicates=topic) as served:
        prints = served.namespace.fingerprints().of_array(pa.array(["x", "y"], pa.string()))
        ask = ProduceRequest("pays", id16(5), 1, rows_of(0, 1), prints, scope=Scope("d", 3))
        await served.namespace.records.produce(ask, served.deadline())
        again = ProduceRequest("pays", id16(6), 1, rows_of(0, 1), prints, scope=Scope("d", 3))
        await served.namespace.records.produce(again, served.deadline())
        await served.namespace.records.produce(ask, served.deadline())
        await run_ready_tasks()
        causes = [(one["cause"], one["first"]["topic"]) for one in topic.told]
        assert causes == [("task_retry", "pays")] * 2 + [("client_retry", "pays")] * 2
    cold = Topic()
    async with eviction(duplicates=cold) as served:
        await done(served, "a", *names(0, 20))
        served.clock.advance(HOUR_MS)
        await seal(served)
        await served.claim("a", token=9)
        await run_ready_tasks()
        (one,) = cold.told
        assert (one["age_ms"], one["first"]["position"]) == (HOUR_MS + FORGOTTEN_MS, None)


async def test_a_duplicate_of_the_same_millisecond_has_the_age_zero_and_not_none() -> None:
    topic = Topic()
    async with serving(duplicates=topic) as served:
        await done(served, "at once", token=7)
        assert verdicts_of(await served.claim("at once", token=2)) == ["DUPLICATE"]
        await run_ready_tasks()
        assert [one["age_ms"] for one in topic.told] == [0]


async def test_nothing_is_recorded_for_an_answer_that_was_not_given() -> None:
    topic = Topic()
    async with serving(duplicates=topic) as served:
        await done(served, "a")
        served.disk.hold()
        asking = await served.begin(served.claim("a", "b", token=2))
        assert topic.records == []
        await served.disk.release()
        assert verdicts_of(await asking) == ["DUPLICATE", "GRANTED"]
        await run_ready_tasks()
        assert len(topic.records) == 1


async def test_more_than_the_rate_takes_is_left_out_and_counted_and_answered_all_the_same() -> None:
    topic = Topic()
    async with serving(duplicates=topic, duplicate_records_per_second=3) as served:
        many = [str(n) for n in range(5)]
        await done(served, *many)
        assert verdicts_of(await served.claim(*many, token=2)) == ["DUPLICATE"] * 5
        assert verdicts_of(await served.claim(*many, token=3)) == ["DUPLICATE"] * 5
        await run_ready_tasks()
        assert outcomes(served) == {"written": 3, "left_out": 7}
        served.clock.advance(1_000)
        await served.claim("0", token=4)
        await run_ready_tasks()
        assert outcomes(served) == {"written": 4, "left_out": 7}


async def test_a_topic_that_takes_nothing_holds_no_claim_up_and_the_queue_ends() -> None:
    topic = Topic()
    topic.gate.clear()
    async with serving(duplicates=topic, duplicate_records_per_second=2 * QUEUED_MAX) as served:
        many = [str(n) for n in range(QUEUED_MAX - 1)]
        await done(served, *many)
        for token in range(2, 6):
            assert verdicts_of(await served.claim(*many, token=token)) == ["DUPLICATE"] * len(many)
        await run_ready_tasks()
        left_out = outcomes(served)["left_out"]
        assert left_out >= 4 * len(many) - 2 * QUEUED_MAX
        topic.gate.set()
        await run_ready_tasks()
        assert outcomes(served) == {"written": 4 * len(many) - left_out, "left_out": left_out}
        assert len(topic.records) == 4 * len(many) - left_out


async def test_requests_that_are_answered_at_once_fill_the_queue_no_further() -> None:
    """Each request was decided while there was room for all of its records."""
    topic = Topic()
    topic.gate.clear()
    async with serving(duplicates=topic, duplicate_records_per_second=2 * QUEUED_MAX) as served:
        many = [str(n) for n in range(QUEUED_MAX - 1)]
        await done(served, *many)
        served.disk.hold()
        asking = [await served.begin(served.claim(*many, f"new {token}", token=token)) for token in range(2, 6)]
        await served.disk.release()
        for one in asking:
            assert verdicts_of(await one).count("DUPLICATE") == len(many)
        await run_ready_tasks()
        # A record waits, and another may be in flight.
        assert outcomes(served)["left_out"] >= 2 * len(many)
        topic.gate.set()


async def test_records_refused_by_the_topic_are_counted_and_logged_once_and_later_records_are_written() -> None:
    topic = Topic()
    topic.refuses = 2
    async with serving(duplicates=topic) as served:
        await done(served, "a")
        for token in (2, 3, 4):
            assert verdicts_of(await served.claim("a", token=token)) == ["DUPLICATE"]
            await run_ready_tasks()
            served.clock.advance(PAUSE_MS)
            await run_ready_tasks()
        assert outcomes(served) == {"written": 1, "failed": 2}
        assert served.events.names().count("duplicates_not_told") == 1


async def test_a_gateway_that_closes_writes_what_is_queued() -> None:
    topic, clock = Topic(), FakeClock()
    logs = DuplicateLogs(topic, clock, Events(), 1_000)
    seen = unknown(2)
    logs.of("n").add(seen, 2)
    await logs.close()
    assert topic.records == list(records_of("n", seen))
    assert logs.outcomes == {"written": 2, "left_out": 0, "failed": 0}


async def test_a_large_request_is_written_in_pieces_and_keeps_no_more_than_it_reports() -> None:
    topic, clock = Topic(), FakeClock()
    logs = DuplicateLogs(topic, clock, Events(), QUEUED_MAX)
    seen = unknown(2 * WRITTEN_AT_ONCE + 1)
    logs.of("n").add(seen, len(seen.ids))
    await logs.close()
    assert topic.sizes == [WRITTEN_AT_ONCE, WRITTEN_AT_ONCE, 1]
    assert topic.records == list(records_of("n", seen))
    async with serving() as served:
        many = [str(n) for n in range(1_000)]
        await done(served, *many)
        ids = served.namespace.fingerprints().of_array(pa.array(many, pa.string()))
        asked, verdicts = AskedBy(call=0, is_repeat=False, seen_max=2), np.full(len(many), Verdict.DUPLICATE, np.uint8)
        told = duplicates_of(served.shard.journal.index.claims, ids, verdicts, None, asked, 0)
        assert told is not None
        assert told.seen is not None
        for kept in (told.seen.ids, told.seen.causes):
            assert (len(kept), kept.base is None or len(kept.base) <= 2) == (2, True)


async def test_without_a_topic_nothing_is_described() -> None:
    async with serving() as served:
        assert served.shard.journal.counts.seen_max == 0
        assert served.gateway.duplicates is None
