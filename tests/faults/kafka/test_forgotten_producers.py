"""A ledger that was idle for so long that the brokers have forgotten its producer."""

from collections.abc import Iterator
from typing import Any

import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.kafka.markers.brokers import brokers_of
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.transactions import guard as guards
from oncegate.ledgers.kafka.transactions.guard import Guard
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_ledger import Prefix, entries

pytestmark = pytest.mark.slow
# Kafka's defaults are seven days, one day, and checks every hour and every ten minutes. An append that takes longer
# than the expiration on a busy machine is forgotten between two of its steps, and refused once more.
HASTY = {
    "transactional_id_expiration_ms": "5000",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "50",
    "producer_id_expiration_ms": "5000",
    "producer_id_expiration_check_interval_ms": "50",
}
TRIES = 3


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), **HASTY) as broker:
        yield broker


async def forgotten(broker: Broker, ledger: Any) -> None:
    """Returns once the coordinator has forgotten the id of the ledger's producer."""
    guard: Guard = ledger._writer._guard
    settings = {"bootstrap_servers": broker.cluster.bootstrap}
    async with brokers_of(settings, [Partition(f"{guard.transactional_id.split('/')[0]}.ledger", 0)]) as brokers:
        while await brokers.states([guard.transactional_id]):
            pass


async def appended(ledger: Any, entry: bytes) -> int:
    """Appends until the entry is accepted. Returns the number of refusals, none of which wrote anything."""
    for refusals in range(TRIES):
        try:
            await ledger.append([entry], [])
            return refusals
        except LedgerFull:
            pass
    raise AssertionError("it was never taken")


async def test_the_append_that_meets_it_is_refused_at_most_once_and_the_ledger_continues(forgetful: Broker) -> None:
    prefix = Prefix(forgetful)
    async with prefix.opened() as opened:
        await appended(opened.ledger, b"a")
        await forgotten(forgetful, opened.ledger)
        assert await appended(opened.ledger, b"b") <= 1
        await forgotten(forgetful, opened.ledger)
        assert await appended(opened.ledger, b"c") <= 1
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]


async def test_a_producer_is_replaced_before_it_is_forgotten(
    forgetful: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "IDLE_S", 1)
    async with Prefix(forgetful).opened() as opened:
        await appended(opened.ledger, b"a")
        await forgotten(forgetful, opened.ledger)
        assert await appended(opened.ledger, b"b") == 0


async def test_an_owner_that_was_followed_and_forgotten_writes_nothing_more(forgetful: Broker) -> None:
    prefix = Prefix(forgetful)
    async with prefix.opened() as older:
        await appended(older.ledger, b"by the older")
        await forgotten(forgetful, older.ledger)
        async with prefix.opened() as newer:
            await appended(newer.ledger, b"by the newer")
            await forgotten(forgetful, older.ledger)
            with pytest.raises(Exception, match="another gateway owns"):
                await older.ledger.append([b"by a zombie"], [])
            await appended(newer.ledger, b"and on")
            assert await entries(newer.ledger) == [b"by the older", b"by the newer", b"and on"]
