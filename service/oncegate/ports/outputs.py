"""Defines the rows that a ledger stores beside its entries, how they are read, and records of lanes and of duplicates.

Changes of outputs are part of `Ledger.append`, in one commit with the entries. `Outputs` reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from oncegate.arraytypes import U32, U64
from oncegate.ports.row_places import RowPlaces


@dataclass(frozen=True, slots=True)
class WriteRange:
    """Writes a new range: `rows` rows in `data` (an Arrow IPC stream), named by 16 bytes that are never reused.

    Ranges of one `stream` may share a file. A range cannot be read before it is published. sha256: of `data`, if the
    caller has verified it; None: the ledger computes it.
    """

    range_id: bytes
    stream: str
    rows: int
    data: bytes | memoryview
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class PublishRanges:
    """Publishes the ranges, in this order, as the topic's rows from `first_offset`. Copies nothing."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DropRanges:
    """Discards ranges that will never be published. Their files are removed once nothing else is in them."""

    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TrimRanges:
    """Forgets published ranges that end at or below `before_offset`; reading below that offset raises OffsetTrimmed."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """The writer of n rows, and its number for each; together they identify a row.

    epoch: below 2^64.
    first: number of the first row; the following ones are consecutive, unless `sequences` is given: uint64 (n,).
    digests: of the rows' payloads, uint32 (n,); None: none was sent.
    """

    namespace: str
    producer: str
    epoch: int
    first: int = 0
    sequences: U64 | None = None
    digests: U32 | None = None


@dataclass(frozen=True, slots=True)
class SendReport:
    """Requests the locations of sent rows.

    position: of the entry that writes them; a replay returns them as `Replayed.places`.
    by_row: the ledger records the partition of each row, else only the ranges.
    told: called once the append is durable, and for no other outcome.
    """

    position: int
    told: Callable[[RowPlaces], None]
    by_row: bool = True


@dataclass(frozen=True, slots=True)
class SendRanges:
    """Writes the rows of ranges, in this order, to an external topic (`RowTopics`), and discards the ranges.

    A range that the same append writes is sent directly and stored nowhere else.

    origin: the origin of all rows, to be included in each record; None: not included.
    waiting_bytes: bytes of ranges that earlier appends wrote; they count as part of this append.
    report: requests the rows' locations; None: not needed.
    """

    topic: str
    range_ids: tuple[bytes, ...]
    origin: Origin | None = None
    waiting_bytes: int = 0
    report: SendReport | None = None


OutputChange = WriteRange | PublishRanges | DropRanges | TrimRanges | SendRanges


@dataclass(frozen=True, slots=True)
class Chunk:
    """One complete published range: `data` holds `rows` rows, the first at `first_offset`."""

    first_offset: int
    rows: int
    data: bytes | memoryview


class Outputs(Protocol):
    """Reads published rows back; `OpenLedger.outputs` of a ledger that holds rows."""

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns the published ranges that contain the rows from `offset`, until `max_rows` rows are covered or the
        topic ends.

        Stops after the range that reaches `max_bytes`; returns at least one range if there are rows.

        Raises:
            OffsetTrimmed: `offset` is below the lowest one kept.
            LedgerDamaged: the bytes differ from those written.
        """


class RowTopics(Protocol):
    """The external topics to which a ledger sends rows (`OpenLedger.topics`)."""

    @property
    def where(self) -> str:
        """Returns the address for a client of the topics: brokers, for topics of Kafka.

        Empty: there are none, and `check` rejects all rows.
        """

    async def check(
        self,
        topic: str,
        schema: Any,
        batches: Sequence[Any],
        origin: Origin | None = None,
        waiting_bytes: int = 0,
        identified: bool = False,
        waiting_topics: Sequence[str] = (),
    ) -> Mapping[str, bytes]:
        """Checks Arrow rows for a topic before any effect, for everything that would make sending them fail.

        Returns the id of each topic that they go to, fetched after the call began, if they are to be `identified`: 16
        bytes that a deleted and recreated topic does not keep.

        origin: as in `SendRanges`; its numbers are ignored.
        waiting_bytes: of everything that is to be sent at once, if the rows wait for that.
        waiting_topics: topics named by the column `topic` of the waiting rows.

        Raises:
            SchemaMismatch, BadRequest, TooLarge: these rows, or one of them, cannot become a record there.
            NotFound: the topic does not exist.
            LedgerFull: the topic cannot be written now. Nothing was written.
        """

    @property
    def columns(self) -> Any:
        """Returns the Arrow schema of all columns that a record of an external topic can have; untyped rows are parsed
        by it.
        """

    def refuse_read(self, topic: str) -> NoReturn:
        """Raises ReadElsewhere, which names where to read the topic, or NotFound if the topic does not exist."""


class NotTold(Exception):
    """Raised when records of duplicates could not all be written; some of them may have been. The text is the
    reason."""


class DuplicateTopic(Protocol):
    """Writes records of duplicates. Nothing depends on them: they may be lost or repeated."""

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes records, a key and a value each, in their order. One call at a time; ends within seconds.

        Raises:
            NotTold: unknown whether they were written; a later call may succeed.
        """


@dataclass(frozen=True, slots=True)
class LanePlace:
    """The parameters that a client needs to write rows as a lane directly into Kafka.

    ledger: id of the ledger, 16 bytes; each record names it.
    brokers: where both topics are.
    topic, partition: where the records go.
    transactional_id: the lane's own; a producer that starts with it fences the previous one.
    """

    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str


class DirectRecords(Protocol):
    """Reads and trims the records of lanes (`TopicsElsewhere.direct`), which the gateway never writes."""

    partitions: int

    def place(self, lane: int, partition: int) -> LanePlace:
        """Returns the parameters for writing as this lane, whose records are in this partition."""

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        """Returns the committed records at or after an offset, with their offsets, up to the partition's end at the
        time of the call.

        Uncommitted records count for that end, so the call waits for open transactions there.

        Raises:
            LedgerFull: the partition cannot be read to that end now; nothing is known.
            LedgerDamaged: records from `first` on are gone, or the partition ends before `first`.
        """

    async def trim(self, before: Mapping[int, int]) -> None:
        """Deletes the records below an offset of each partition. Raises LedgerFull; some may then be deleted."""
