"""Topics of a ledger on Kafka are checked by a broker that may not know them yet."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError

from oncegate.ledgers.kafka.address import parse_address
from oncegate.ledgers.kafka.topics import KEPT, LEADER_S, Admin, Topics, wanted
from oncegate.testing.clock import turned_loop

NAME = "once.default.ledger"
ADDRESS = parse_address("//a:9092/once?bare_key=yes")
WANTED = wanted(ADDRESS, [NAME], KEPT)
UNKNOWN, NO_LEADER = UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno

pytestmark = pytest.mark.turned


class Broker:
    """Describes the ledger's topic: without partitions, and with an error code, for its first answers."""

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes = list(codes)

    async def describe_configs(self, _: object) -> list[Any]:
        values = [(name, value) for name, value in WANTED[0].settings.items()]
        return [SimpleNamespace(resources=[(0, "", 2, NAME, values)])]

    async def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        code = self.codes.pop(0) if self.codes else 0
        partitions = [] if code else [{"replicas": [1, 2, 3]}]
        return [{"topic": name, "error_code": code, "partitions": partitions} for name in names]


def check(broker: Broker) -> "asyncio.Task[dict[str, list[str]]]":
    return asyncio.ensure_future(Topics(cast(Admin, broker), ADDRESS).wrong(WANTED))


async def test_a_topic_that_a_broker_does_not_know_yet_is_described_again_and_is_not_called_wrong() -> None:
    checked = check(Broker([UNKNOWN, UNKNOWN]))
    for _ in range(3):
        await turned_loop().turn(1.0)
    assert checked.result() == {NAME: []}


async def test_a_topic_that_stays_unknown_is_an_error_of_the_broker_after_a_while() -> None:
    checked = check(Broker([UNKNOWN] * 100))
    await turned_loop().settle()
    await turned_loop().turn(LEADER_S)
    assert not checked.done()
    await turned_loop().turn(1.0)
    assert isinstance(checked.exception(), UnknownTopicOrPartitionError)


async def test_any_other_error_of_a_description_is_raised_and_no_topic_is_called_wrong() -> None:
    with pytest.raises(KafkaError, match=f"topic {NAME} cannot be described") as raised:
        await check(Broker([NO_LEADER]))
    assert isinstance(raised.value, LeaderNotAvailableError)
