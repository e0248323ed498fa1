"""Four requests of Kafka's protocol that aiokafka has not: DescribeProducers, DescribeTransactions, WriteTxnMarkers,
and Metadata with the ids of topics.

Each in the first version that brokers from 4.0 on take (KIP-664; WriteTxnMarkers v1), Metadata in the first that has
the ids (KIP-516) and no cluster's rights.
"""

from collections.abc import Iterable
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from oncegate.ledgers.kafka.partition import Partition

_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_NO_TAGS: dict[int, bytes] = {}


class _ProducersAnswer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 61, 0
    _PRODUCER = (
        ("producer_id", Int64),
        ("producer_epoch", Int32),
        ("last_sequence", Int32),
        ("last_timestamp", Int64),
        ("coordinator_epoch", Int32),
        ("first_offset", Int64),
        _TAGS,
    )
    _PARTITION = (
        ("partition", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        ("producers", CompactArray(*_PRODUCER)),
        _TAGS,
    )
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(*_PARTITION)), _TAGS)),
        _TAGS,
    )


class _ProducersAsked(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE = 61, 0, True, _ProducersAnswer
    SCHEMA = Schema(("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)), _TAGS)


class DescribeProducers(Request[_ProducersAsked]):  # type: ignore[misc]
    """Asks the leader of these partitions for the producers that it knows of, and what each of them has open."""

    API_KEY = 61

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            self._numbers.setdefault(topic, []).append(number)

    def build(self, request_struct_class: Any) -> Any:
        """Implements aiokafka's `Request.build`."""
        return request_struct_class([(topic, some, _NO_TAGS) for topic, some in self._numbers.items()], _NO_TAGS)


class _TransactionsAnswer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 65, 0
    _STATE = (
        ("error_code", Int16),
        ("transactional_id", _TEXT),
        ("state", _TEXT),
        ("timeout_ms", Int32),
        ("start_ms", Int64),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
        _TAGS,
    )
    SCHEMA = Schema(("throttle_time_ms", Int32), ("states", CompactArray(*_STATE)), _TAGS)


class _TransactionsAsked(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE = 65, 0, True, _TransactionsAnswer
    SCHEMA = Schema(("transactional_ids", CompactArray(_TEXT)), _TAGS)


class DescribeTransaction(Request[_TransactionsAsked]):  # type: ignore[misc]
    """Asks a transactional id's coordinator for its state."""

    API_KEY = 65

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id

    def build(self, request_struct_class: Any) -> Any:
        """Implements aiokafka's `Request.build`."""
        return request_struct_class([self._transactional_id], _NO_TAGS)


class _MarkersAnswer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 27, 1
    _TOPIC = (
        ("topic", _TEXT),
        ("partitions", CompactArray(("partition", Int32), ("error_code", Int16), _TAGS)),
        _TAGS,
    )
    SCHEMA = Schema(("markers", CompactArray(("producer_id", Int64), ("topics", CompactArray(*_TOPIC)), _TAGS)), _TAGS)


class _MarkersAsked(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE = 27, 1, True, _MarkersAnswer
    _MARKER = (
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("committed", Boolean),
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
        ("coordinator_epoch", Int32),
        _TAGS,
    )
    SCHEMA = Schema(("markers", CompactArray(*_MARKER)), _TAGS)


class WriteMarker(Request[_MarkersAsked]):  # type: ignore[misc]
    """Tells a partition's leader what became of what a producer has open there, as a coordinator does.

    `producer`: its id, and the epoch of the marker.
    """

    API_KEY = 27

    def __init__(
        self, partition: Partition, producer: tuple[int, int], committed: bool, coordinator_epoch: int
    ) -> None:
        self._partition = partition
        self._said = *producer, committed
        self._coordinator_epoch = coordinator_epoch

    def build(self, request_struct_class: Any) -> Any:
        """Implements aiokafka's `Request.build`."""
        topic, number = self._partition
        topics = [(topic, [number], _NO_TAGS)]
        return request_struct_class([(*self._said, topics, self._coordinator_epoch, _NO_TAGS)], _NO_TAGS)


class _TopicId:
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        return bytes(data.read(16))

    @classmethod
    def repr(cls, value: bytes) -> str:
        return value.hex()


class _TopicIdsAnswer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 12
    _BROKER = (("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS)
    _PARTITION = (
        ("error_code", Int16),
        ("partition", Int32),
        ("leader", Int32),
        ("leader_epoch", Int32),
        ("replicas", CompactArray(Int32)),
        ("isr", CompactArray(Int32)),
        ("offline_replicas", CompactArray(Int32)),
        _TAGS,
    )
    _TOPIC = (
        ("error_code", Int16),
        ("topic", _TEXT),
        ("topic_id", _TopicId),
        ("is_internal", Boolean),
        ("partitions", CompactArray(*_PARTITION)),
        ("operations", Int32),
        _TAGS,
    )
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        _TAGS,
    )


class _TopicIdsAsked(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE = 3, 12, True, _TopicIdsAnswer
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _TopicId), ("topic", _TEXT), _TAGS)),
        ("make_topics", Boolean),
        ("operations", Boolean),
        _TAGS,
    )


class TopicIds(Request[_TopicIdsAsked]):  # type: ignore[misc]
    """Asks any broker for the ids of topics by their names; none is made."""

    API_KEY = 3

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: Any) -> Any:
        """Implements aiokafka's `Request.build`."""
        return request_struct_class([(bytes(16), topic, _NO_TAGS) for topic in self._topics], False, False, _NO_TAGS)
