"""A guard and brokers with authentication and ACLs: each refusal names its remedy, and ends after the remedy."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from deploy.kafka.access import CLIENT, Access
from oncegate.ledgers.kafka import client as clients
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import Caller, refusal_of
from oncegate.ledgers.kafka.transactions.ends import InDoubt, NotStarted, NotWritten, Refused, Throttled
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Deadlines
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_guards import PATIENT, batch, new_id, refused_at_start, started
from tests.support.kafka_proxy import END_TXN, SASL_AUTHENTICATE, proxied
from tests.support.kafka_rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID, WRITE, Rights

pytestmark = pytest.mark.slow
# The deadlines of the quota test.
HASTY = Deadlines(start_ms=60_000, send_ms=1_000, commit_ms=60_000, transaction_ms=90_000)
TRIES = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), Access(sasl=True, tls=True, acls=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def rights(broker: Broker) -> Rights:
    return Rights(broker)


@pytest.fixture
def shard(rights: Rights) -> str:
    """Returns a transactional id with all rights."""
    name = new_id()
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    return name


@pytest.fixture
def flights(broker: Broker, rights: Rights) -> Partition:
    """Returns a writable partition."""
    partition = broker.topic()
    rights.allow(TOPIC, partition.topic, WRITE, DESCRIBE)
    return partition


def numbers(size_bytes: int = 1) -> list[bytes]:
    """Returns values for as many transactions as a change may take to be known everywhere in a broker."""
    return [str(number).encode().zfill(size_bytes) for number in range(TRIES)]


async def committed_until(
    guard: Guard, partition: Partition, values: list[bytes], written: list[bytes] | None = None
) -> list[bytes]:
    """Commits one transaction per value until one is refused. Adds the committed values to `written`."""
    written = [] if written is None else written
    for value in values:
        await guard.commit([batch(partition, value)])
        written.append(value)
    return written


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
async def test_a_guard_commits_over_tls_with_a_user_and_password(
    mechanism: str, broker: Broker, shard: str, flights: Partition
) -> None:
    async with started(broker.settings(sasl_mechanism=mechanism), shard) as guard:
        assert await guard.commit([batch(flights, b"a", b"b")]) == [0]
        assert await guard.commit([batch(flights, b"c")]) == [3]
    assert broker.committed(flights) == [b"a", b"b", b"c"]


async def test_a_wrong_password_is_reported_with_the_user_and_where_to_look(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        settings = broker.settings(sasl_password_file=str(tmp_path / "wrong"), sasl_mechanism=mechanism)
        message = await refused_at_start(settings)
        assert f"user {CLIENT}" in message
        assert mechanism in message
        assert "sasl_password_file" in message


async def test_a_mechanism_that_is_not_offered_is_reported_by_its_name(broker: Broker) -> None:
    message = await refused_at_start(broker.settings(sasl_mechanism="SCRAM-SHA-256"))
    assert "sasl_mechanism SCRAM-SHA-256" in message


async def test_a_port_that_requires_a_user_hangs_up_on_clients_without_one_and_that_is_reported(broker: Broker) -> None:
    guard = Guard({"bootstrap_servers": f"127.0.0.1:{broker.behind}"}, "shard", PATIENT)
    with pytest.raises(KafkaError, match="check that security_protocol is the port's"):
        await guard.start()


async def test_no_password_is_logged_or_raised_whatever_is_logged(
    broker: Broker, shard: str, flights: Partition, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "wrong").write_text("not-the-password\n")
    settings = broker.settings(sasl_mechanism="PLAIN")
    async with started(settings, shard) as guard:
        await guard.commit([batch(flights, b"a")])
    message = await refused_at_start(
        broker.settings(sasl_mechanism="PLAIN", sasl_password_file=str(tmp_path / "wrong"))
    )
    assert "ApiVersion" in caplog.text, "requests are logged"
    for password in (settings["sasl_plain_password"], "not-the-password"):
        assert password not in caplog.text + message + repr(guard)


@pytest.mark.parametrize("held", [(), (DESCRIBE,)])
async def test_a_transactional_id_without_a_right_is_reported_and_recovers(
    held: tuple[Any, ...], broker: Broker, rights: Rights, flights: Partition
) -> None:
    name = new_id()
    if held:
        rights.allow(TRANSACTIONAL_ID, name, *held)
    message = await refused_at_start(broker.settings(), name)
    assert f"transactional id {name}" in message
    assert f"User:{CLIENT}" in message
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    async with started(broker.settings(), name) as guard:
        await guard.commit([batch(flights, b"a")])


@pytest.mark.parametrize("held", [(), (DESCRIBE,)])
async def test_a_topic_without_a_right_is_reported_alone_and_nothing_is_written(
    held: tuple[Any, ...], broker: Broker, rights: Rights, shard: str, flights: Partition
) -> None:
    closed, open_too = broker.topic(), broker.topic()
    rights.allow(TOPIC, open_too.topic, WRITE, DESCRIBE)
    if held:
        rights.allow(TOPIC, closed.topic, *held)
    async with started(broker.settings(), shard) as guard:
        with pytest.raises(Refused) as refused:
            await guard.commit([batch(flights, b"a"), batch(closed, b"b"), batch(open_too, b"c")])
    assert f"topic {closed.topic}: allow User:{CLIENT} to DESCRIBE and WRITE" in str(refused.value)
    assert refused.value.culprits == (closed,)
    rights.allow(TOPIC, closed.topic, WRITE, DESCRIBE)
    async with started(broker.settings(), shard) as guard:
        await guard.commit([batch(flights, b"d"), batch(closed, b"e")])
    assert [broker.committed(one) for one in (flights, closed, open_too)] == [[b"d"], [b"e"], []]


async def test_a_right_revoked_between_transactions_is_reported_and_recovers(
    broker: Broker, rights: Rights, shard: str, flights: Partition
) -> None:
    async with started(broker.settings(), shard) as guard:
        await guard.commit([batch(flights, b"a")])
        rights.take(TOPIC, flights.topic)
        with pytest.raises(Refused) as refused:
            await guard.commit([batch(flights, b"b")])
        assert refused.value.culprits == (flights,)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE)
    async with started(broker.settings(), shard) as guard:
        await guard.commit([batch(flights, b"c")])
    assert broker.committed(flights) == [b"a", b"c"]


async def test_a_transactional_id_that_loses_its_right_before_the_commit_is_not_written(
    broker: Broker, rights: Rights, shard: str, flights: Partition
) -> None:
    """The broker answers the commit itself, so that nothing is in doubt."""

    def lose(_: list[int]) -> list[Batch]:
        rights.take(TRANSACTIONAL_ID, shard)
        return []

    async with started(broker.settings(), shard) as guard:
        with pytest.raises(Refused, match=f"transactional id {shard}"):
            await guard.commit([batch(flights, b"a")], lose)
    rights.allow(TRANSACTIONAL_ID, shard, WRITE, DESCRIBE)
    async with started(broker.settings(), shard) as guard:
        await guard.commit([batch(flights, b"b")])
    assert broker.committed(flights) == [b"b"]


async def test_transactions_need_no_right_on_the_cluster_and_a_client_that_does_gets_an_error(
    broker: Broker, rights: Rights, shard: str, flights: Partition, tmp_path: Path
) -> None:
    async with started(broker.settings(), shard) as guard:
        await guard.commit([batch(flights, b"a")])
    (tmp_path / "password").write_text("secret")
    rights.let_in("stranger", "secret")
    settings = broker.settings("stranger", sasl_password_file=str(tmp_path / "password"))
    without = AIOKafkaProducer(**settings, enable_idempotence=True)
    with pytest.raises(KafkaError) as refused:
        await without.start()
    await without.stop()
    assert str(refusal_of(refused.value, Caller.of(settings))).startswith("cluster: allow User:stranger")


@dataclass
class User:
    """A user of one test, which connects through the proxy. `settings` use the current password in its file."""

    broker: Broker
    rights: Rights
    password_file: Path
    name: str
    shard: str

    def settings(self) -> dict[str, Any]:
        changed = {
            "sasl_password_file": str(self.password_file),
            "ssl_cafile": None,
            "security_protocol": "SASL_PLAINTEXT",
        }
        return {**self.broker.settings(self.name, **changed), "bootstrap_servers": self.broker.proxied_bootstrap}

    def let_in(self, password: str) -> None:
        self.password_file.write_text(password)
        self.rights.let_in(self.name, password)


@pytest.fixture
def rotated(broker: Broker, rights: Rights, flights: Partition, tmp_path: Path) -> User:
    """Returns a user with the usual rights."""
    shard = new_id()
    user = User(broker, rights, tmp_path / "password", f"user-of-{shard}", shard)
    user.let_in("first")
    rights.allow(TRANSACTIONAL_ID, shard, WRITE, DESCRIBE, user=user.name)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE, user=user.name)
    return user


@asynccontextmanager
async def started_again(user: User) -> AsyncIterator[Guard]:
    """Starts a guard, with retries while it is refused: a broker may apply a change a moment after it confirms it."""
    for _ in range(TRIES):
        with suppress(NotStarted):
            async with started(user.settings(), user.shard) as guard:
                yield guard
                return
    raise AssertionError("it stays refused")


async def started_until(user: User, shard: str) -> None:
    """Starts guards until one is refused."""
    for _ in range(TRIES):
        async with started(user.settings(), shard):
            pass


async def test_a_removed_user_is_reported_when_its_connections_are_gone_and_recovers(
    broker: Broker, rights: Rights, rotated: User, flights: Partition
) -> None:
    rights.allow(TRANSACTIONAL_ID, other := new_id(), WRITE, DESCRIBE, user=rotated.name)
    async with proxied(broker.proxy_port, broker.behind) as proxy:

        def cut(_: list[int]) -> list[Batch]:
            """Between two batches: no transaction begins after a cut connection."""
            proxy.cut()
            return [batch(flights, b"never")]

        async with started(rotated.settings(), rotated.shard) as guard:
            rights.keep_out(rotated.name)
            written = await committed_until(guard, flights, [b"before"])
            with pytest.raises(NotStarted):
                await started_until(rotated, other)
            with pytest.raises(Refused, match=f"user {rotated.name}: .* sasl_password_file") as refused:
                await guard.commit([batch(flights, b"never")], cut)
            assert refused.value.culprits == ()
            assert not [task for task in asyncio.all_tasks() if "Sender" in repr(task)], "nothing asks on"
        rotated.let_in("second")
        async with started_again(rotated) as guard:
            await guard.commit([batch(flights, b"after")])
    assert broker.committed(flights) == [*written, b"after"]


async def test_a_refused_start_reports_no_commit_in_doubt(
    broker: Broker, rights: Rights, rotated: User, flights: Partition
) -> None:
    async with proxied(broker.proxy_port, broker.behind) as proxy:
        async with started(rotated.settings(), rotated.shard) as guard:
            proxy.lose_answer(END_TXN)
            with pytest.raises(InDoubt):
                await guard.commit([batch(flights, b"a")])
        rights.keep_out(rotated.name)
        with pytest.raises(NotStarted) as refused:
            await started_until(rotated, rotated.shard)
        assert not isinstance(refused.value, NotWritten)
        rotated.let_in("second")
        async with started_again(rotated):
            assert broker.committed(flights) == [b"a"]


async def test_a_session_that_ends_soon_is_renewed_before_a_transaction(
    broker: Broker, shard: str, flights: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session lasts a minute and must be renewed early: a broker that ends one during a commit leaves it in doubt."""
    monkeypatch.setattr(clients, "SESSION_PART", 0)
    plain = broker.settings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", ssl_cafile=None)
    settings = {**plain, "bootstrap_servers": broker.proxied_bootstrap}
    logins = []
    async with proxied(broker.proxy_port, broker.behind) as proxy, started(settings, shard) as guard:
        for value in (b"a", b"b", b"c"):
            await guard.commit([batch(flights, value)])
            logins.append(proxy.seen[SASL_AUTHENTICATE])
    assert broker.committed(flights) == [b"a", b"b", b"c"]
    assert logins[0] < logins[1] < logins[2]


async def test_a_quota_that_is_too_small_is_reported_with_what_to_raise(
    broker: Broker, rights: Rights, shard: str, flights: Partition
) -> None:
    settings = {**broker.settings(), "client_id": "slow"}
    rights.quota("slow", 1_000)
    written: list[bytes] = []
    async with started(settings, shard, HASTY) as guard:
        with pytest.raises(Throttled) as throttled:  # not by the first one: a broker throttles only later ones
            await committed_until(guard, flights, numbers(100_000), written)
    message = str(throttled.value)
    assert f"User:{CLIENT}, client id slow" in message
    assert "producer_byte_rate" in message
    assert throttled.value.culprits == ()
    rights.quota("slow", None)
    async with started(settings, shard) as guard:
        await guard.commit([batch(flights, b"after")])
    assert broker.committed(flights) == [*written, b"after"]
