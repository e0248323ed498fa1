"""Messages of topics: make, describe, produce, fetch."""

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
    """A range of a request's rows in one partition; `topic`: if it is not the request's."""

    partition: int
    first_offset: Int64
    rows: Int64
    topic: str | UnsetType = UNSET


def partition_offsets(ranges: Iterable[RowRange], topic: str) -> list[PartitionOffset]:
    """Makes messages of ranges of rows; `topic`: the request's."""
    return [
        PartitionOffset(one.partition, one.first_offset, one.rows, UNSET if one.topic == topic else one.topic)
        for one in ranges
    ]


class ProduceRequest(Read):
    """Writes rows: each takes effect once by its id or its sequence, or is written as it comes."""

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
    """Names by `id_col` the columns of a row's id, comma separated, none: `plain`. `key_col` chooses the partition."""

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
    """Says which rows of a partition are wanted; fewer may come than `max_rows`."""

    offset: Annotated[Offset, Meta(description="of the first row wanted")] = 0
    max_rows: Annotated[int, Meta(ge=1, le=2**31 - 1, description="fewer may come")] = 100_000
    columns: ReadColumns = None


class ProduceReply(Struct, frozen=True):
    """Answers a produce: what was written where, and with ids a verdict per row and their set."""

    rows: Int64
    offsets: list[PartitionOffset]
    verdicts: list[VerdictMessage] | UnsetType = UNSET
    id_set: str | UnsetType = UNSET
    offsets_before: list[PartitionOffset] | UnsetType = UNSET


class TopicRequest(Read):
    """What is left out stays as it is, or is as by default: one partition, kept for ever, the first write's schema."""

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
    schema_ipc: Annotated[bytes | None, Meta(description="an Arrow schema message, base64; null: nothing written yet")]
    low_offsets: list[Int64]
    high_offsets: list[Int64]
    retention_ms: Int64
    retention_bytes: Int64


class TopicsReply(Struct, frozen=True):
    """Lists one page of the topics that something was written to, or that were made, by their names."""

    topics: list[str]
    next: str | None


class RecordsReply(Struct, frozen=True):
    """Answers a fetch in JSON: rows of one partition from an offset on."""

    records: list[dict[str, Any]]
    first_offset: Int64
    next_offset: Int64
    high_offset: Int64
