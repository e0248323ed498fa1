"""Producers whose epochs are exhausted: the next start gets another producer id, and each transaction ends once."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from oncegate.ledgers.kafka.markers.brokers import State, brokers_of
from oncegate.ledgers.kafka.markers.healing import MarkersLost, healing
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.transactions.ends import InDoubt, NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_epochs import LAST_EPOCH, set_epochs
from tests.support.kafka_guards import batch, started
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_log import forget_markers

pytestmark = [
    pytest.mark.slow,
    # Only the garbage collector closes a connection that aiokafka was opening when its broker died.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# The epoch of the last start of each transactional id.
LAST_STARTS = {
    "committing": LAST_EPOCH - 2,
    "left open at the last": LAST_EPOCH - 1,
    "left open before it": LAST_EPOCH - 2,
    "followed": LAST_EPOCH - 1,
    "forgotten": LAST_EPOCH - 1,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def prefix(broker: Broker) -> Prefix:
    """A ledger that was opened once. Its ids and those of `LAST_STARTS` have exhausted their epochs."""
    prefix = Prefix(broker)
    asyncio.run(asyncio.wait_for(_open_once(broker, prefix), 60))
    own = dict.fromkeys((f"{prefix.name}.namespaces", f"{prefix.name}.default/1/1"), LAST_EPOCH)
    set_epochs(broker, LAST_STARTS | own)
    return prefix


async def _open_once(broker: Broker, prefix: Prefix) -> None:
    for name in LAST_STARTS:
        async with started(broker.settings(), name):
            pass
    async with prefix.opened() as opened:
        await opened.ledger.append([b"before"], [])


async def state(broker: Broker, name: str) -> State:
    async with brokers_of(broker.settings(), ()) as brokers:
        (told,) = await brokers.states([name])
    return told


async def leave_open(guard: Guard, partition: Partition, value: bytes) -> None:
    """Lets a guard write and die before EndTxn."""

    async def batches() -> AsyncIterator[Batch]:
        yield batch(partition, value)
        raise NotWritten("it was killed")

    with pytest.raises(NotWritten, match="it was killed"):
        await guard.commit(batches())


async def in_turn(broker: Broker, name: str, partition: Partition, ends: Sequence[bool]) -> list[bytes]:
    """Starts the id once for each of `ends`, and commits if it is True. Returns the committed values."""
    acknowledged = []
    for number, is_committed in enumerate(ends):
        async with started(broker.settings(), name) as guard:
            value = str(number).encode()
            if is_committed:
                await guard.commit([batch(partition, value)])
                acknowledged.append(value)
            else:
                await leave_open(guard, partition, value)
    return acknowledged


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("committing", [True] * 4),
        ("left open at the last", [False, True, True]),
        ("left open before it", [False, True, True]),
    ],
)
@pytest.mark.usefixtures("prefix")
async def test_a_start_after_the_last_epoch_takes_another_producer_id_and_ends_what_is_open(
    broker: Broker, name: str, ends: list[bool]
) -> None:
    partition, before = broker.topic(), await state(broker, name)
    acknowledged = await in_turn(broker, name, partition, ends)
    after = await state(broker, name)
    assert before.epoch == LAST_STARTS[name]
    assert (after.producer_id != before.producer_id, after.epoch < len(ends)) == (True, True)
    assert broker.committed(partition) == acknowledged
    assert len(set(broker.ends(partition.topic))) == 1, "no transaction is open"


@pytest.mark.usefixtures("prefix")
async def test_a_producer_of_the_last_epoch_that_was_followed_writes_nothing_more(broker: Broker) -> None:
    partition = broker.topic()
    async with started(broker.settings(), "followed") as older:

        async def batches() -> AsyncIterator[Batch]:
            yield batch(partition, b"by the older")
            async with started(broker.settings(), "followed") as newer:
                await newer.commit([batch(partition, b"by the newer")])
            yield batch(partition, b"by a zombie")

        with pytest.raises((NotWritten, InDoubt)):
            await older.commit(batches())
    async with started(broker.settings(), "followed") as last:
        await last.commit([batch(partition, b"and on")])
    assert broker.committed(partition) == [b"by the newer", b"and on"]


async def test_a_ledger_whose_ids_have_no_epochs_left_continues(broker: Broker, prefix: Prefix) -> None:
    for entry in (b"a", b"b"):
        async with prefix.opened() as opened:
            await opened.ledger.append([entry], [])
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"before", b"a", b"b"]
    assert (await state(broker, f"{prefix.name}.namespaces")).epoch < LAST_EPOCH
    assert (await state(broker, f"{prefix.name}.default/1/1")).epoch < LAST_EPOCH


@pytest.mark.usefixtures("prefix")
async def test_a_marker_forgotten_at_the_last_epoch_is_reported_and_never_guessed(broker: Broker) -> None:
    """A new producer id reveals less than the next epoch would: the outcome of the earlier one is unknown."""
    partition = broker.topic()
    async with started(broker.settings(), "forgotten") as guard:
        await guard.commit([batch(partition, b"a")])
    await asyncio.to_thread(forget_markers, broker, partition.topic)
    async with healing(broker.settings(), [partition]) as markers:
        await markers.heal(["forgotten"])
        async with started(broker.settings(), "forgotten"):
            with pytest.raises(MarkersLost, match=f"epoch {LAST_EPOCH}: .* is not known any more"):
                await markers.heal(["forgotten"])
    assert len(set(broker.ends(partition.topic))) == 2, "nothing was changed"
