"""The substitute for a backup of a ledger on Kafka: copies of the folders of all brokers while all are stopped."""

import shutil

import pytest

from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix, entries

pytestmark = [
    pytest.mark.slow,
    # Only the garbage collector closes a connection that aiokafka was opening when its broker went away.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def test_brokers_that_are_put_back_as_they_were_stopped_have_what_they_held_then(broker: Broker) -> None:
    prefix, cluster = Prefix(broker), broker.cluster
    data, copy = cluster.folder / "broker-1", cluster.folder / "copy"
    async with prefix.opened() as opened:
        await opened.ledger.append([b"before"], [])
    cluster.stop()
    shutil.copytree(data, copy)
    cluster.start()
    async with prefix.opened() as opened:
        await opened.ledger.append([b"after"], [])
        assert await entries(opened.ledger) == [b"before", b"after"]
        later = opened.ledger.mark
    cluster.stop()
    shutil.rmtree(data)
    copy.rename(data)
    cluster.start()
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"before"]
        assert opened.ledger.mark.position < later.position
