"""A ledger on Kafka keeps every promise of the port, on a real broker."""

from collections.abc import Iterator

import pytest

from oncegate.testing.ledger_checks import CHECKS
from tests.support.kafka_broker import Broker, one_broker
from tests.testing.places import kafka_places

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_ledger_keeps_its_promises(broker: Broker, check) -> None:
    async with kafka_places(broker.cluster.bootstrap)() as place:
        await check(place)
