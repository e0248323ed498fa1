"""Defines requests that aiokafka lacks: DescribeProducers, DescribeTransactions, WriteTxnMarkers, and newer Metadata.

Metadata has topic ids and this client's rights on topics. Each request uses the oldest version that brokers since 4.0
accept (KIP-664; WriteTxnMarkers v1); Metadata uses the first with topic ids (KIP-516) and without cluster rights.
"""

from collections.abc import Iterable
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from oncegate.ledgers.kafka.partition import Partition

_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_NO_TAGS: dict[int, bytes] = {}
_PARTITIONS = CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)


def _api(key: int, version: int, asked: Schema, answered: Schema) -> Any:
    """Returns a request class; its constructor takes the fields of `asked` except the last, the tags."""

    class Answer(Response):  # type: ignore[misc]
        API_KEY, API_VERSION, SCHEMA = key, version, answered

    class Struct(RequestStruct):  # type: ignore[misc]
        API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE, SCHEMA = key, version, True, Answer, asked

    class Api(Request[Struct]):  # type: ignore[misc]
        API_KEY = key

        def __init__(self, *fields: Any) -> None:
            self._fields = fields

        def build(self, request_struct_class: Any) -> Any:
            return request_struct_class(*self._fields, _NO_TAGS)

    return Api


class _TopicId:
    """Codec of a topic id, 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        return bytes(data.read(16))

    @classmethod
    def repr(cls, value: bytes) -> str:
        return value.hex()


_PRODUCER = (
    ("producer_id", Int64),
    ("producer_epoch", Int32),
    ("last_sequence", Int32),
    ("last_timestamp", Int64),
    ("coordinator_epoch", Int32),
    ("first_offset", Int64),
    _TAGS,
)
_PRODUCERS = (
    ("partition", Int32),
    ("error_code", Int16),
    ("error_message", _TEXT),
    ("producers", CompactArray(*_PRODUCER)),
    _TAGS,
)
_DescribeProducers = _api(
    61,
    0,
    Schema(("topics", _PARTITIONS), _TAGS),
    Schema(
        ("throttle_time_ms", Int32),
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(*_PRODUCERS)), _TAGS)),
        _TAGS,
    ),
)
_STATE = (
    ("error_code", Int16),
    ("transactional_id", _TEXT),
    ("state", _TEXT),
    ("timeout_ms", Int32),
    ("start_ms", Int64),
    ("producer_id", Int64),
    ("producer_epoch", Int16),
    ("topics", _PARTITIONS),
    _TAGS,
)
_DescribeTransactions = _api(
    65,
    0,
    Schema(("transactional_ids", CompactArray(_TEXT)), _TAGS),
    Schema(("throttle_time_ms", Int32), ("states", CompactArray(*_STATE)), _TAGS),
)
_MARKER = (
    ("producer_id", Int64),
    ("producer_epoch", Int16),
    ("committed", Boolean),
    ("topics", _PARTITIONS),
    ("coordinator_epoch", Int32),
    _TAGS,
)
_WRITTEN = (
    ("topic", _TEXT),
    ("partitions", CompactArray(("partition", Int32), ("error_code", Int16), _TAGS)),
    _TAGS,
)
_WriteTxnMarkers = _api(
    27,
    1,
    Schema(("markers", CompactArray(*_MARKER)), _TAGS),
    Schema(("markers", CompactArray(("producer_id", Int64), ("topics", CompactArray(*_WRITTEN)), _TAGS)), _TAGS),
)
_BROKER = (("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS)
_LEADER = (
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
    ("partitions", CompactArray(*_LEADER)),
    ("operations", Int32),
    _TAGS,
)
_Metadata = _api(
    3,
    12,
    Schema(
        ("topics", CompactArray(("topic_id", _TopicId), ("topic", _TEXT), _TAGS)),
        ("make_topics", Boolean),
        ("operations", Boolean),
        _TAGS,
    ),
    Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        _TAGS,
    ),
)


def describe_producers(partitions: Iterable[Partition]) -> Any:
    """Returns a request, for the leader, that lists the producers of these partitions and their open transactions."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return _DescribeProducers([(topic, some, _NO_TAGS) for topic, some in numbers.items()])


def describe_transaction(transactional_id: str) -> Any:
    """Returns a request, for the coordinator, that describes the state of a transactional id."""
    return _DescribeTransactions([transactional_id])


def write_marker(partition: Partition, producer: tuple[int, int], committed: bool, coordinator_epoch: int) -> Any:
    """Returns a request, for the partition's leader, that ends a producer's open transaction in the partition.

    `producer`: its id, and the epoch of the marker.
    """
    topic, number = partition
    return _WriteTxnMarkers([(*producer, committed, [(topic, [number], _NO_TAGS)], coordinator_epoch, _NO_TAGS)])


def describe_topics(topics: Iterable[str], operations: bool = False) -> Any:
    """Returns a request, for any broker, that fetches the metadata of topics; creates no topic.

    `operations`: includes this client's rights on them.
    """
    return _Metadata([(bytes(16), topic, _NO_TAGS) for topic in topics], False, operations)
