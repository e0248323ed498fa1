"""The body of a frame: the entries of one append and the changes of its outputs, as one msgpack array.

    [[entry, ...], [change, ...]]        the changes are those of `oncegate.ledgers.catalog`

An entry is opaque here. A written range carries where its rows are: file, offset, length, SHA-256.
"""

from collections.abc import Sequence

import msgspec

from oncegate.ledgers.catalog import Dropped, Published, Trimmed, Wrote


class Location(msgspec.Struct, frozen=True, array_like=True):
    """Where a range's bytes lie; the file is named by the epoch that made it and a counter."""

    epoch: int
    counter: int
    offset: int
    length: int
    sha256: bytes

    @property
    def file(self) -> tuple[int, int]:
        return (self.epoch, self.counter)

    @property
    def end(self) -> int:
        return self.offset + self.length


Change = Wrote[Location] | Published | Dropped | Trimmed


class Body(msgspec.Struct, frozen=True, array_like=True):
    entries: Sequence[bytes]
    changes: Sequence[Change]


_decoder = msgspec.msgpack.Decoder(Body)
encode_body = msgspec.msgpack.Encoder().encode


def decode_body(data: bytes | memoryview) -> Body:
    """ValueError when the bytes are no body of this format."""
    return _decoder.decode(data)
