"""Looks at the brokers, item by item: whether what a gateway needs is there and right. Changes nothing."""

from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import TransactionalIdAuthorizationFailed

from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.ledgers import unreachable
from oncegate.ledgers.kafka.plan.needs import TOPIC, Needs, Right, id_operations, topic_operations
from oncegate.ledgers.kafka.refusals import BrokersRefuse
from oncegate.ledgers.kafka.topics import Topics, Wanted, topics_of
from oncegate.ledgers.kafka.watch import Watch

_MISSING = "missing, or not to be seen without the right to Describe"


@dataclass(frozen=True, slots=True)
class Looked:
    """Says of one item what is wrong with it; nothing: it is there and right."""

    item: str
    wrong: tuple[str, ...] = ()


async def look(needs: Needs, address: Address) -> list[Looked]:
    """Asks as the client of the address. LedgerDown: the brokers are away, or refuse it altogether."""
    with unreachable(address):
        async with topics_of(address) as topics:
            there = await topics.names()
            found = [await _topic(topics, one, one.name in there) for one in needs.topics]
        # Asking for a topic that is not there would make it on brokers that make what they are asked for.
        found += [_made(topic, topic in there) for topic in needs.users_topics]
        seen = [name for name in (*(one.name for one in needs.topics), *needs.users_topics) if name in there]
        async with _client(address.settings) as client:
            return found + await _rights(client, needs, seen)


def _made(topic: str, there: bool) -> Looked:
    return Looked(f"topic {topic}", () if there else (_MISSING,))


async def _topic(topics: Topics, one: Wanted, there: bool) -> Looked:
    if not there:
        return Looked(f"topic {one.name}", (_MISSING,))
    try:
        return Looked(f"topic {one.name}", tuple((await topics.wrong([one]))[one.name]))
    except BrokersRefuse as refused:
        return Looked(f"topic {one.name}", (f"its settings are not told: {refused}",))


async def _rights(client: Client, needs: Needs, topics: list[str]) -> list[Looked]:
    found = []
    of_topics = await topic_operations(client, topics) if topics else {}
    for right in needs.rights:
        held: Mapping[str, Set[str]] = of_topics if right.kind == TOPIC else await _of_ids(client, needs)
        found += [_held(right, name, operations) for name, operations in sorted(held.items()) if right.covers(name)]
    return found


def _held(right: Right, name: str, operations: Set[str]) -> Looked:
    missing = [one for one in right.operations if one not in operations]
    said = (f"{', '.join(missing)} is missing",) if missing else ()
    return Looked(f"rights on {right.kind} {name}", said)


async def _of_ids(client: Client, needs: Needs) -> dict[str, Set[str]]:
    found: dict[str, Set[str]] = {}
    for one in needs.ids:
        try:
            found[one.first] = await id_operations(client, one.first)
        except TransactionalIdAuthorizationFailed:
            found[one.first] = set()
    return found


@asynccontextmanager
async def _client(settings: Mapping[str, Any]) -> AsyncIterator[Client]:
    watch = Watch(settings)
    client = Client(settings, watch)
    try:
        with watch.telling():
            await client.bootstrap()
        yield client
    finally:
        await client.close()
