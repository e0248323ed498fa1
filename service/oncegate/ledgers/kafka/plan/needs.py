"""The rights and settings that a gateway needs at its brokers, and requests that check them without any effect.

The needs follow from the ledger's URL and the names of its namespaces. Brokers report a client's rights on topics in
Metadata (version 8, by the protocol: aiokafka asks for none); rights on transactional ids show by a refusal.
"""

import asyncio
from collections.abc import Sequence
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
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.transaction import EndTxnRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from oncegate.clock import sleep_s
from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.namespaces import (
    DIRECT_PARTITIONS,
    KafkaNamespace,
    direct_topic,
    lane_ids,
    list_topic,
    topic_names,
    topics_of_name,
)
from oncegate.ledgers.kafka.topics import COMPACTED, KEPT, Wanted, wanted

TOPIC, TRANSACTIONAL_ID = "topic", "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """Names rights on all of a kind whose names begin with `name`, or on that one alone if `alone`.

    `operations`: as Kafka's tools call them.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    alone: bool = False

    def covers(self, name: str) -> bool:
        """Tells whether something of this name is meant."""
        return name == self.name if self.alone else name.startswith(self.name)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """Names transactional ids of one use: `first`, and all that begin with `prefix`; None: no other."""

    use: str
    first: str
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Holds all that a gateway needs; `principal`: whom rights are given to.

    `writer`: who writes into Kafka past the gateway, and `writers_rights` what he needs for that; None: nobody does.
    """

    principal: str
    topics: tuple[Wanted, ...]
    rights: tuple[Right, ...]
    # Of users, which they make: rows go there.
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
    """Says what the gateway at this address needs for namespaces that are new, and to write rows into users' topics.

    BadRequest: no principal is known.
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
        # Delete is the right to shorten, by DeleteRecords.
        Right(TOPIC, begin, ("Describe", "DescribeConfigs", "Read", "Write", "Delete")),
        Right(TRANSACTIONAL_ID, begin, ("Describe", "Write")),
        *(Right(TOPIC, topic, ("Describe", "DescribeConfigs", "Write"), alone=True) for topic in users_topics),
    )
    given = () if writer is None else _of_writers(address, namespaces, users_topics)
    whom = principal or principal_of(address)
    return Needs(whom, tuple(topics), rights, tuple(users_topics), tuple(ids), writer, given)


def _of_writers(address: Address, namespaces: Sequence[str], users_topics: Sequence[str]) -> tuple[Right, ...]:
    """The rights of clients that write their rows themselves, and of nothing else of a ledger's."""
    rights = []
    for namespace in namespaces:
        one = KafkaNamespace(b"", topics_of_name(address.prefix, namespace), b"")
        rights.append(Right(TRANSACTIONAL_ID, lane_ids(one), ("Describe", "Write")))
        rights.append(Right(TOPIC, direct_topic(one), ("Describe", "Write"), alone=True))
    return (*rights, *(Right(TOPIC, topic, ("Describe", "Write"), alone=True) for topic in users_topics))


def principal_of(address: Address) -> str:
    """Returns whom the brokers take a client of this address for; BadRequest: they name it by their own rules."""
    if address.security.username is not None:
        return f"User:{address.security.username}"
    if address.security.certfile is not None:
        raise BadRequest(
            "brokers name who has a certificate by ssl.principal.mapping.rules: give the name as --principal"
        )
    return "User:ANONYMOUS"


# The bits of a topic's rights, and what Kafka's tools call them.
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8, "DescribeConfigs": 10}
# The first transactional id of a cluster makes the topic of all of them.
COORDINATOR_S = 30.0
_POLL_S = 0.1
_TRANSACTIONS = 1
_TEXT = String("utf-8")
# Nobody has this number: what it asks to be ended is refused, by the right first.
_NOBODY = -1
# What a coordinator says that is being found, or made.
_NOT_YET = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


class _MetadataAnswer(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("cluster_operations", Int32),
    )


class _MetadataStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataAnswer
    SCHEMA = Schema(
        ("topics", Array(_TEXT)), ("make_topics", Boolean), ("cluster_operations", Boolean), ("operations", Boolean)
    )


class _Metadata(Request[_MetadataStruct]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(self._topics, False, False, True)


async def topic_operations(client: Client, topics: Sequence[str]) -> dict[str, set[str]]:
    """Returns what the client may do with each topic that is there; KafkaError. None is made."""
    answer = (await client.send(client.get_random_node(), _Metadata(topics))).to_object()
    return {
        one["topic"]: {name for name, bit in OPERATIONS.items() if one["operations"] & 1 << bit}
        for one in answer["topics"]
    }


async def id_operations(client: Client, transactional_id: str) -> set[str]:
    """Returns what the client may do with a transactional id, of Describe and Write.

    KafkaError, TimeoutError; TransactionalIdAuthorizationFailed: nothing.
    """
    async with asyncio.timeout(COORDINATOR_S):
        while (refused := await _refused(client, transactional_id)) in _NOT_YET:
            await sleep_s(_POLL_S)
    return {"Describe"} if refused is TransactionalIdAuthorizationFailed else {"Describe", "Write"}


async def _refused(client: Client, transactional_id: str) -> type[KafkaError]:
    """What a coordinator answers who asks to end a transaction that is nobody's."""
    try:
        node = await client.coordinator_lookup(_TRANSACTIONS, transactional_id)
    except _NOT_YET as error:
        return type(error)
    answer = await client.send(node, EndTxnRequest(transactional_id, _NOBODY, _NOBODY, False))
    return cast(type[KafkaError], for_code(answer.error_code))
