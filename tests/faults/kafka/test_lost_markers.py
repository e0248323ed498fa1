"""Brokers that forget the markers of a committed transaction: an owner and an opener write them again."""

import asyncio

import pytest

from oncegate.core.errors import LedgerDown, LedgerFull
from oncegate.ledgers.kafka.client import Session
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ports.ledger import AppendRefused
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of
from tests.support.kafka_broker import Broker
from tests.support.kafka_guards import started
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_log import forget_markers
from tests.support.kafka_topics import configure

pytestmark = [
    pytest.mark.slow,
    # Only the garbage collector closes a connection that aiokafka was opening when its broker died.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def test_an_opener_writes_the_markers_of_what_was_acknowledged(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        await opened.ledger.append([b"b"], [range_of(1, 3), publish(0, 1)])
    forget_markers(broker, prefix.frames, prefix.outputs)
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]
        await opened.ledger.append([b"c"], [])
    assert len(broker.values(prefix.frames)) == 5, "three entries, and that of each owner"


async def test_an_owner_writes_them_before_it_continues(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3), publish(0, 1)])
        await asyncio.to_thread(forget_markers, broker, prefix.frames, prefix.outputs)
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"a", b"b"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_an_owner_that_slept_while_they_were_forgotten_takes_nothing_along_that_was_acknowledged(
    prefix: Prefix, broker: Broker
) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        # The loop is blocked in the meantime, as in a stopped process, so it has not noticed the end of any connection.
        forget_markers(broker, prefix.frames)
        configure(broker, prefix.frames, "max.message.bytes", "1000")
        with pytest.raises(AppendRefused, match="is more than"):
            await opened.ledger.append([bytes(5_000)], [])
        configure(broker, prefix.frames, "max.message.bytes", "1048588")
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"a", b"c"]


async def test_a_transaction_on_a_broker_that_ends_meanwhile_is_not_begun(
    prefix: Prefix, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that has not noticed the end before it begins: its first request uses another connection, or is not
    sent."""
    monkeypatch.setattr(Session, "has_ended", False)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        forget_markers(broker, prefix.frames)
        with pytest.raises(LedgerFull, match="a connection was cut before the transaction began"):
            await opened.ledger.append([b"b"], [])
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"a", b"c"]


@pytest.mark.parametrize("starts", [0, 1], ids=["", "after a start that repaired nothing"])
async def test_the_list_of_namespaces_is_healed_as_well(prefix: Prefix, broker: Broker, starts: int) -> None:
    async with open_kafka(prefix.place(), create=True):
        pass
    forget_markers(broker, f"{prefix.name}.namespaces")
    for _ in range(starts):
        async with started(broker.settings(), f"{prefix.name}.namespaces"):
            pass
    async with open_kafka(prefix.place(), create=False) as ledgers:
        assert ledgers.names() == ["default"]
        await ledgers.create("other")
        assert ledgers.names() == ["default", "other"]


async def test_forgotten_markers_are_healed_even_after_a_start_without_healing(prefix: Prefix, broker: Broker) -> None:
    """The last gateway died right after its start: the epoch is evidence until another one starts."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    forget_markers(broker, prefix.frames)
    async with started(broker.settings(), f"{prefix.name}.default/1/1"):
        pass
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a"]
        await opened.ledger.append([b"b"], [])


async def test_outcomes_hidden_by_several_starts_are_reported_and_never_served(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    forget_markers(broker, prefix.frames)
    for _ in range(2):
        async with started(broker.settings(), f"{prefix.name}.default/1/1"):
            pass
    with pytest.raises(LedgerDown, match=r"ledger-0, offset \d+, producer id \d+, epoch 0: .* is not known any more"):
        async with prefix.opened():
            pass
