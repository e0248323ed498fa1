"""Writes archives of evicted ids to the ledger's outputs, and reads them back.

Archives are ranges of an internal topic, whose name no request can use. An id has 16 bytes, in the format of runs.
Backup, checksums, recovery and compaction are therefore those of rows. The number of an id is its offset.
"""

from collections.abc import AsyncIterator, Iterable

from oncegate.arraytypes import U64
from oncegate.core.entries.kinds import Archived, Evicted
from oncegate.core.errors import LedgerDamaged
from oncegate.engine.commit.journal import Journal
from oncegate.index.claims.evict import numbered
from oncegate.index.lsm.archives import Archive, records_of
from oncegate.ports import Chunk, OutputChange, Outputs, PublishRanges, TrimRanges, WriteRange

TOPIC = "(sealed)"
ID_BYTES = 16


def record(journal: Journal, parts: list[tuple[Archived, U64]]) -> tuple[int, list[tuple[Archive, U64]]]:
    """Applies archives of evicted ids to the index and queues them for the ledger as one change.

    Returns the position of the change, and each archive with its ids, uint64 (n, 2).
    """
    sealed, range_id = journal.index.claims.archives, journal.random(16)
    first, offset = sealed.next_number, sealed.high_offset
    numbered_ids = [numbered(records, number) for number, (_, records) in enumerate(parts, first)]
    data, ids = b"".join(records.tobytes() for records in numbered_ids), sum(map(len, numbered_ids))
    entry = Evicted(offset, tuple(archived for archived, _ in parts), journal.wall_ms())
    outputs: list[OutputChange] = [WriteRange(range_id, TOPIC, ids, data), PublishRanges(TOPIC, 0, offset, (range_id,))]
    position = journal.record([entry], outputs)
    return position, [(sealed.by_number[number], records) for number, records in enumerate(numbered_ids, first)]


def trim(journal: Journal, before_wall_ms: int) -> list[TrimRanges]:
    """Returns the archive ranges to trim in the append that retires everything older than `before_wall_ms`."""
    sealed = journal.index.claims.archives
    return [TrimRanges(TOPIC, 0, sealed.first_kept_offset(before_wall_ms))] if sealed.by_number else []


async def read(outputs: Outputs, archives: Iterable[Archive]) -> AsyncIterator[tuple[Archive, U64]]:
    """Yields each archive with its ids, uint64 (n, 2). Raises LedgerDamaged; OffsetTrimmed if it has retired."""
    chunks: list[Chunk] = []
    for archive in archives:
        if not chunks or not _within(chunks[0], archive):
            chunks = await outputs.fetch(TOPIC, 0, archive.first_offset, 1, 1)
        if not chunks or not _within(chunks[0], archive):
            raise LedgerDamaged(f"archive {archive.number} of old ids is not where its entry says")
        begin = archive.first_offset - chunks[0].first_offset
        data = memoryview(chunks[0].data)[begin * ID_BYTES : (begin + archive.ids) * ID_BYTES]
        try:
            yield archive, records_of(archive, data)
        except ValueError as error:
            raise LedgerDamaged(f"the ledger's outputs: {error}") from error


def _within(chunk: Chunk, archive: Archive) -> bool:
    end = chunk.first_offset + chunk.rows
    return chunk.first_offset <= archive.first_offset and archive.end_offset <= end
