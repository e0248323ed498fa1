"""Computes the topics, ACLs and transactional ids that ledgers on Kafka need from their brokers.

All of them follow from the ledger's URL and the names of its namespaces. The plan is printed as commands of Kafka's own
tools, or checked item by item without side effects. Brokers report a client's rights on topics in Metadata; rights on
transactional ids are probed with a request that the broker must refuse.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    TransactionalIdAuthorizationFailed,
    for_code,
)
from aiokafka.protocol.transaction import EndTxnRequest

from oncegate.clock import sleep_s
from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.ledgers import unreachable
from oncegate.ledgers.kafka.markers.wire import describe_topics
from oncegate.ledgers.kafka.namespaces import (
    DIRECT_PARTITIONS,
    KafkaNamespace,
    direct_topic,
    lane_ids,
    list_topic,
    topic_names,
    topics_of_name,
)
from oncegate.ledgers.kafka.refusals import BrokersRefuse
from oncegate.ledgers.kafka.topics import COMPACTED, KEPT, Topics, Wanted, topics_of, wanted
from oncegate.ledgers.kafka.watch import Watch

_MISSING = "missing, or not to be seen without the right to Describe"
TOPIC, TRANSACTIONAL_ID = "topic", "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """Rights on all resources of a kind whose names begin with `name`;
    with `alone`, only on the resource with exactly that name.

    `operations`: names as in Kafka's tools.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    alone: bool = False

    def covers(self, name: str) -> bool:
        return name == self.name if self.alone else name.startswith(self.name)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """Transactional ids for one purpose: `first`, and, if `prefix` is set, all that begin with it."""

    use: str
    first: str
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Topics, transactional ids and rights that a gateway needs.
    `principal`: the gateway's, which the rights are granted to.

    `writer`: principal of clients that write to Kafka directly, None without such clients; `writers_rights`: its
    rights.
    """

    principal: str
    topics: tuple[Wanted, ...]
    rights: tuple[Right, ...]
    # Topics that users create and rows are written to.
    users_topics: tuple[str, ...]
    ids: tuple[TransactionalId, ...]
    writer: str | None = None
    writers_rights: tuple[Right, ...] = ()


def needs_of(
    address: Address,
    namespaces: Sequence[str],
    principal: str | None,
    users_topics: Sequence[str] = (),
    writer: str | None = None,
) -> Needs:
    """Returns the needs of the gateway at this address, for new namespaces and for writing rows into users' topics.

    Raises BadRequest: the principal is not given and does not follow from the URL.
    """
    topics = wanted(address, [list_topic(address.prefix)], COMPACTED)
    ids = [TransactionalId("the list of namespaces", list_topic(address.prefix))]
    for namespace in namespaces:
        one = KafkaNamespace(b"", topics_of_name(address.prefix, namespace), b"")
        topics += wanted(address, topic_names(one), KEPT)
        topics += wanted(address, [direct_topic(one)], KEPT, DIRECT_PARTITIONS)
        ids.append(TransactionalId(f"namespace {namespace}, a number an opening", f"{one.name}/1", f"{one.name}/"))
    begin = f"{address.prefix}."
    rights = (
        # Delete permits DeleteRecords, which truncates a topic.
        Right(TOPIC, begin, ("Describe", "DescribeConfigs", "Read", "Write", "Delete")),
        Right(TRANSACTIONAL_ID, begin, ("Describe", "Write")),
        *(Right(TOPIC, topic, ("Describe", "DescribeConfigs", "Write"), alone=True) for topic in users_topics),
    )
    given = () if writer is None else _of_writers(address, namespaces, users_topics)
    whom = principal or principal_of(address)
    return Needs(whom, tuple(topics), rights, tuple(users_topics), tuple(ids), writer, given)


def _of_writers(address: Address, namespaces: Sequence[str], users_topics: Sequence[str]) -> tuple[Right, ...]:
    """Returns the rights of clients that write their rows to Kafka directly."""
    rights = []
    for namespace in namespaces:
        one = KafkaNamespace(b"", topics_of_name(address.prefix, namespace), b"")
        rights.append(Right(TRANSACTIONAL_ID, lane_ids(one), ("Describe", "Write")))
        rights.append(Right(TOPIC, direct_topic(one), ("Describe", "Write"), alone=True))
    return (*rights, *(Right(TOPIC, topic, ("Describe", "Write"), alone=True) for topic in users_topics))


def principal_of(address: Address) -> str:
    """Returns the Kafka principal of a client that connects with this address.

    Raises BadRequest: the client has a certificate, whose principal depends on the brokers' mapping rules.
    """
    if address.security.username is not None:
        return f"User:{address.security.username}"
    if address.security.certfile is not None:
        raise BadRequest(
            "brokers name who has a certificate by ssl.principal.mapping.rules: give the name as --principal"
        )
    return "User:ANONYMOUS"


# Bits of a topic's rights in Metadata, by their names in Kafka's tools.
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8, "DescribeConfigs": 10}
# Generous: the first transactional id of a cluster creates the topic __transaction_state.
COORDINATOR_S = 30.0
_POLL_S = 0.1
_TRANSACTIONS = 1
# Invalid producer id and epoch: EndTxn is refused, first for a missing right.
_NOBODY = -1
# Retriable errors while the coordinator is being found or loaded.
_NOT_YET = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


async def topic_operations(client: Client, topics: Sequence[str]) -> dict[str, set[str]]:
    """Returns this client's rights on each topic that exists; creates no topic. Raises KafkaError."""
    answer = (await client.send(client.get_random_node(), describe_topics(topics, operations=True))).to_object()
    return {
        one["topic"]: {name for name, bit in OPERATIONS.items() if one["operations"] & 1 << bit}
        for one in answer["topics"]
    }


async def id_operations(client: Client, transactional_id: str) -> set[str]:
    """Returns which of the rights Describe and Write the client has on a transactional id.

    Raises KafkaError, TimeoutError; TransactionalIdAuthorizationFailed: it has neither.
    """
    async with asyncio.timeout(COORDINATOR_S):
        while (refused := await _refused(client, transactional_id)) in _NOT_YET:
            await sleep_s(_POLL_S)
    return {"Describe"} if refused is TransactionalIdAuthorizationFailed else {"Describe", "Write"}


async def _refused(client: Client, transactional_id: str) -> type[KafkaError]:
    """Asks the coordinator to end a transaction that does not exist, and returns the type of its error."""
    try:
        node = await client.coordinator_lookup(_TRANSACTIONS, transactional_id)
    except _NOT_YET as error:
        return type(error)
    answer = await client.send(node, EndTxnRequest(transactional_id, _NOBODY, _NOBODY, False))
    return cast(type[KafkaError], for_code(answer.error_code))


@dataclass(frozen=True, slots=True)
class Looked:
    """Result of checking one item; `wrong` is empty if it exists and is correct."""

    item: str
    wrong: tuple[str, ...] = ()


async def look(needs: Needs, address: Address) -> list[Looked]:
    """Checks all needs over a connection with the address's credentials.
    Raises LedgerDown: the brokers are unavailable or refuse it.
    """
    with unreachable(address):
        async with topics_of(address) as topics:
            there = await topics.names()
            found = [await _looked_at(topics, one, one.name in there) for one in needs.topics]
        # With auto.create.topics.enable, asking for a missing topic would create it.
        found += [_made(topic, topic in there) for topic in needs.users_topics]
        seen = [name for name in (*(one.name for one in needs.topics), *needs.users_topics) if name in there]
        async with _client(address.settings) as client:
            return found + await _rights(client, needs, seen)


def _made(topic: str, there: bool) -> Looked:
    return Looked(f"topic {topic}", () if there else (_MISSING,))


async def _looked_at(topics: Topics, one: Wanted, there: bool) -> Looked:
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


def commands(needs: Needs, bootstrap: str, command_config: str | None) -> Iterator[str]:
    """Yields a command line that creates each topic, then one that grants each right.
    `command_config`: file for the tools' connection.
    """
    config = [] if command_config is None else ["--command-config", command_config]
    reached = ["--bootstrap-server", bootstrap, *config]
    for one in needs.topics:
        yield shlex.join(["kafka-topics.sh", *reached, *_topic(one)])
    for right in needs.rights:
        yield shlex.join(["kafka-acls.sh", *reached, *_right(right, needs.principal)])
    if needs.writer is not None:
        for right in needs.writers_rights:
            yield shlex.join(["kafka-acls.sh", *reached, *_right(right, needs.writer)])


def _topic(one: Wanted) -> list[str]:
    made = ["--create", "--if-not-exists", "--topic", one.name]
    counts = ["--partitions", str(one.partitions), "--replication-factor", str(one.replication)]
    return [*made, *counts, *(word for name, value in one.settings.items() for word in ("--config", f"{name}={value}"))]


def _right(right: Right, principal: str) -> list[str]:
    operations = [word for operation in right.operations for word in ("--operation", operation)]
    where = [f"--{right.kind}", right.name, "--resource-pattern-type", "literal" if right.alone else "prefixed"]
    return ["--add", "--allow-principal", principal, *operations, *where]
