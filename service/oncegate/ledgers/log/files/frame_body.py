"""The body of a frame: the entries of one append and the changes of its outputs, as one msgpack array.

    [[entry, ...], [change, ...]]        the changes are those of `oncegate.ledgers.catalog`, and Compacted

An entry is opaque here. A written range carries where its rows are: file, offset, length, SHA-256.
"""

from collections.abc import Sequence

import msgspec

from oncegate.ledgers.catalog.changes import Change, Location
from oncegate.ports import Mark


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Says that the entries up to `position` are those at `state` from now on; no segment before `segment` is needed.

    `ledger`, `chain`: of the mark that stood at `position`. `first_position`, `previous_chain`: what the header of
    `segment` says. `predecessors`: ids that the ledger had before. `catalog`: where the pieces of the catalog are; what
    changed while they were written stands behind this in the same frame, though frames before it said it too.
    """

    segment: int
    first_position: int
    previous_chain: bytes
    ledger: bytes
    position: int
    chain: bytes
    state: tuple[Location, ...]
    predecessors: tuple[bytes, ...]
    catalog: tuple[Location, ...]

    @property
    def mark(self) -> Mark:
        """Returns the mark that stood at `position`."""
        return Mark(self.ledger, self.position, self.chain)

    @property
    def files(self) -> set[tuple[int, int]]:
        """Returns the output files that hold the snapshot."""
        return {location.file for location in self.locations}

    @property
    def locations(self) -> tuple[Location, ...]:
        """Returns where the snapshot is, of the entries and of the catalog."""
        return self.state + self.catalog


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
