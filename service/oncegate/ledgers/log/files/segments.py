"""The segment files of one ledger: walked and verified from the first frame on, or appended to.

The rules of the walk. A bad frame in any segment but the last, bytes other than zero beyond the first bad frame's
own extent, any later frame header that is whole, a frame of another history: damage, and nothing is touched.
Anything else behind the last good frame is an append that was never acknowledged, and is cut.
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
    """Says that the disk is full; everything is as it was before the call."""


def segment_path(folder: Path, segment: int) -> Path:
    """Returns where a segment lies."""
    return folder / f"{segment:08}.seg"


def segments_in(folder: Path) -> list[int]:
    """Returns the numbers of a folder's segments, ascending."""
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


@dataclass(frozen=True, slots=True)
class Frame:
    """Holds a verified frame; `body` is valid as long as it is held."""

    segment: SegmentHeader
    header: FrameHeader
    body: memoryview


class Walk:
    """Iterates the frames of a ledger, verifying each; afterwards `end` and `last` say where it ends.

    It begins with `first_segment`; without one with the first that none is missing after: whether a ledger may begin
    there is for `folding` to say. `stop`: look no further than this end, which was verified before. LedgerDamaged at
    the first contradiction. `last_data` is the last segment as it was read, a torn append included; `headers` are
    those of the segments; `chains` the chains of the ends that stand at one of the `watched` (segment, offset).
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
        """Lists the segments to be read, none missing between the first and the last."""
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
        """Returns the frame at the end reached so far, if it is whole."""
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
        """Raises LedgerDamaged unless the bytes from `at` on can be of one append that was never acknowledged."""
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
    """Writes the newest segment. After any OSError it is dead, its state unknown."""

    def __init__(self, disk: Disk, folder: Path, header: SegmentHeader) -> None:
        """Create the segment durably: header and folder entry are there before its first frame. NoRoom, OSError."""
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
        """Appends one frame by one write and one sync. NoRoom; after OSError it is unknown whether the frame is
        there."""
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
        """Tells where the segment would end after one more frame."""
        return self.end.offset + padded(FRAME_HEADER_BYTES + body_bytes)

    def next_header(self) -> SegmentHeader:
        """Returns the header of the segment which continues this one."""
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
