"""Rights and a user are revoked while a gateway serves: it reports what is missing and recovers by itself."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest
from aiokafka.errors import KafkaError
from confluent_kafka.admin import AclOperation

from deploy.kafka.access import CLIENT, Access
from oncegate.ledgers.kafka.namespaces import Beat, NamespaceTopic, list_topic
from oncegate.ledgers.kafka.refusals import BrokersRefuse
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.matrix.world import wait_until
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_rights import (
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Rights,
)

pytestmark = pytest.mark.slow
PREFIX = "served"
# A SASL session ends after this time: the client must present its password again.
SESSION_MS = 8_000
# Maximal number of claims until a change is known everywhere in a broker, or a session ends.
TRIES = 500
Change = Callable[[Broker, Rights], None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("kafka")
    with one_broker(folder, Access(sasl=True, acls=True), connections_max_reauth_ms=str(SESSION_MS)) as broker:
        yield broker


@pytest.fixture(scope="module")
def rights(broker: Broker) -> Rights:
    return Rights(broker)


@pytest.fixture(scope="module")
def gateway(broker: Broker, rights: Rights, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    give_topics(broker, rights)
    give_ids(broker, rights)
    parameters = broker.cluster.access.parameters(broker.cluster.files, CLIENT)
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    times = "send_ms=3000&commit_ms=3000"
    ledger = f"kafka://{broker.cluster.bootstrap}/{PREFIX}?replication=1&min_insync=1&bare_key=yes&{times}&{query}"
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=ledger) as gateway:
        yield gateway


def give_topics(_broker: Broker, rights: Rights) -> None:
    rights.allow_below(TOPIC, PREFIX, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, DELETE, AclOperation.CREATE)


def give_ids(_broker: Broker, rights: Rights) -> None:
    rights.allow_below(TRANSACTIONAL_ID, PREFIX, WRITE, DESCRIBE)


def take_topics(_broker: Broker, rights: Rights) -> None:
    rights.take_below(TOPIC, PREFIX)


def take_ids(_broker: Broker, rights: Rights) -> None:
    rights.take_below(TRANSACTIONAL_ID, PREFIX)


def remove_user(_broker: Broker, rights: Rights) -> None:
    rights.keep_out(CLIENT)


def make_user(broker: Broker, rights: Rights) -> None:
    rights.let_in(CLIENT, broker.cluster.files.password(CLIENT))


def claimed(gateway: GatewayProcess, one: str, timeout_ms: int = 60_000) -> int:
    """Claims an id in a new attempt and completes it. Returns the number of grants."""
    with Gateway(gateway.url, timeout_ms=timeout_ms) as client, client.attempt() as attempt:
        claim = attempt.claim([one])
        granted = len(list(claim.granted))
        attempt.complete(claim)
        return granted


def claimed_until_refused(gateway: GatewayProcess, ids: Iterator[str]) -> None:
    for _ in range(TRIES):
        claimed(gateway, next(ids), timeout_ms=8_000)


def namespace(gateway: GatewayProcess) -> Any:
    """Returns the state of the namespace, or the error; after an append in doubt the namespace is opened again."""
    return gateway.ask("GET", "/v1/namespaces/default")[1]


@pytest.mark.parametrize(
    ("take", "give", "words"),
    [
        (take_topics, give_topics, "topic served.default.ledger: allow User:oncegate to DESCRIBE and WRITE"),
        (take_ids, give_ids, "allow User:oncegate to DESCRIBE and WRITE, by the prefix of its ids"),
        (remove_user, make_user, "user oncegate"),
    ],
)
def test_rights_revoked_from_a_serving_gateway_are_reported_and_everything_continues_when_they_are_restored(
    broker: Broker, rights: Rights, gateway: GatewayProcess, take: Change, give: Change, words: str
) -> None:
    ids = (f"{take.__name__}-{number}" for number in count())
    first = next(ids)
    assert claimed(gateway, first) == 1
    take(broker, rights)
    try:
        with pytest.raises(OncegateError):
            claimed_until_refused(gateway, ids)
        wait_until(f"it says {words}", lambda: words in f"{namespace(gateway)} {gateway.log}")
    finally:
        give(broker, rights)
    assert claimed(gateway, next(ids), timeout_ms=120_000) == 1
    assert claimed(gateway, first) == 0
    wait_until("nothing fails any more", lambda: namespace(gateway).get("failing") == {})


async def test_a_gateways_beats_go_on_when_the_right_to_write_them_is_given_back(
    broker: Broker, rights: Rights
) -> None:
    prefix = "beating"
    topic = broker.topic(name=list_topic(prefix), cleanup_policy="compact").topic
    rights.allow(TOPIC, topic, READ, WRITE, DESCRIBE)
    listed = NamespaceTopic(broker.settings(), prefix, Deadlines())
    try:
        await listed.beat("gateway", Beat(1))
        rights.take(TOPIC, topic)
        with pytest.raises(KafkaError):
            await beating(listed)
        rights.allow(TOPIC, topic, READ, WRITE, DESCRIBE)
        await beaten(listed)
        assert broker.values(topic)[-1] == msgspec.json.encode(Beat(TRIES))
    finally:
        await listed.close()


async def beating(listed: NamespaceTopic) -> None:
    for number in range(TRIES):
        await listed.beat("gateway", Beat(number))


async def beaten(listed: NamespaceTopic) -> None:
    """Retries as the upkeep does, until brokers know of the right."""
    for _ in range(TRIES):
        with suppress(BrokersRefuse):
            return await listed.beat("gateway", Beat(TRIES))
    raise AssertionError("the right is there, and no beat is taken")
