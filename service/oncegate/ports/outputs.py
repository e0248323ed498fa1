"""Defines the rows that lie beside a ledger's entries, and how they are read back.

Changes of outputs go through `Ledger.append`, in one commit with the entries; reading is what `Outputs` offers.
"""

from dataclasses import dataclass
from typing import Protocol


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


OutputChange = WriteRange | PublishRanges | DropRanges | TrimRanges


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
