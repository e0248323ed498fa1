"""Epochs that reach their end: brokers give a transactional id another producer id, and nobody notices.

The list of namespaces' own id is started most often: with each change of the list, under one name for ever. Those of
generations are started a few times each.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import for_code
from aiokafka.protocol.transaction import InitProducerIdRequest

from oncegate.ledgers.kafka.guard import Partition
from oncegate.ledgers.kafka.namespaces import list_topic
from tests.support.kafka_broker import Broker
from tests.support.kafka_guards import PATIENT, batch, started
from tests.support.kafka_ledger import Prefix, entries

# Some 33,000 starts: ten seconds on a quiet machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# 16 bits with a sign; the last one is the brokers' own.
LAST_EPOCH = 32_767 - 1
OPENINGS = 4
# The start before is being written down.
_CONCURRENT = 51


async def count_up(settings: Mapping[str, Any], transactional_id: str, to: int) -> int:
    """Starts a producer of the id until its epoch is `to` at least; its producer id."""
    client = AIOKafkaClient(**settings)
    await client.bootstrap()
    try:
        node = await client.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
        while True:
            answer = await client.send(node, InitProducerIdRequest(transactional_id, PATIENT.transaction_ms))
            if answer.error_code not in (0, _CONCURRENT):
                raise for_code(answer.error_code)(transactional_id)
            if answer.error_code == 0 and answer.producer_epoch >= to:
                return int(answer.producer_id)
    finally:
        await client.close()


async def test_a_ledger_is_opened_again_and_again_while_the_epoch_of_its_list_reaches_its_end(broker: Broker) -> None:
    prefix, settings, written = Prefix(broker), {"bootstrap_servers": broker.cluster.bootstrap}, list[bytes]()
    async with prefix.opened():
        pass
    name = list_topic(prefix.name)
    producer = await count_up(settings, name, LAST_EPOCH - 2)
    async with started(settings, name) as killed:
        # What a gateway leaves open that is killed while it changes the list.
        await killed._send([batch(Partition(name, 0), b"left open")], float("inf"), begin=True)
    for turn in range(OPENINGS):
        async with prefix.opened() as opened:
            written.append(b"%d" % turn)
            await opened.ledger.append(written[-1:], [])
            assert await entries(opened.ledger) == written
    assert await count_up(settings, name, 0) != producer
