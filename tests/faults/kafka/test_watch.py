"""The state of a client's connections: the refusals that end a wait, and the transaction to which they belong."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError, SaslAuthenticationFailed

from oncegate.ledgers.kafka import watch as watching
from oncegate.ledgers.kafka.watch import Watch
from tests.support.memory_gateway import run_ready_tasks, wait_until

ONE, OTHER = ("broker-1", 9092), ("broker-2", 9092)
FAR_S = 1_000
REFUSED = SaslAuthenticationFailed("no such user")


class Connection:
    """A connection that is open until the test closes it."""

    wait_until = float("inf")

    def __init__(self) -> None:
        self.is_open = True

    def connected(self) -> bool:
        return self.is_open


@pytest.fixture
async def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setattr(watching, "REFUSED_S", 0)
    return Watch({"sasl_plain_username": "ann", "sasl_mechanism": "PLAIN"})


def far() -> float:
    return asyncio.get_running_loop().time() + FAR_S


async def test_a_wait_ends_when_the_last_connection_is_gone(watch: Watch) -> None:
    connection = Connection()
    watch.connected(OTHER, connection)
    with pytest.raises(TimeoutError):
        await refused_twice(watch, connection)


async def refused_twice(watch: Watch, connection: Connection) -> None:
    """Waits, while a broker refuses before and after the connection to another one breaks."""
    async with watch.until(far()):
        watch.not_connected(ONE, REFUSED)
        connection.is_open = False
        watch.not_connected(ONE, REFUSED)
        await asyncio.Event().wait()


async def test_a_batch_that_is_answered_lets_a_wait_go_on(watch: Watch) -> None:
    ends_s = asyncio.get_running_loop().time() + 0.01
    async with watch.until(ends_s):
        watch.goes_on(FAR_S, far())
        await wait_until(lambda: asyncio.get_running_loop().time() > ends_s + 0.01)


async def test_no_answer_lets_a_wait_go_on_beyond_its_last_moment(watch: Watch) -> None:
    with pytest.raises(TimeoutError):
        await answered(watch, asyncio.get_running_loop().time())


async def answered(watch: Watch, last_s: float) -> None:
    """Waits, while a batch is answered."""
    async with watch.until(far()):
        watch.goes_on(FAR_S, last_s)
        await asyncio.Event().wait()


async def test_refusals_that_go_on_do_not_put_the_end_off(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "REFUSED_S", 0.1)
    with pytest.raises(TimeoutError):
        await refused_for_ever(watch)


async def refused_for_ever(watch: Watch) -> None:
    """Waits, while a broker refuses continuously."""
    async with watch.until(far()):
        while True:
            watch.not_connected(ONE, REFUSED)
            await run_ready_tasks()


async def refused_in_vain(watch: Watch) -> None:
    """Waits for something that never comes, while a broker refuses."""
    async with watch.until(far()):
        watch.not_connected(ONE, REFUSED)
        await asyncio.Event().wait()


async def test_a_wait_ends_when_every_broker_refuses(watch: Watch) -> None:
    with pytest.raises(TimeoutError) as ended:
        await refused_in_vain(watch)
    assert "user ann" in str(watch.refusal(ended.value))


async def test_one_broker_that_refuses_ends_no_wait_while_another_is_connected(watch: Watch) -> None:
    connection = Connection()
    watch.connected(OTHER, connection)
    async with watch.until(far()):
        watch.not_connected(ONE, REFUSED)
        await run_ready_tasks()


async def test_a_broker_that_takes_the_client_after_all_gives_a_wait_its_time_back(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "REFUSED_S", 1)
    async with watch.until(far()):
        ends_s = asyncio.get_running_loop().time() + 1
        watch.not_connected(ONE, REFUSED)
        watch.connected(OTHER, Connection())
        await wait_until(lambda: asyncio.get_running_loop().time() > ends_s + 0.1)


async def test_an_earlier_refusal_is_not_reported_for_a_later_failure(watch: Watch) -> None:
    watch.not_connected(ONE, REFUSED)
    assert watch.refusal(TimeoutError()) is not None
    watch.begin()
    assert watch.refusal(TimeoutError()) is None


async def test_a_broker_that_takes_the_client_again_refuses_it_no_more(watch: Watch) -> None:
    watch.not_connected(ONE, REFUSED)
    watch.connected(ONE, Connection())
    assert watch.refusal(TimeoutError()) is None


async def test_an_error_with_its_own_meaning_is_no_refusal(watch: Watch) -> None:
    watch.not_connected(ONE, REFUSED)
    assert watch.refusal(MessageSizeTooLargeError()) is None
    assert watch.refusal(KafkaConnectionError("Unable to bootstrap")) is not None


async def test_a_connection_that_only_broke_ends_no_wait(watch: Watch) -> None:
    async with watch.until(far()):
        watch.not_connected(ONE, ConnectionResetError())
        await run_ready_tasks()
    assert watch.refusal(TimeoutError()) is None


async def test_a_quota_that_ended_before_the_transaction_began_is_not_reported(watch: Watch) -> None:
    watch.answered(SimpleNamespace(throttle_time_ms=1))
    assert watch.is_throttled
    over_s = asyncio.get_running_loop().time() + 0.001
    await wait_until(lambda: asyncio.get_running_loop().time() > over_s)
    watch.begin()
    assert not watch.is_throttled
    watch.answered(SimpleNamespace(throttle_time_ms=60_000))
    watch.begin()
    assert watch.is_throttled
    assert "for 60000 ms at a time" in watch.quota()


async def test_an_answer_without_a_quota_reports_nothing(watch: Watch) -> None:
    for answer in (SimpleNamespace(), SimpleNamespace(throttle_time_ms=0)):
        watch.answered(answer)
    assert not watch.is_throttled
