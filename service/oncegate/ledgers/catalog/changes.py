"""Says what changes a ledger's outputs, as its frames hold it; a location says where a range's bytes are.

Wrote      a range waits under its id
Published  waiting ranges become the next rows of a topic; nothing is copied
Dropped    waiting ranges will never be published
Trimmed    published ranges wholly below an offset are forgotten
Held       published ranges of a topic, so many at once: in a snapshot alone
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from oncegate.ports import DropRanges, OutputChange, PublishRanges, SendRanges, TrimRanges, WriteRange


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


# Of a range that is not written yet.
NOWHERE = Location(0, 0, 0, 0, bytes(32))


class Wrote(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Makes a range wait under its id; `location`: where its bytes are."""

    range_id: bytes
    rows: int
    location: Location


class Published(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Makes waiting ranges the next rows of a topic."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Gives waiting ranges up."""

    range_ids: tuple[bytes, ...]


class Trimmed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Forgets published ranges that lie wholly below `before_offset`."""

    topic: str
    partition: int
    before_offset: int


class Held(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Makes published ranges, as `PublishedRanges` packs them, the next rows of a topic that begins at `low_offset`."""

    topic: str
    partition: int
    low_offset: int
    ranges: bytes


Change = Wrote | Published | Dropped | Trimmed
SnapshotChange = Change | Held
encode_changes = msgspec.msgpack.Encoder().encode
decode_changes = msgspec.msgpack.Decoder(list[SnapshotChange]).decode


def change_of(output: OutputChange, locate: Callable[[WriteRange], Location]) -> Change:
    """Makes the catalog's form of an output change; `locate` tells where a written range's bytes are.

    ValueError: rows are to be sent elsewhere, and a ledger that does so takes these changes apart before.
    """
    match output:
        case WriteRange():
            return Wrote(output.range_id, output.rows, locate(output))
        case PublishRanges():
            return Published(output.topic, output.partition, output.first_offset, output.range_ids)
        case DropRanges():
            return Dropped(output.range_ids)
        case TrimRanges():
            return Trimmed(output.topic, output.partition, output.before_offset)
        case SendRanges():
            raise ValueError(f"this ledger keeps rows itself, and sends none to topic {output.topic} elsewhere")


def located(changes: Iterable[Change], locations: Iterator[Location]) -> list[Change]:
    """Gives each range that is written the next of the locations; other changes stay as they are."""
    return [
        Wrote(change.range_id, change.rows, next(locations)) if isinstance(change, Wrote) else change
        for change in changes
    ]
