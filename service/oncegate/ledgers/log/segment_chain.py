"""Chains the segments of an open ledger, from its last compaction on: frames go into the last of them."""

from pathlib import Path

from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.files.frame_body import Compacted
from oncegate.ledgers.log.files.frames import SegmentHeader
from oncegate.ledgers.log.files.segments import SegmentWriter
from oncegate.ledgers.log.opening.replay import Extent
from oncegate.ledgers.log.opening.scan import Scan
from oncegate.ledgers.witness import End

SEGMENT_BYTES = 64 << 20  # the last segment is copied at each opening: 64 MiB are a quarter of a second


class SegmentChain:
    """Knows the segments from the last compaction on, writes the last one, and begins another when that is full.

    `append`, `needed_behind` and `close` block.
    """

    def __init__(self, disk: Disk, folder: Path, scan: Scan, last: SegmentWriter) -> None:
        self._disk = disk
        self._folder = folder
        self._compacted = scan.compacted
        self._headers = [*scan.headers, last.header]
        self._last = last

    @property
    def epoch(self) -> int:
        """The number of this opening."""
        return self._last.header.epoch

    @property
    def end(self) -> End:
        """Where the last frame ends."""
        return self._last.end

    @property
    def extent(self) -> Extent:
        """What of the ledger can be read now."""
        return Extent(self._compacted, tuple(self._headers), self.end)

    def append(self, count: int, body: bytes) -> None:
        """Appends a frame, to a segment that has room for it. NoRoom; after OSError it is unknown whether it is
        there."""
        if self._last.end_after(len(body)) > SEGMENT_BYTES and self.end.offset > BLOCK_BYTES:
            self._begin_another()
        self._last.append(count, body)

    def needed_behind(self, position: int) -> SegmentHeader:
        """Returns the segment that the entries behind `position` begin in, which none before them are needed for.

        Begins another where the last one has entries of both sides. NoRoom, OSError.
        """
        if self._last.header.first_position <= position:
            self._begin_another()
        return [header for header in self._headers if header.first_position <= position + 1][-1]

    def _begin_another(self) -> None:
        header = self._last.next_header()
        new = SegmentWriter(self._disk, self._folder, header)
        self._last.close()
        self._last = new
        self._headers.append(header)

    def adopt(self, compacted: Compacted) -> Compacted | None:
        """Begins with what a durable frame says of a compaction; returns the one before."""
        old, self._compacted = self._compacted, compacted
        self._headers = [header for header in self._headers if header.segment >= compacted.segment]
        return old

    def close(self) -> None:
        """Closes the file that is written."""
        self._last.close()
