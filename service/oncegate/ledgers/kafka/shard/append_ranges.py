"""Splits the output changes of one append into blobs, rows to send, and changes of the catalog.

A range that waits for its commit becomes a blob in topic `.stages`; a range published in the same append becomes one in
`.outputs`. The topics are separate because staged rows are deleted soon, and archives are kept long. A range sent in
the same append becomes no blob.
"""

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from itertools import accumulate, groupby
from typing import Protocol

from oncegate.clock import wall_ms
from oncegate.ledgers.catalog import NOWHERE, Catalog, CatalogChange, Dropped, Location, Wrote, change_of, located
from oncegate.ledgers.frames import RANGE, Sent
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.rows.stream import Piece, RowStream, Target
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES, Blobs, Bytes, location
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ports import OutputChange, PublishRanges, RowPlaces, SendRanges, WriteRange


class _Reading(Protocol):
    def blobs(self, locations: Sequence[Location]) -> AsyncGenerator[Bytes, None]: ...


class AppendRanges:
    """The output changes of one append. `catalog`: its state before the append."""

    def __init__(self, outputs: Sequence[OutputChange], place: KafkaPlace, catalog: Catalog) -> None:
        sent = {one for output in outputs if isinstance(output, SendRanges) for one in output.range_ids}
        published = {one for output in outputs if isinstance(output, PublishRanges) for one in output.range_ids}
        written = [output for output in outputs if isinstance(output, WriteRange)]
        self._direct = {one.range_id: one for one in written if one.range_id in sent}
        self._kept = [one for one in written if one.range_id not in sent]
        self._topic_of = [OUTPUTS if one.range_id in published else STAGES for one in self._kept]
        self._blobs = [
            Blobs(partition, [one.data for one, of in zip(self._kept, self._topic_of, strict=True) if of == number])
            for number, partition in enumerate((place.outputs, place.stages))
        ]
        staged = {one.range_id for one, of in zip(self._kept, self._topic_of, strict=True) if of == STAGES}
        self._first_staged = next((at for at, output in enumerate(outputs) if self._is_staged(output, staged)), None)
        self._send_places = [at for at, output in enumerate(outputs) if isinstance(output, SendRanges)]
        self.sends = [output for output in outputs if isinstance(output, SendRanges)]
        self._streams: list[RowStream] = []
        self._places: list[RowPlaces] = []
        # Changes of the catalog; the locations of ranges are still NOWHERE.
        self.plan = [change for output in outputs for change in self._planned(output)]
        catalog.check(self.plan)
        stored = [range_id for send in self.sends for range_id in self._stored(send)]
        self._waiting = dict(zip(stored, catalog.waiting(stored), strict=True))

    def _is_staged(self, output: OutputChange, staged: Collection[bytes]) -> bool:
        match output:
            case WriteRange():
                return output.range_id in staged
            case SendRanges():
                return bool(self._stored(output))
        return False

    def _stored(self, send: SendRanges) -> tuple[bytes, ...]:
        return tuple(range_id for range_id in send.range_ids if range_id not in self._direct)

    def _planned(self, output: OutputChange) -> Iterator[CatalogChange]:
        match output:
            case WriteRange() if output.range_id in self._direct:
                return
            case SendRanges():
                if stored := self._stored(output):
                    yield Dropped(stored)
            case _:
                yield change_of(output, lambda _: NOWHERE)

    async def batches(self, stages: _Reading, topics: UserTopics, turn: int) -> AsyncGenerator[Batch, None]:
        """Yields the batches of all blobs, then the batches of all rows.
        Close it with `aclose`: until then it locks `stages`.

        `stages`: reads staged rows. `turn`: as in `Target`.

        Raises the errors of reading stages, and of `RowTopics.check` for rows that no longer fit their topic.
        """
        for blobs in self._blobs:
            for batch in blobs.batches:
                yield batch
        for number, send in enumerate(self.sends):
            target = Target(send.topic, topics.counts, wall_ms(), turn + number, topics.compression, send.origin)
            async with aclosing(self._pieces(send, stages)) as pieces:
                by_row = send.report is not None and send.report.by_row
                stream = RowStream(pieces, target, topics.ask, by_row=by_row)
                self._streams.append(stream)
                async with aclosing(stream.batches()) as found:
                    async for batch in found:
                        yield batch

    async def _pieces(self, send: SendRanges, stages: _Reading) -> AsyncGenerator[Piece, None]:
        """Yields the pieces of a send in order; staged pieces are read on demand."""
        async with aclosing(stages.blobs([self._waiting[one] for one in self._stored(send)])) as stored:
            for range_id in send.range_ids:
                direct = self._direct.get(range_id)
                yield await anext(stored) if direct is None else direct.data

    @property
    def first_staged(self) -> int | None:
        """Returns the index of the first output that is written to or read from the stages topic, or None."""
        return self._first_staged

    def first_sent_to(self, partitions: Collection[Partition]) -> int | None:
        """Returns the index of the first output that is sent to one of these partitions, or None."""
        for at, stream in zip(self._send_places, self._streams, strict=False):
            if any(partition in partitions for partition in stream.partitions):
                return at
        return None

    @property
    def last_sent(self) -> int | None:
        """Returns the index of the last output whose rows were read, or None if none were."""
        return self._send_places[len(self._streams) - 1] if self._streams else None

    def changes(self, first_offsets: Sequence[int]) -> list[CatalogChange]:
        """Returns the changes of the catalog. `first_offsets`: the first offset of each batch from `batches`."""
        ends = [0, *accumulate(len(blobs.batches) for blobs in self._blobs)]
        of_topics = [
            iter(blobs.offsets(first_offsets[first:end]))
            for blobs, first, end in zip(self._blobs, ends[:-1], ends[1:], strict=True)
        ]
        places = (
            location(next(of_topics[number]), one.data, one.sha256, number)
            for one, number in zip(self._kept, self._topic_of, strict=True)
        )
        return located(self.plan, places)

    def staged(self, changes: Sequence[CatalogChange]) -> Iterator[tuple[Location, Bytes]]:
        """Yields the location and bytes of each newly staged range. `changes`: the result of `changes()`."""
        written = (change.location for change in changes if isinstance(change, Wrote))
        for at, one, topic in zip(written, self._kept, self._topic_of, strict=True):
            if topic == STAGES:
                yield at, one.data

    def sent(self, first_offsets: Sequence[int]) -> list[Sent]:
        """Returns the partitions and offsets of sent rows. `first_offsets`: as in `changes`."""
        at = sum(len(blobs.batches) for blobs in self._blobs)
        found: list[Sent] = []
        for send, stream in zip(self.sends, self._streams, strict=True):
            end = at + len(stream.partitions)
            places = stream.written(first_offsets[at:end])
            self._places.append(places)
            found += _sent(places, 0 if send.report is None else send.report.position)
            at = end
        return found

    def report(self) -> None:
        """Reports the offsets of rows to the senders that requested them. Call it after the commit."""
        for send, places in zip(self.sends, self._places, strict=True):
            if send.report is not None:
                send.report.told(places)


def _sent(places: RowPlaces, position: int) -> list[Sent]:
    found: list[Sent] = []
    for (topic, partition), of_partition in groupby(places.ranges, lambda one: (one.topic, one.partition)):
        ranges = list(of_partition)
        packed = b"".join(RANGE.pack(one.first_offset, one.rows) for one in ranges) if len(ranges) > 1 else b""
        partition_of = b"" if found else places.partition_of
        rows = sum(one.rows for one in ranges)
        found.append(Sent(topic, partition, ranges[0].first_offset, rows, position, packed, partition_of))
    return found
