"""Turns the index of topics into pieces, and back: what a compacted ledger holds in place of old entries.

ranges/<n>  some spans of one partition that retention keeps: topic, partition, records as `index.topics.KEPT`
topics/<n>  some topics, without their spans; behind those
topics      how many pieces there were, last of all
"""

from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import msgspec

from oncegate.index.topics import KEPT, Partition, Topic, TopicIndex
from oncegate.packed import PackedList

KINDS = ("ranges", "topics")
# Encoded in one step: blocks are bytes already, half a MiB of them; a topic may have a schema of some KiB.
_BLOCKS_PER_PIECE, _PARTITIONS_PER_PIECE, _TOPICS_PER_PIECE = 42, 1_000, 100

Piece = tuple[str, bytes]
_Blocks = tuple[str, int, list[bytes]]
_Ranges = tuple[str, int, bytes]
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """Describes a topic as a snapshot holds it; of each partition low and high offset and bytes."""

    name: str
    schema: bytes
    retention_ms: int
    retention_bytes: int
    position: int
    turns: int
    partitions: list[tuple[int, int, int]]


def snapshot_steps(index: TopicIndex) -> Generator[list[Piece], None, None]:
    """Makes pieces of everything that is known at the call, a step at a time; anything may change between.

    To be gone through, or closed.
    """
    return _steps(index.copied(_copied))


def _copied(name: str, topic: Topic) -> tuple[TopicSnapshot, list[_Blocks]]:
    blocks = [(name, at, partition.kept.frozen()) for at, partition in enumerate(topic.partitions) if partition.kept]
    return _snapshot(name, topic), blocks


def _steps(copies: Generator[tuple[TopicSnapshot, list[_Blocks]], None, None]) -> Generator[list[Piece], None, None]:
    pieces = 0
    with closing(copies):
        while some := list(islice(copies, _TOPICS_PER_PIECE)):
            for ranges in _ranges([blocks for _, of_topic in some for blocks in of_topic]):
                yield [(f"ranges/{pieces}", _encode(ranges))]
                pieces += 1
            yield [(f"topics/{pieces}", _encode([topic for topic, _ in some]))]
            pieces += 1
    yield [("topics", _encode(pieces))]


def _ranges(blocks: list[_Blocks]) -> Iterator[list[_Ranges]]:
    """Cuts blocks into what one piece holds."""
    some: list[_Ranges] = []
    size_blocks = 0
    for topic, partition, all_blocks in blocks:
        for at in range(0, len(all_blocks), _BLOCKS_PER_PIECE):
            taken = all_blocks[at : at + _BLOCKS_PER_PIECE]
            some.append((topic, partition, b"".join(taken)))
            size_blocks += len(taken)
            if len(some) == _PARTITIONS_PER_PIECE or size_blocks >= _BLOCKS_PER_PIECE:
                yield some
                some, size_blocks = [], 0
    if some:
        yield some


class TopicsReader:
    """Restores an empty index from its pieces, in their order. ValueError: they do not belong together."""

    def __init__(self, index: TopicIndex) -> None:
        self._index = index
        self._topics: dict[str, Topic] = {}
        self._kept: defaultdict[tuple[str, int], PackedList] = defaultdict(lambda: PackedList(KEPT))
        self._taken = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        """Takes the next piece in."""
        kind, _, number = what.partition("/")
        if not number:
            self._end(msgspec.msgpack.decode(data, type=int))
            return
        self._taken += 1
        if kind == "ranges":
            for topic, partition, records in msgspec.msgpack.decode(data, type=list[_Ranges]):
                self._kept[topic, partition].extend(records)
        else:
            for one in msgspec.msgpack.decode(data, type=list[TopicSnapshot]):
                self._topics[one.name] = self._restored(one)

    def finish(self) -> None:
        """Ends the restore: that was all."""
        if not self._whole:
            raise ValueError("the saved index has no topics")

    def _restored(self, one: TopicSnapshot) -> Topic:
        kept = (self._kept.pop((one.name, number), PackedList(KEPT)) for number in range(len(one.partitions)))
        partitions = [Partition(*numbers, ranges) for numbers, ranges in zip(one.partitions, kept, strict=True)]
        return Topic(one.schema, one.retention_ms, one.retention_bytes, partitions, one.position, one.turns)

    def _end(self, pieces: int) -> None:
        if pieces != self._taken or self._kept:
            raise ValueError(f"{self._taken} pieces of topics, and {pieces} were saved")
        self._index.restore(self._topics)
        self._topics, self._whole = {}, True


def _snapshot(name: str, topic: Topic) -> TopicSnapshot:
    partitions = [(one.low_offset, one.high_offset, one.size_bytes) for one in topic.partitions]
    numbers = topic.retention_ms, topic.retention_bytes, topic.position, topic.turns
    return TopicSnapshot(name, topic.schema, *numbers, partitions)
