"""A namespace whose topics on a real broker cannot be served: owner and standby serve the others."""

import pytest

from oncegate.core.errors import LedgerDamaged
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.recovery.owner import RETRY_MS
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock
from oncegate.transports import health
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix
from tests.support.kafka_topics import configure, remove
from tests.support.memory_gateway import Events
from tests.support.standing_by import wait_until

pytestmark = pytest.mark.slow


async def with_namespaces(prefix: Prefix) -> None:
    """Creates `default` and `bad`, each with an entry of its owner."""
    async with prefix.ledgers(create=True) as ledgers:
        await ledgers.create("bad")
        async with open_gateway(ledgers, MemoryRunFolders(), FakeClock(), Events()):
            pass


def stands_by_no_more(gateway: Gateway) -> bool:
    return not {"STANDBY", "RECOVERING"} & set(gateway.readiness().values())


@pytest.mark.parametrize("standby", [False, True], ids=["owner", "standby"])
async def test_a_topic_whose_settings_are_mended_serves_again_without_a_restart(broker: Broker, standby: bool) -> None:
    """Until then the other namespaces serve, the gateway is ready, and the error names the topic."""
    prefix, clock = Prefix(broker), FakeClock()
    await with_namespaces(prefix)
    bad = f"{prefix.name}.bad.ledger"
    configure(broker, bad, "retention.ms", "86400000")
    async with (
        open_kafka(prefix.place()) as ledgers,
        open_gateway(ledgers, MemoryRunFolders(), clock, Events(), standby=standby) as gateway,
    ):
        await wait_until(lambda: stands_by_no_more(gateway))
        assert gateway.readiness() == {"bad": "DOWN", "default": "SERVING"}
        answer = health.ready(gateway)
        assert (answer.ok, f"topic {bad} has retention.ms=86400000, not -1" in answer.detail) == (True, True), answer
        assert not health.ready(gateway, "bad").ok
        with pytest.raises(LedgerDamaged, match=r"retention\.ms=86400000, not -1.*mend the settings"):
            gateway.namespace("bad")
        assert await gateway.create("new")
        configure(broker, bad, "retention.ms", "-1")
        clock.advance(RETRY_MS)
        await wait_until(lambda: gateway.readiness() == {"bad": "SERVING", "default": "SERVING", "new": "SERVING"})


async def test_a_namespace_whose_topic_is_gone_is_down_and_the_others_serve(broker: Broker) -> None:
    prefix, clock = Prefix(broker), FakeClock()
    await with_namespaces(prefix)
    remove(broker, f"{prefix.name}.bad.ledger")
    async with (
        open_kafka(prefix.place()) as ledgers,
        open_gateway(ledgers, MemoryRunFolders(), clock, Events()) as gateway,
    ):
        assert gateway.readiness() == {"bad": "DOWN", "default": "SERVING"}
        assert f"{prefix.name}.bad.ledger" in gateway.reason("bad")
        assert health.ready(gateway).ok
