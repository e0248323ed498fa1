"""Defines the rows beside a ledger's entries and how they are read back, records of direct writers, and of duplicates.

Changes of outputs go through `Ledger.append`, in one commit with the entries; reading is what `Outputs` offers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from oncegate.arraytypes import U32, U64
from oncegate.ports.row_places import RowPlaces


@dataclass(frozen=True, slots=True)
class WriteRange:
    """Writes a new range: `rows` rows in `data` (an Arrow IPC stream), named by 16 bytes that are never used again.

    Ranges of one `stream` may share a file; nothing can be read of a range before it is published.
    sha256: of `data`, where the caller has held it against that; None: the ledger computes it.
    """

    range_id: bytes
    stream: str
    rows: int
    data: bytes | memoryview
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class PublishRanges:
    """Makes the ranges, in this order, the topic's rows from `first_offset` on. Copies nothing."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DropRanges:
    """Gives up ranges that will never be published; their files are removed once nothing else lies in them."""

    range_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TrimRanges:
    """Forgets published ranges that lie wholly below `before_offset`; reading there raises OffsetTrimmed."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """Says who wrote n rows, and which of theirs each is; all of it together names one row.

    `epoch`: below 2^64. The first row has the number `first`, each further one the next; or as `sequences` has it:
    uint64 (n,). `digests`: uint32 (n,), of the rows' payloads; None: they come without.
    """

    namespace: str
    producer: str
    epoch: int
    first: int = 0
    sequences: U64 | None = None
    digests: U32 | None = None


@dataclass(frozen=True, slots=True)
class SendReport:
    """Asks for the places of the rows of a send.

    `position`: of the entry that writes them; `Replayed.places` returns them for it. `by_row`: the ledger keeps the
    partition of each row, else only the ranges. `told`: called after the append is durable, and for no other outcome.
    """

    position: int
    told: Callable[[RowPlaces], None]
    by_row: bool = True


@dataclass(frozen=True, slots=True)
class SendRanges:
    """Writes the rows of ranges, in this order, into a topic that lies elsewhere (`RowTopics`), and gives them up.

    A range that the same append writes is sent as it is, and kept nowhere else. `origin`: of all the rows, which each
    record is then to say; None: none says it. `waiting_bytes`: of ranges that earlier appends wrote, which count as
    this append's. `report`: who is to know where the rows lie; None: nobody.
    """

    topic: str
    range_ids: tuple[bytes, ...]
    origin: Origin | None = None
    waiting_bytes: int = 0
    report: SendReport | None = None


OutputChange = WriteRange | PublishRanges | DropRanges | TrimRanges | SendRanges


@dataclass(frozen=True, slots=True)
class Chunk:
    """Carries one published range, whole: `data` holds `rows` rows whose first has `first_offset`."""

    first_offset: int
    rows: int
    data: bytes | memoryview


class Outputs(Protocol):
    """Reads published rows back. What a ledger may offer, where it holds rows (`OpenLedger.outputs`)."""

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns published ranges that hold the rows from `offset` on, until `max_rows` are covered or the topic ends.

        It stops after the range that reaches `max_bytes`; where there are rows, at least one range is given.

        Raises:
            OffsetTrimmed: `offset` lies below the lowest kept.
            LedgerDamaged: the bytes are not those that were written.
        """


class RowTopics(Protocol):
    """Knows topics that lie elsewhere, where a ledger sends rows there (`OpenLedger.topics`)."""

    @property
    def where(self) -> str:
        """Says where they lie, as a client of them is told it: brokers, for topics of Kafka.

        Empty: there are none, and `check` refuses all rows.
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
        """Checks Arrow rows for a topic before any effect: whatever would be refused of them when they are sent.

        Returns the id of each topic that they go to, asked for since the call, where they are to be `identified`: 16
        bytes that a topic which is deleted and made again does not keep.

        `origin`: as of `SendRanges`; its numbers count for nothing here. `waiting_bytes`: of all that is to be sent at
        once, where it waits for that; `waiting_topics`: those that the column `topic` of what waits names.

        Raises:
            SchemaMismatch, BadRequest, TooLarge: these rows, or one of them, can be no record there.
            NotFound: there is no such topic.
            LedgerFull: the topic cannot be written now. Nothing was written.
        """

    @property
    def columns(self) -> Any:
        """Returns the Arrow schema of all that a record of such topics has, by which rows without types are read."""

    def refuse_read(self, topic: str) -> NoReturn:
        """Raises ReadElsewhere, which says where the topic is read; NotFound: nowhere."""


class NotTold(Exception):
    """Says in its text why records of duplicates were not written; some of them may be there all the same."""


class DuplicateTopic(Protocol):
    """Takes records of duplicates. Nothing rests on them: they may be lost, or come twice."""

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes records, a key and a value each, in their order. One call at a time; it ends within seconds.

        Raises:
            NotTold: they may be there or not; a later call may pass.
        """


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Says with what a client writes as one lane.

    ledger: the id of the ledger, 16 bytes, which each record names. brokers: where both topics are. topic, partition:
    where the records go. transactional_id: the lane's own; a producer that starts it fences the one before.
    """

    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str


class DirectRecords(Protocol):
    """Reads and trims the records of lanes (`TopicsElsewhere.direct`); never written by the gateway."""

    partitions: int

    def place(self, lane: int, partition: int) -> LanePlace:
        """Returns with what a client writes as this lane, whose records are in this partition."""

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        """Returns the records from an offset on that are committed, with their offsets, up to the end that the
        partition has at the call, what is not committed included: so it waits for transactions that are open there.

        Raises:
            LedgerFull: it cannot be read to that end now; nothing is known.
            LedgerDamaged: records from `first` on are gone, or the partition ends before.
        """

    async def trim(self, before: Mapping[int, int]) -> None:
        """Deletes the records before an offset of each partition. LedgerFull: some may be deleted."""
