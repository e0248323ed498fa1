"""Answers of brokers with an unknown error code, as newer brokers send them."""

import pytest
from aiokafka.errors import KafkaError

from oncegate.ledgers.kafka.transactions.ends import InDoubt
from oncegate.ledgers.kafka.transactions.guard import Guard
from tests.support.kafka_broker import Broker
from tests.support.kafka_guards import PATIENT, batch, started
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_proxy import END_TXN, INIT_PRODUCER_ID, KafkaProxy

pytestmark = pytest.mark.slow
UNKNOWN = 9_999


async def test_a_commit_that_is_answered_so_is_in_doubt(broker: Broker, proxy: KafkaProxy) -> None:
    flights = broker.topic()
    async with started({"bootstrap_servers": broker.proxied_bootstrap}, "unknown-end") as guard:
        proxy.answer_error(END_TXN, UNKNOWN)
        with pytest.raises(InDoubt):
            await guard.commit([batch(flights, b"a")])
    assert (proxy.struck[END_TXN], proxy.ended_again) == (1, 0)


async def test_an_append_whose_commit_is_answered_so_is_found_written(broker: Broker, proxy: KafkaProxy) -> None:
    prefix = Prefix(broker)
    async with prefix.opened(proxied=True) as opened:
        proxy.answer_error(END_TXN, UNKNOWN)
        await opened.ledger.append([b"a"], [])
        assert proxy.struck[END_TXN] == 1
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_a_producer_whose_start_is_answered_so_can_be_started_again(broker: Broker, proxy: KafkaProxy) -> None:
    flights, settings = broker.topic(), {"bootstrap_servers": broker.proxied_bootstrap}
    proxy.answer_error(INIT_PRODUCER_ID, UNKNOWN)
    with pytest.raises(KafkaError):
        await Guard(settings, "unknown-start", PATIENT).start()
    assert proxy.struck[INIT_PRODUCER_ID] == 1
    async with started(settings, "unknown-start") as guard:
        await guard.commit([batch(flights, b"a")])
    assert broker.committed(flights) == [b"a"]
