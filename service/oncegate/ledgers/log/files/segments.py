"""The segment files of one ledger: verified reads from the first frame, and appends.

Each of these is damage, and nothing is changed: a bad frame in a segment other than the last; non-zero bytes beyond the
extent of the first bad frame; any intact frame header after it; a frame of another history. Anything else after the
last good frame is an append that was never acknowledged, and is cut off.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.chain import FIRST_CHAIN, chain_of
from oncegate.ledgers.disk import BLOCK_BYTES, FULL, Disk, padded, replace_file
from oncegate.ledgers.log.files.frames import (
    FRAME_HEADER_BYTES,
    FrameHeader,
    SegmentHeader,
    decode_header,
    encode_header,
)
from oncegate.ledgers.witness import End

_NAME = re.compile(r"(\d{8,})\.seg")


class NoRoom(Exception):
    """The disk is full; the call changed nothing."""


def segment_path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:08}.seg"


def segments_in(folder: Path) -> list[int]:
    """Returns the segment numbers in a folder, ascending."""
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


@dataclass(frozen=True, slots=True)
class Frame:
    """A verified frame; `body` stays valid while the frame is referenced."""

    segment: SegmentHeader
    header: FrameHeader
    body: memoryview


class Walk:
    """An iterator over the frames of a ledger that verifies each. Raises LedgerDamaged at the first contradiction.

    `first_segment`: where to begin; by default the first segment after which none is missing (`Scan` checks whether the
    ledger may begin there). `stop`: a previously verified end at which to stop. `watched`: ends, as (segment, offset),
    whose chains are recorded in `chains`.

    After iteration: `end` and `last` are the end of the ledger and its last segment's header, `headers` those of all
    segments read, and `last_data` the last segment as read, including a torn append.
    """

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        *,
        first_segment: int = 0,
        stop: End | None = None,
        watched: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._first = first_segment
        self._stop = stop
        self._watched = watched
        self.last: SegmentHeader | None = None
        self.last_data = b""
        self.headers: list[SegmentHeader] = []
        self.chains: dict[tuple[int, int], bytes] = {}
        self.end = End(first_segment or 1, 0, 0, FIRST_CHAIN)

    def __iter__(self) -> Iterator[Frame]:
        segments = self._segments()
        for segment in segments:
            yield from self._segment(segment, last=self._stop is None and segment == segments[-1])

    def _segments(self) -> list[int]:
        """Returns the numbers of the segments to read. Raises LedgerDamaged if there is a gap."""
        present = segments_in(self._folder)
        last = self._stop.segment if self._stop else max(present, default=1)
        first = self._first or next((n for n in range(last, 0, -1) if n - 1 not in present), 1)
        for segment in range(first, max(first, last) + 1):
            if segment not in present:
                raise LedgerDamaged(
                    f"{segment_path(self._folder, segment)} is missing; put it back from a copy, nothing was changed"
                )
        return list(range(first, last + 1))

    def _segment(self, segment: int, *, last: bool) -> Iterator[Frame]:
        data = self._disk.read(segment_path(self._folder, segment))
        header = self._header(segment, data)
        stop = self._stop.offset if self._stop and segment == self._stop.segment else len(data)
        self.last_data = data
        view = memoryview(data)
        while self.end.offset < stop:
            at = self.end.offset
            frame = self._frame(header, view)
            if frame is None:
                if not last:
                    raise self._damaged(at, "is bad, and a later segment follows")
                self._require_torn(header, data, at)
                return
            self._reach(End(segment, frame.header.end, frame.header.last_position, frame.header.chain))
            yield frame

    def _header(self, segment: int, data: bytes) -> SegmentHeader:
        header = SegmentHeader.decode(data)
        if header is None or header.segment != segment:
            raise self._damaged_file(segment, "has a bad header")
        last = self.last
        if last is not None:
            follows = (header.first_position, header.previous_chain) == (self.end.position + 1, self.end.chain)
            same = header.ledger == last.ledger or header.predecessor == last.ledger
            if not (follows and same and header.epoch >= last.epoch and header.key_check == last.key_check):
                raise self._damaged_file(segment, f"does not continue entry {self.end.position}, where the last ends")
        elif segment == 1 and (header.first_position, header.previous_chain) != (1, FIRST_CHAIN):
            raise self._damaged_file(segment, "is not the beginning of a ledger")
        self.last = header
        self.headers.append(header)
        self._reach(End(segment, BLOCK_BYTES, header.first_position - 1, header.previous_chain))
        return header

    def _reach(self, end: End) -> None:
        self.end = end
        if (end.segment, end.offset) in self._watched:
            self.chains[end.segment, end.offset] = end.chain

    def _frame(self, segment: SegmentHeader, data: memoryview) -> Frame | None:
        """Returns the frame at the current end, or None if it is not intact."""
        header = decode_header(segment.ledger, segment.segment, data, self.end.offset)
        if header is None:
            return None
        if (header.first_position, header.previous_chain) != (self.end.position + 1, self.end.chain):
            raise self._damaged(self.end.offset, "belongs to another history of this ledger")
        body = data[header.body_at : header.body_at + header.length]
        if len(data) < header.end or header.chain != chain_of(
            segment.ledger, header.previous_chain, header.first_position, header.count, body
        ):
            return None
        if bytes(data[header.body_at + header.length : header.end]).strip(b"\0"):
            raise self._damaged(self.end.offset, "is followed by bytes that were never written")
        return Frame(segment, header, body)

    def _require_torn(self, segment: SegmentHeader, data: bytes, at: int) -> None:
        """Raises LedgerDamaged unless all bytes from offset `at` can belong to a single unacknowledged append."""
        header = decode_header(segment.ledger, segment.segment, data, at)
        if header is not None and data[header.end :].strip(b"\0"):
            raise self._damaged(at, "is bad, and more was written behind it")
        for offset in range(at + BLOCK_BYTES, len(data), BLOCK_BYTES):
            if decode_header(segment.ledger, segment.segment, data, offset) is not None:
                raise self._damaged(at, f"is bad, and a later one stands at byte {offset}")

    def _damaged(self, offset: int, what: str) -> LedgerDamaged:
        path = segment_path(self._folder, self.end.segment)
        return LedgerDamaged(
            f"{path}: the append at byte {offset}, entry {self.end.position + 1}, {what}: entries up to "
            f"{self.end.position} are whole, later ones were acknowledged; nothing was changed, put a whole copy back"
        )

    def _damaged_file(self, segment: int, what: str) -> LedgerDamaged:
        path = segment_path(self._folder, segment)
        return LedgerDamaged(
            f"{path} {what}: entries up to {self.end.position} are whole; nothing was changed, put a whole copy back"
        )


class SegmentWriter:
    """The writer of the newest segment. Unusable after any OSError, which leaves its state unknown."""

    def __init__(self, disk: Disk, folder: Path, header: SegmentHeader) -> None:
        """Creates the segment durably: its header and folder entry are synced before its first frame is written.
        Raises NoRoom, OSError.
        """
        self.header = header
        self._disk = disk
        path = segment_path(folder, header.segment)
        try:
            replace_file(disk, path, [header.encode()])
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise NoRoom(str(error)) from error
        self._fd = disk.open(path)
        self.end = End(header.segment, BLOCK_BYTES, header.first_position - 1, header.previous_chain)

    def append(self, count: int, body: bytes) -> FrameHeader:
        """Appends a frame with one write and one sync. On NoRoom nothing was written; effect unknown on OSError."""
        end, ledger = self.end, self.header.ledger
        first = end.position + 1
        chain = chain_of(ledger, end.chain, first, count, body)
        header = FrameHeader(end.offset, len(body), first, count, end.chain, chain)
        end_offset = header.end
        padding = bytes(end_offset - end.offset - FRAME_HEADER_BYTES - len(body))
        raw = encode_header(ledger, self.header.segment, header)
        try:
            self._disk.write(self._fd, [raw, body, padding], end.offset)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._disk.truncate(self._fd, end.offset)
            raise NoRoom(str(error)) from error
        self._disk.sync(self._fd)
        self.end = End(end.segment, end_offset, end.position + count, chain)
        return header

    def end_after(self, body_bytes: int) -> int:
        """Returns where the segment would end after one more frame of this size."""
        return self.end.offset + padded(FRAME_HEADER_BYTES + body_bytes)

    def next_header(self) -> SegmentHeader:
        """Returns the header for the segment that follows."""
        return replace(
            self.header,
            segment=self.header.segment + 1,
            first_position=self.end.position + 1,
            previous_chain=self.end.chain,
            predecessor=bytes(16),
        )

    def close(self) -> None:
        """Closes the file."""
        self._disk.close(self._fd)
