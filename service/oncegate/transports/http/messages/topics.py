"""Messages of topics: create, describe, produce, fetch."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from oncegate.ports import RowRange
from oncegate.transports.http.messages.fields import (
    U32,
    Columns,
    DigestColumns,
    IdColumns,
    IdSet,
    Int64,
    KeyColumns,
    Named,
    Offset,
    Read,
    ReadColumns,
    Sequence,
    Token,
)
from oncegate.transports.http.messages.verdicts import VerdictMessage


class PartitionOffset(Struct, frozen=True):
    """A range of a request's rows in one partition. topic: only if it differs from the request's."""

    partition: int
    first_offset: Int64
    rows: Int64
    topic: str | UnsetType = UNSET


def partition_offsets(ranges: Iterable[RowRange], topic: str) -> list[PartitionOffset]:
    """Converts ranges of rows to messages; `topic`: the request's."""
    return [
        PartitionOffset(one.partition, one.first_offset, one.rows, UNSET if one.topic == topic else one.topic)
        for one in ranges
    ]


class ProduceRequest(Read):
    """Writes rows: once per id or sequence, or without deduplication."""

    token: Token
    call: U32
    records: list[dict[str, Any]]
    id_col: Columns | None = None
    key_col: Columns | None = None
    driver: Named | None = None
    batch: Offset | None = None
    producer: Named | None = None
    epoch: Offset | None = None
    sequence_col: Named | None = None
    prev_sequence: Sequence | None = None
    digest_col: Columns | None = None
    id_set: IdSet | None = None
    spilled_ms: Offset | None = None


class ProduceQuery(Read):
    """The columns and the producer of rows in an Arrow body. Without ids and a producer, rows are `plain`."""

    id_col: IdColumns = None
    key_col: KeyColumns = None
    producer: Named | None = None
    epoch: Offset | None = None
    sequence_col: Named | None = None
    prev_sequence: Sequence | None = None
    digest_col: DigestColumns = None
    id_set: IdSet | None = None
    spilled_ms: Offset | None = None


class FetchQuery(Read):
    """Selects rows of a partition; the response may have fewer than `max_rows`."""

    offset: Annotated[Offset, Meta(description="of the first row to return")] = 0
    max_rows: Annotated[int, Meta(ge=1, le=2**31 - 1, description="the response may have fewer rows")] = 100_000
    columns: ReadColumns = None


class ProduceReply(Struct, frozen=True):
    """Returns the offsets of the written rows; for rows with ids, also one verdict per row and the dedup scope."""

    rows: Int64
    offsets: list[PartitionOffset]
    verdicts: list[VerdictMessage] | UnsetType = UNSET
    id_set: str | UnsetType = UNSET
    offsets_before: list[PartitionOffset] | UnsetType = UNSET


class TopicRequest(Read):
    """Creates or changes a topic. Omitted settings stay unchanged.

    Defaults of a new topic: one partition, rows kept forever, the schema of the first write.
    """

    partitions: Annotated[int, Meta(ge=1)] | None = None
    retention_ms: Offset | None = None
    retention_bytes: Offset | None = None
    schema_ipc: (
        Annotated[
            bytes,
            Meta(
                description="an Arrow schema message, base64",
                extra_json_schema={"pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
            ),
        ]
        | None
    ) = None
    merge_schema: bool = False


class TopicReply(Struct, frozen=True):
    """Describes a topic: its schema, its partitions' offsets, its retention."""

    topic: str
    partitions: int
    schema: str
    schema_ipc: Annotated[bytes | None, Meta(description="an Arrow schema message, base64; null: no schema yet")]
    low_offsets: list[Int64]
    high_offsets: list[Int64]
    retention_ms: Int64
    retention_bytes: Int64


class TopicsReply(Struct, frozen=True):
    """Lists one page of the topics, sorted by name: created ones, and those with rows."""

    topics: list[str]
    next: str | None


class RecordsReply(Struct, frozen=True):
    """Returns rows of one partition from an offset on, as JSON."""

    records: list[dict[str, Any]]
    first_offset: Int64
    next_offset: Int64
    high_offset: Int64
