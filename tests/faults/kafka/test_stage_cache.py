"""Staged rows in memory beside their topic: which ones are read back, and which are not cached."""

import pytest
from confluent_kafka import TopicPartition

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.kafka.rows.stream import StageCache
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ports import DropRanges, OpenLedger
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_ledger import Prefix
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.kafka_sends import range_of, sent

CACHED = "bare_key=yes&stage_cache_mib=8"


def at(number: int, length: int) -> Location:
    return Location(0, 1, number, length, bytes(32))


def cache_of(opened: OpenLedger) -> StageCache:
    assert isinstance(opened.ledger, KafkaLedger)
    return opened.ledger.place.stage_cache


def empty(broker: Broker, topic: str) -> None:
    """Deletes all records of a topic."""
    end = TopicPartition(topic, 0, -1)
    broker.admin.delete_records([end])[end].result(WAIT_S)


def test_the_oldest_go_first_and_what_is_larger_than_the_bound_is_not_held() -> None:
    cache = StageCache(10)
    for number in range(3):
        cache.put("a", at(number, 4), b"%04d" % number)
    assert [cache.get("a", at(number, 4)) for number in range(3)] == [None, b"0001", b"0002"]
    cache.put("a", at(3, 11), bytes(11))
    assert (cache.get("a", at(3, 11)), cache.held_bytes) == (None, 8)
    cache.put("a", at(4, 2), b"!!")
    assert (cache.get("a", at(1, 4)), cache.held_bytes) == (b"0001", 10)


def test_ledgers_share_a_bound_and_each_has_its_own_bytes() -> None:
    cache = StageCache(10)
    cache.put("a", at(0, 4), b"of a")
    cache.put("b", at(0, 4), b"of b")
    assert (cache.get("a", at(0, 4)), cache.get("b", at(0, 4))) == (b"of a", b"of b")
    cache.drop_all("a")
    assert (cache.get("a", at(0, 4)), cache.get("b", at(0, 4)), cache.held_bytes) == (None, b"of b", 4)


def test_bytes_that_are_put_twice_are_counted_once() -> None:
    cache = StageCache(10)
    cache.put("a", at(0, 4), b"once")
    cache.put("a", at(0, 4), b"once")
    assert cache.held_bytes == 4


@pytest.mark.slow
async def test_a_commit_reads_nothing_back_that_is_held(broker: Broker) -> None:
    partition, staged = broker.topic(), range_of("a", "b")
    prefix = Prefix(broker, CACHED)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"staged"], [staged])
        empty(broker, f"{prefix.name}.default.stages")
        await opened.ledger.append([b"committed"], [sent(partition.topic, staged)])
        assert cache_of(opened).held_bytes == 0
    assert broker.committed(partition) == [b"a", b"b"]


@pytest.mark.slow
async def test_cached_and_read_back_rows_come_in_the_order_of_the_batch(broker: Broker) -> None:
    partition, ranges = broker.topic(), [range_of(str(number) * 400_000) for number in range(4)]
    async with Prefix(broker, "bare_key=yes&stage_cache_mib=1").opened() as opened:
        for one in ranges:
            await opened.ledger.append([b"staged"], [one])
        held = cache_of(opened).held_bytes
        assert 0 < held < sum(len(one.data) for one in ranges)
        order = [ranges[at] for at in (2, 0, 3, 1)]
        await opened.ledger.append([b"committed"], [sent(partition.topic, *order)])
    assert [value[:1] for value in broker.committed(partition)] == [b"2", b"0", b"3", b"1"]


@pytest.mark.slow
async def test_dropped_or_unwritten_rows_are_not_cached(broker: Broker, proxy: KafkaProxy) -> None:
    dropped, refused, kept = range_of("dropped"), range_of("refused"), range_of("kept")
    async with Prefix(broker, CACHED).opened(proxied=True) as opened:
        await opened.ledger.append([b"staged"], [dropped])
        await opened.ledger.append([b"dropped"], [DropRanges((dropped.range_id,))])
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"staged"], [refused])
        proxy.release()
        cache = cache_of(opened)
        assert cache.held_bytes == 0
        await opened.ledger.append([b"staged"], [kept])
        assert cache.held_bytes == len(kept.data)
    assert cache.held_bytes == 0
