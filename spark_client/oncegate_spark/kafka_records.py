"""Checks records of a Kafka topic by the headers that the gateway gave them: none doubled, none missing, none fenced.

The headers are `oncegate-ns`, `oncegate-producer` (UTF-8), `oncegate-epoch`, `oncegate-seq` (8 bytes each, big-endian)
and, where rows came with one, `oncegate-digest`. Pure: whoever reads the topic hands over what was read, whatever the
Kafka client.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

_NUMBER_BYTES = 8
Headers = Iterable[tuple[str, bytes | None]]


class RecordKind(Enum):
    """Says what a record is, by its headers and by those of the records before it."""

    FIRST = "its sequence was not seen before"
    DUPLICATE = "its sequence was seen before"
    ALTERED = "its sequence was seen before, with another digest"
    OLDER_EPOCH = "a newer epoch of its producer wrote to this partition before: the writer was fenced"
    UNMARKED = "it has not the headers of the gateway"


class MissingSequences(NamedTuple):
    """Names sequences of a producer that were not seen between some that were: from `first` to `last`, both missing."""

    namespace: str
    producer: str
    first: int
    last: int


@dataclass
class _Producer:
    """Intervals of what was seen: from each of `starts` to the same place of `ends`, both seen, with gaps between."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    epochs: dict[Hashable, int] = field(default_factory=dict)

    def add(self, sequence: int) -> bool:
        """Takes a sequence; whether it is new."""
        starts, ends = self.starts, self.ends
        after = bisect_right(starts, sequence)
        if after and sequence <= ends[after - 1]:
            return False
        joins_before = after > 0 and ends[after - 1] == sequence - 1
        joins_behind = after < len(starts) and starts[after] == sequence + 1
        if joins_before and joins_behind:
            ends[after - 1] = ends.pop(after)
            del starts[after]
        elif joins_before:
            ends[after - 1] = sequence
        elif joins_behind:
            starts[after] = sequence
        else:
            starts.insert(after, sequence)
            ends.insert(after, sequence)
        return True


class RecordCheck:
    """Checks records in the order in which a reader gets them; partitions may be read in turns.

    Read with `isolation.level=read_committed`: what was aborted is no record. Memory grows with gaps, not with records.
    `digests`: of how many sequences, the latest seen, the digest is kept, by which ALTERED is told from DUPLICATE.
    """

    def __init__(self, digests: int = 100_000) -> None:
        self._producers: dict[tuple[str, str], _Producer] = {}
        self._digests: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._digests_max = digests

    def take(self, headers: Headers, partition: Hashable = 0) -> RecordKind:
        """Takes one record's headers, in their order, and says what the record is.

        `partition`: what names its topic and partition; epochs are compared within one, where order is that of writing.
        An OLDER_EPOCH record is not counted as seen.
        """
        marks = _marks(headers)
        if marks is None:
            return RecordKind.UNMARKED
        namespace, name, epoch, sequence, digest = marks
        producer = self._producers.setdefault((namespace, name), _Producer())
        if epoch < producer.epochs.get(partition, 0):
            return RecordKind.OLDER_EPOCH
        producer.epochs[partition] = epoch
        known = self._digests.get((namespace, name, sequence))
        if producer.add(sequence):
            self._remember((namespace, name, sequence), digest)
            return RecordKind.FIRST
        return RecordKind.ALTERED if known is not None and known != digest else RecordKind.DUPLICATE

    def take_column(self, headers: Any, partitions: Any = None) -> list[RecordKind]:
        """Takes a column of headers as Spark's Kafka source has it with `includeHeaders`, and says what each record is.

        `headers`: an Arrow array, list<struct<key: string, value: binary>>; a null is a record without headers.
        `partitions`: an Arrow array as long, or None where all are of one partition.
        """
        rows = [[(item["key"], item["value"]) for item in row or ()] for row in headers.to_pylist()]
        named = [0] * len(rows) if partitions is None else partitions.to_pylist()
        return [self.take(row, partition) for row, partition in zip(rows, named, strict=True)]

    def missing(self) -> list[MissingSequences]:
        """Returns what was not seen between the lowest and the highest sequence of each producer, in order.

        Ask once all partitions of the topic are read up to one moment: rows of a producer may lie in several. Sequences
        that the source itself leaves out, as offsets of markers in Kafka, are named too.
        """
        return [
            MissingSequences(*name, before + 1, after - 1)
            for name, producer in sorted(self._producers.items())
            for before, after in zip(producer.ends, producer.starts[1:], strict=False)
        ]

    def _remember(self, place: tuple[str, str, int], digest: bytes | None) -> None:
        if digest is None or not self._digests_max:
            return
        self._digests[place] = digest
        if len(self._digests) > self._digests_max:
            self._digests.popitem(last=False)


def _marks(headers: Headers) -> tuple[str, str, int, int, bytes | None] | None:
    """Namespace, producer, epoch, sequence, digest; None where they are not all there once, in their form.

    The gateway's stand behind the row's own, so that of two with one name the last is the gateway's.
    """
    found = dict(headers)
    named = [found.get(f"oncegate-{name}") for name in ("ns", "producer", "epoch", "seq")]
    namespace, producer, epoch, sequence = named
    if namespace is None or producer is None or epoch is None or sequence is None:
        return None
    if len(epoch) != _NUMBER_BYTES or len(sequence) != _NUMBER_BYTES:
        return None
    try:
        who = namespace.decode(), producer.decode()
    except UnicodeDecodeError:
        return None
    return *who, int.from_bytes(epoch, "big"), int.from_bytes(sequence, "big"), found.get("oncegate-digest")
