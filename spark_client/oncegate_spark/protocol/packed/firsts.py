"""What a located answer says of the first of each duplicate: where it was written, what its claim was completed with.

Behind a packed answer, little-endian, each duplicate's in order:

    n u32 | n topics: u32 length, UTF-8 | of each: topic u32, partition u32, offset u64
    n u32 | n results: u32 length, bytes | of each: result u32
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_U32, _PLACE = struct.Struct("<I"), struct.Struct("<IIQ")
_UNKNOWN = 0xFFFF_FFFF


@dataclass(frozen=True)
class Place:
    """Where a row lies that the gateway wrote."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class FirstPlaces:
    """What is known of the first of each id, in the order of the request: None for what is not, and no duplicate."""

    places: tuple[Place | None, ...]
    results: tuple[bytes | None, ...]

    @classmethod
    def read(cls, body: bytes, is_duplicate: Sequence[bool]) -> "FirstPlaces":
        """Raises ValueError when these are not the firsts of so many duplicates."""
        count, count_all = sum(is_duplicate), len(is_duplicate)
        first_rows: list[Place | None] = [None] * count_all
        results: list[bytes | None] = [None] * count_all
        at = [index for index, duplicate in enumerate(is_duplicate) if duplicate]
        try:
            names, end = _listed(body, 0)
            topics = [name.decode() for name in names]
            for n, index in enumerate(at):
                topic, partition, offset = _PLACE.unpack_from(body, end + n * _PLACE.size)
                first_rows[index] = None if topic == _UNKNOWN else Place(topics[topic], partition, offset)
            brought, end = _listed(body, end + count * _PLACE.size)
            for n, index in enumerate(at):
                (number,) = _U32.unpack_from(body, end + n * _U32.size)
                results[index] = None if number == _UNKNOWN else brought[number]
        except (struct.error, IndexError) as error:
            raise ValueError(f"firsts of {count} ids in {len(body)} bytes: {error}") from error
        if end + count * _U32.size != len(body):
            raise ValueError(f"firsts of {count} ids in {len(body)} bytes")
        return cls(tuple(first_rows), tuple(results))


def _listed(body: bytes, at: int) -> tuple[list[bytes], int]:
    (count,) = _U32.unpack_from(body, at)
    items, at = [], at + _U32.size
    for _ in range(count):
        (size,) = _U32.unpack_from(body, at)
        at += _U32.size
        items.append(body[at : at + size])
        at += size
    return items, at
