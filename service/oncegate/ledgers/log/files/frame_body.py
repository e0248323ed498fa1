"""The body of a frame: the entries of one append and the changes of its outputs, as one msgpack array.

    [[entry, ...], [change, ...]]        the changes are those of `oncegate.ledgers.catalog`, and Compacted

An entry is opaque here. A written range carries where its rows are: file, offset, length, SHA-256.
"""

import math
from collections.abc import Sequence

import msgspec

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.catalog import CatalogSnapshot, Dropped, Published, Trimmed, Wrote
from oncegate.ports import Mark


class Location(msgspec.Struct, frozen=True, array_like=True):
    """Says where a range's bytes lie; the file is named by the epoch that made it and a counter."""

    epoch: int
    counter: int
    offset: int
    length: int
    sha256: bytes

    @property
    def file(self) -> tuple[int, int]:
        """Returns the file's name: the epoch that made it, and a counter."""
        return (self.epoch, self.counter)

    @property
    def end(self) -> int:
        """Returns the first byte behind the range."""
        return self.offset + self.length


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Says that the entries up to `position` are those at `state` from now on; no segment before `segment` is needed.

    `ledger`, `chain`: of the mark that stood at `position`. `first_position`, `previous_chain`: what the header of
    `segment` says. `predecessors`: ids that the ledger had before. `outputs`: what lies beside the entries now.
    """

    segment: int
    first_position: int
    previous_chain: bytes
    ledger: bytes
    position: int
    chain: bytes
    state: tuple[Location, ...]
    predecessors: tuple[bytes, ...]
    outputs: CatalogSnapshot[Location]

    @property
    def mark(self) -> Mark:
        """Returns the mark that stood at `position`."""
        return Mark(self.ledger, self.position, self.chain)

    @property
    def files(self) -> set[tuple[int, int]]:
        """Returns the output files that hold the snapshot."""
        return {location.file for location in self.state}


Change = Wrote[Location] | Published | Dropped | Trimmed
AnyChange = Change | Compacted


class Body(msgspec.Struct, frozen=True, array_like=True):
    """Carries what one append writes: its entries, and the changes of its outputs."""

    entries: Sequence[bytes]
    changes: Sequence[AnyChange]


_decoder = msgspec.msgpack.Decoder(Body)
encode_body = msgspec.msgpack.Encoder().encode


def decode_body(data: bytes | memoryview) -> Body:
    """Reads a body; ValueError when the bytes are no body of this format."""
    return _decoder.decode(data)


class RangeLimit:
    """Refuses a compaction with as many output ranges as did not fit one frame, before its snapshot is written."""

    def __init__(self) -> None:
        self._too_many = math.inf

    def reached(self, ranges: int) -> None:
        """Takes note that so many did not fit. Always raises LedgerFull."""
        self._too_many = ranges
        self.require(ranges)

    def require(self, ranges: int) -> None:
        """Raises LedgerFull where so many did not fit before."""
        if ranges >= self._too_many:
            raise LedgerFull(
                f"{ranges} output ranges are more than one frame holds, so the ledger is not compacted and grows: "
                "give topics a retention, or write larger batches"
            )
