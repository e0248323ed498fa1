"""Reads blobs from a topic by their locations, and verifies them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog import Catalog, Location
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Reader, Record, Trimmed
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES, Bytes, verified
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.server.replay import rows_of
from oncegate.ports import Chunk

# Gap between two blobs up to which records are read and discarded instead of seeking.
GAP_RECORDS = 1_000
# Returns the cached bytes of a location; None: they are not cached.
Cached = Callable[[Location], Bytes | None]


def _none(_at: Location) -> None:
    """A cache that is always empty."""


class Readback:
    """Reader of the blobs of one partition, one call at a time. Call `close` last. `cached`: cache of blobs."""

    def __init__(self, settings: Mapping[str, Any], partition: Partition, cached: Cached = _none) -> None:
        self._reader = Reader(settings)
        self._partition = partition
        self._cached = cached
        self._one = asyncio.Lock()

    async def close(self) -> None:
        """Closes the connections after the current read."""
        async with self._one:
            await self._reader.stop()

    async def blobs(self, locations: Sequence[Location]) -> AsyncGenerator[Bytes, None]:
        """Yields the blob at each location, in order. Close it with `aclose`.

        Raises LedgerDamaged: a blob differs from the one written, or was deleted; LedgerDown: no broker answers.
        """
        async with self._one:
            try:
                async with aclosing(self._found(locations)) as found:
                    async for data in found:
                        yield data
            except Trimmed as error:
                raise LedgerDamaged(f"{error}: put topic {self._partition.topic} back from a copy") from error
            except (KafkaError, OSError) as error:
                raise LedgerDown(f"topic {self._partition.topic} cannot be read now: {error!r}") from error

    async def _found(self, locations: Sequence[Location]) -> AsyncGenerator[Bytes, None]:
        """Yields the blobs in order; uncached ones between two cached ones are read together."""
        missing: list[Location] = []
        for at in (*locations, None):
            data = None if at is None else self._cached(at)
            if at is not None and data is None:
                missing.append(at)
                continue
            async with aclosing(self._blobs(missing)) as found:
                async for one in found:
                    yield one
            missing = []
            if data is not None:
                yield data

    async def _blobs(self, locations: Sequence[Location]) -> AsyncGenerator[bytes, None]:
        for run in _runs(locations):
            _, end = await self._reader.bounds(self._partition)
            first = next((at.offset for at in run if at.length), end)
            async with aclosing(self._reader.records(self._partition, first, end)) as records:
                for at in run:
                    yield verified(at, await _blob(records, at), self._partition.topic)

    async def all(self, locations: Sequence[Location]) -> list[Bytes]:
        """Returns the blob at each location, in order. Raises as `blobs`."""
        return [data async for data in self.blobs(locations)]


class OutputReadback:
    """Reader of a namespace's ranges, which are in its topics of outputs and stages. Call `close` last."""

    def __init__(self, place: KafkaPlace) -> None:
        self.stages = Readback(place.settings, place.stages, partial(place.stage_cache.get, place.name))
        self._by_topic = {OUTPUTS: Readback(place.settings, place.outputs), STAGES: self.stages}

    async def close(self) -> None:
        for reading in self._by_topic.values():
            await reading.close()

    async def rows(
        self, catalog: Catalog, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int
    ) -> list[Chunk]:
        """Returns published rows as `Outputs.fetch` does, located by `catalog`. Raises as `blobs`; OffsetTrimmed."""
        return await rows_of(catalog, (topic, partition, offset, max_rows, max_bytes), self._all)

    async def _all(self, locations: Sequence[Location]) -> list[Bytes]:
        found: dict[Location, Bytes] = {}
        for number, reading in self._by_topic.items():
            here = [at for at in locations if at.counter == number]
            found.update(zip(here, await reading.all(here), strict=True))
        return [found[at] for at in locations]


def _runs(locations: Sequence[Location]) -> list[list[Location]]:
    """Groups locations so that one sequential read covers each group, without going back or reading large gaps."""
    runs: list[list[Location]] = []
    before = None
    for at in locations:
        if not runs or (at.length and before is not None and not before < at.offset <= before + GAP_RECORDS):
            runs.append([])
        runs[-1].append(at)
        before = at.offset if at.length else before
    return runs


async def _blob(records: AsyncIterator[Record], at: Location) -> bytes:
    """Returns the values of records from the location's offset until the location's length is reached or records
    end.
    """
    found = bytearray()
    while len(found) < at.length and (record := await anext(records, None)) is not None:
        if record.offset >= at.offset:
            found += record.value or b""
    return bytes(found)
