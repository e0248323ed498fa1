"""Asks brokers what a client may do, with no effect: of topics they tell it, of transactional ids they refuse it.

aiokafka asks no broker for rights on topics; the request is the protocol's Metadata in version 8.
"""

import asyncio
from collections.abc import Sequence
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

from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.pause import pause

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
            await pause(_POLL_S)
    return {"Describe"} if refused is TransactionalIdAuthorizationFailed else {"Describe", "Write"}


async def _refused(client: Client, transactional_id: str) -> type[KafkaError]:
    """What a coordinator answers who asks to end a transaction that is nobody's."""
    try:
        node = await client.coordinator_lookup(_TRANSACTIONS, transactional_id)
    except _NOT_YET as error:
        return type(error)
    answer = await client.send(node, EndTxnRequest(transactional_id, _NOBODY, _NOBODY, False))
    return cast(type[KafkaError], for_code(answer.error_code))
