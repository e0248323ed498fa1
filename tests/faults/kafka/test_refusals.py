"""The errors of a client without a right, with an old password, or over a quota, on a real broker."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition
from confluent_kafka.admin import AclOperation

from deploy.kafka.access import CLIENT, Access
from oncegate.core.errors import LedgerDown
from oncegate.ledgers.kafka.address import Address, parse_address
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import reader
from oncegate.ledgers.kafka.refusals import BrokersRefuse, Caller, refusal_of
from oncegate.ledgers.kafka.topics import KEPT, shorten, topics_of
from oncegate.ledgers.kafka.transactions.ends import RecordTooLarge
from oncegate.ledgers.kafka.transactions.sending import Batch
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_guards import batch, new_id, refused_at_start, started
from tests.support.kafka_proxy import PRODUCE, proxied
from tests.support.kafka_rights import DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Rights

pytestmark = pytest.mark.slow
# Maximal number of transactions until a change is known everywhere in a broker.
TRIES = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), Access(sasl=True, acls=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def rights(broker: Broker) -> Rights:
    return Rights(broker)


def address_of(broker: Broker, prefix: str) -> Address:
    return parse_address(place_of(broker, prefix))


def place_of(broker: Broker, prefix: str, bootstrap: str | None = None, **changed: str) -> str:
    parameters = broker.cluster.access.parameters(broker.cluster.files, CLIENT) | changed
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    where = bootstrap or broker.cluster.bootstrap
    return f"//{where}/{prefix}?replication=1&min_insync=1&bare_key=yes&send_ms=5000&commit_ms=5000&{query}"


async def first_record(settings: dict[str, Any], partition: Partition) -> bytes | None:
    async with reader(settings) as opened:
        first, end = await opened.bounds(partition)
        async for record in opened.records(partition, first, end):
            return record.value
    return None


async def test_a_reader_gets_an_error_with_the_missing_right(broker: Broker, rights: Rights) -> None:
    flights, name = broker.topic(), new_id()
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE)
    async with started(broker.settings(), name) as guard:
        await guard.commit([batch(flights, b"a")])
    with pytest.raises(BrokersRefuse) as refused:
        await first_record(broker.settings(), flights)
    assert str(refused.value) == f"topic {flights.topic}: allow User:{CLIENT} to DESCRIBE and READ"
    rights.allow(TOPIC, flights.topic, READ)
    assert await first_record(broker.settings(), flights) == b"a"


async def test_a_client_that_may_not_make_a_topic_gets_an_error_with_how_it_is_made(broker: Broker) -> None:
    address = address_of(broker, "unmade")
    async with topics_of(address) as topics:
        with pytest.raises(BrokersRefuse, match=rf"topic unmade\.x is missing: .* allow User:{CLIENT} to CREATE"):
            await topics.make(["unmade.x"], KEPT)


async def test_a_client_that_may_not_see_settings_or_truncate_gets_an_error_with_that_right(
    broker: Broker, rights: Rights
) -> None:
    topic = broker.topic().topic
    rights.allow(TOPIC, topic, DESCRIBE)
    async with topics_of(address_of(broker, "p")) as topics:
        with pytest.raises(BrokersRefuse, match=f"topic {topic}: allow User:{CLIENT} to DESCRIBE_CONFIGS"):
            await topics.check([topic], KEPT)
    with pytest.raises(BrokersRefuse, match=f"topic {topic}: allow User:{CLIENT} to DELETE"):
        await shorten(broker.settings(), {Partition(topic, 0): 0})


async def test_a_refused_opening_names_the_remedy(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong")
    with pytest.raises(LedgerDown, match=f"user {CLIENT}: .* sasl_password_file"):
        async with open_kafka(place_of(broker, "refused", sasl_password_file=f"{tmp_path}/wrong"), create=True):
            pass
    with pytest.raises(LedgerDown, match=r"topic refused\.namespaces is missing: make it"):
        async with open_kafka(place_of(broker, "refused"), create=True):
            pass


async def test_a_password_that_is_changed_in_its_file_counts_without_a_start(
    broker: Broker, rights: Rights, tmp_path: Path
) -> None:
    flights, name, user = broker.topic(), new_id(), "rotated"
    (password := tmp_path / "password").write_text("first")
    rights.let_in(user, "first")
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE, user=user)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE, user=user)
    settings = broker.settings(user, sasl_password_file=str(password)) | {"bootstrap_servers": broker.proxied_bootstrap}
    async with proxied(broker.proxy_port, broker.behind) as proxy, started(settings, name) as guard:

        def cut(_: list[int]) -> list[Batch]:
            """Between two batches: no transaction begins after a cut connection."""
            rights.let_in(user, "second")
            password.write_text("second")
            proxy.cut()
            return [batch(flights, b"b")]

        await guard.commit([batch(flights, b"a")], cut)
    assert broker.committed(flights) == [b"a", b"b"]
    password.write_text("third")
    assert f"user {user}" in await refused_at_start(broker.settings(user, sasl_password_file=str(password)), name)


async def test_a_ledger_outlives_a_change_of_its_password(broker: Broker, rights: Rights, tmp_path: Path) -> None:
    (password := tmp_path / "password").write_text("first")
    user = "owner"
    rights.let_in(user, "first")
    everything = (WRITE, READ, DESCRIBE, DESCRIBE_CONFIGS, DELETE, AclOperation.CREATE)
    rights.allow_below(TOPIC, "kept.", *everything, user=user)
    rights.allow_below(TRANSACTIONAL_ID, "kept.", WRITE, DESCRIBE, user=user)
    place = place_of(broker, "kept", broker.proxied_bootstrap, sasl_username=user, sasl_password_file=str(password))
    async with proxied(broker.proxy_port, broker.behind) as proxy, open_kafka(place, create=True) as ledgers:
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"a"], [])
            rights.let_in(user, "second")
            password.write_text("second")
            proxy.cut()
            await opened.ledger.append([b"b"], [])
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
        async with ledgers.open("default") as opened:
            assert opened.ledger.mark.position == 2


async def test_an_answer_to_an_invalid_password_is_reported_in_one_line(broker: Broker) -> None:
    settings = broker.settings() | {"bootstrap_servers": broker.proxied_bootstrap}
    async with proxied(broker.proxy_port, broker.behind) as proxy:
        proxy.spoil_answers(b"i=4096", b"i=none")
        message = await refused_at_start(settings)
    assert f"user {CLIENT}: what came back is no answer of SCRAM-SHA-512" in message
    assert "check that the address and port are the brokers' own" in message
    assert "\n" not in message


async def test_a_batch_refused_by_a_topic_is_reported_with_the_limit_and_the_others_are_accepted(
    broker: Broker, rights: Rights
) -> None:
    small, name = broker.topic(max_message_bytes="1000"), new_id()
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    rights.allow(TOPIC, small.topic, WRITE, DESCRIBE)
    async with started(broker.settings(), name) as guard:
        with pytest.raises(RecordTooLarge, match=f"raise max.message.bytes of topic {small.topic}") as refused:
            await guard.commit([batch(small, b"a"), batch(small, bytes(2_000))])
    assert refused.value.culprits == (small,)
    async with started(broker.settings(), name) as guard:
        await guard.commit([batch(small, b"a")])
    assert broker.committed(small) == [b"a"]


async def test_a_topic_that_has_not_answered_is_not_named_beside_one_that_refuses_a_size(
    broker: Broker, rights: Rights
) -> None:
    small, other, name = broker.topic(max_message_bytes="1000"), broker.topic(), new_id()
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    for partition in (small, other):
        rights.allow(TOPIC, partition.topic, WRITE, DESCRIBE)
    settings = broker.settings() | {"bootstrap_servers": broker.proxied_bootstrap}
    async with proxied(broker.proxy_port, broker.behind) as proxy, started(settings, name) as guard:
        # both topics are known: the next commit needs no answer
        await guard.commit([batch(small, b"a"), batch(other, b"a")])
        proxy.hold_answer(PRODUCE)

        async def batches() -> AsyncIterator[Batch]:
            yield batch(small, bytes(2_000))
            await proxy.held.wait()
            yield batch(other, b"waits for the answer that is held back")
            proxy.release()

        with pytest.raises(RecordTooLarge) as refused:
            await guard.commit(batches())
    assert refused.value.culprits == (small,)


def test_a_partition_that_may_not_be_read_is_reported_with_its_topic() -> None:
    for named in ("flights", ["flights"], TopicPartition("flights", 0), [TopicPartition("flights", 0)]):
        message = refusal_of(TopicAuthorizationFailedError(named), Caller(user="u"))
        assert str(message) == "topic flights: allow User:u to DESCRIBE and WRITE"
