"""A broker for each test module, and a proxy in front of it with which tests hold and lose requests."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_proxy import KafkaProxy, proxied


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
async def proxy(broker: Broker) -> AsyncIterator[KafkaProxy]:
    async with proxied(broker.proxy_port, broker.behind) as proxy:
        yield proxy
