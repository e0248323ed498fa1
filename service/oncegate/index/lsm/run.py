"""Stores ids that were moved out of memory in a sorted run: a file that is read in blocks of 4,096 bytes.

    header    magic, version, blocks of it, length of what follows: the caller's metadata of the run, as JSON
    data      255 records of 16 bytes a block: tag u64, home u32, archive u32; its number, the run's salt, its CRC-32
    fences    the first tag of each data block
    footer    magic, version, blocks of each part, records, the CRC-32s of header and fences

All integers are little-endian, and every byte is covered by a CRC-32; header and footer end with theirs. The salt is
the header's CRC, so that a block of another run is detected. Sorted records behind an index of their blocks are
Bigtable's SSTables (Chang et al., 2006), as is the Bloom filter before each (`index.lsm.bloom`).
"""

import json
import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from oncegate.arraytypes import I64, U8, U64
from oncegate.index.lsm.run_kernels import BLOCK_RECORDS, BLOCK_WORDS, COMPILED, RunKernels

VERSION = 1
BLOCK_BYTES = 8 * BLOCK_WORDS
_HEADER, _FOOTER = b"ONCERUN\0", b"ONCEEND\0"
_HEAD = struct.Struct("<8sIII")  # magic, version, blocks, bytes of JSON
_FOOT = struct.Struct("<8sIIQQQII")  # magic, version; blocks: header, data, fences; records; CRCs: header, fences
_CRC = struct.Struct("<I")
_PIECE_BLOCKS = 256  # given and taken at once: 1 MiB
_LET_GO_BYTES = 16 << 20  # a fifth of a millisecond
_WINDOW_BLOCKS = 64  # of each run that is merged: 256 KiB, so that it stays in the processor's caches

Meta = dict[str, Any]
_NONE = np.empty((0, 2), np.uint64)


class RunDamaged(ValueError):
    """Raised for bytes that are not a run of this version: the run must be rebuilt from the ledger."""


def sorted_records(records: U64, *, own: bool = False, kernels: RunKernels = COMPILED) -> U64:
    """Sorts records, uint64 (n, 2), by tag, then home, then archive. own: their memory may be reused, which saves half
    of it.

    Sorts by the highest 27 bits of the tags first, which leaves little to do if tags are random.
    """
    here, there = np.ascontiguousarray(records), np.empty_like(records)
    spare = here if own else np.empty_like(records)
    for digit in range(3):
        kernels.distribute(here, digit, there)
        here, there = there, spare if digit == 0 else here
    if not kernels.insert(here, 8 * len(here)):
        here = here[np.lexsort((here[:, 1] >> np.uint64(32), here[:, 1] & np.uint64(0xFFFF_FFFF), here[:, 0]))]
    return here


def encode(chunks: Iterable[U64], meta: Meta, kernels: RunKernels = COMPILED) -> Iterator[bytes]:
    """Yields the bytes of a run. chunks: uint64 (n, 2), one record per row: the tag, and the home below the archive.

    Raises ValueError if the records do not ascend by tag and home, within a chunk or from one to the next.
    """
    header = _header(meta)
    yield header
    salt, fences, records = _crc_of(header), [], 0
    for piece in _pieces(_ascending(chunks, kernels)):
        blocks = np.empty((-(-len(piece) // BLOCK_RECORDS), BLOCK_WORDS), np.uint64)
        kernels.pack(piece, records // BLOCK_RECORDS, salt, blocks)
        fences.append(blocks[:, 0].copy())
        records += len(piece)
        yield blocks.tobytes()
    tags = np.concatenate([*fences, np.empty(0, np.uint64)]).tobytes()
    tags = tags.ljust(_blocks(len(tags)) * BLOCK_BYTES, b"\0")
    yield tags
    parts = (len(header) // BLOCK_BYTES, -(-records // BLOCK_RECORDS), len(tags) // BLOCK_BYTES)
    yield _sealed(_FOOT.pack(_FOOTER, VERSION, *parts, records, salt, zlib.crc32(tags)), 1)


def _ascending(chunks: Iterable[U64], kernels: RunKernels) -> Iterator[U64]:
    """Yields the non-empty chunks. Raises ValueError if they do not ascend."""
    last = np.empty((0, 2), np.uint64)
    for chunk in chunks:
        if len(chunk):
            chunk = np.ascontiguousarray(chunk, np.uint64)
            seam = np.concatenate([last, chunk[:1]])
            if kernels.ascending(seam) < len(seam) or kernels.ascending(chunk) < len(chunk):
                raise ValueError("the records of a run must ascend by tag and home, without repetitions")
            last = chunk[-1:].copy()
            yield chunk


def _pieces(chunks: Iterable[U64]) -> Iterator[U64]:
    """Yields the records of the chunks in pieces of whole blocks, except for the last piece."""
    room, filled = np.empty((_PIECE_BLOCKS * BLOCK_RECORDS, 2), np.uint64), 0
    for chunk in chunks:
        taken = 0
        while taken < len(chunk):
            more = min(len(chunk) - taken, len(room) - filled)
            room[filled : filled + more] = chunk[taken : taken + more]
            filled, taken = filled + more, taken + more
            if filled == len(room):
                yield room
                filled = 0
    if filled:
        yield room[:filled]


def _header(meta: Meta) -> bytes:
    text = json.dumps(meta).encode()
    blocks = _blocks(_HEAD.size + len(text) + _CRC.size)
    return _sealed(_HEAD.pack(_HEADER, VERSION, blocks, len(text)) + text, blocks)


def _blocks(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES)


def _sealed(data: bytes, blocks: int) -> bytes:
    whole = data.ljust(blocks * BLOCK_BYTES - _CRC.size, b"\0")
    return whole + _CRC.pack(zlib.crc32(whole))


def _crc_of(sealed: bytes | memoryview) -> int:
    return int(_CRC.unpack(sealed[-_CRC.size :])[0])


class Run:
    """An open run: header, fences and footer are verified and kept in memory, blocks are verified when first read.

    Made from its bytes, which may be a memory map; they must not change. Usable by several threads.
    """

    def __init__(self, data: memoryview, name: str = "run", kernels: RunKernels = COMPILED) -> None:
        """Opens a run from its bytes. name: for messages. Raises RunDamaged."""
        self.name = name
        self._kernels = kernels
        self._data = data = memoryview(data).toreadonly()
        header, blocks, fences, self.size, self._salt, fences_crc = self._footer(data)
        self.meta = self._read_header(data[: header * BLOCK_BYTES])
        end = (header + blocks) * BLOCK_BYTES
        tags = data[end : end + fences * BLOCK_BYTES]
        self._require(zlib.crc32(tags) == fences_crc, "its fences are damaged")
        self._fences: U64 = np.frombuffer(tags, np.uint64)[:blocks].copy()
        self._blocks: U64 = np.frombuffer(data[header * BLOCK_BYTES : end], np.uint64).reshape(-1, BLOCK_WORDS)
        self._seen: U8 = np.zeros(blocks, np.uint8)

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise RunDamaged(f"{self.name}: {why}; it is made again from the ledger")

    def _footer(self, data: memoryview) -> tuple[int, int, int, int, int, int]:
        size_bytes = len(data)
        self._require(size_bytes % BLOCK_BYTES == 0 and size_bytes >= 2 * BLOCK_BYTES, f"{size_bytes} bytes are no run")
        footer = data[-BLOCK_BYTES:]
        self._require(zlib.crc32(footer[: -_CRC.size]) == _crc_of(footer), "its footer is damaged")
        magic, version, header, blocks, fences, records, salt, fences_crc = _FOOT.unpack(footer[: _FOOT.size])
        self._require(magic == _FOOTER and version == VERSION, f"unknown version {version}")
        whole = (header + blocks + fences + 1) * BLOCK_BYTES == size_bytes
        parts = blocks == -(-records // BLOCK_RECORDS) and fences == _blocks(8 * blocks)
        self._require(whole and parts and header > 0, "its parts are inconsistent")
        return header, blocks, fences, records, salt, fences_crc

    def _read_header(self, header: memoryview) -> Meta:
        self._require(_crc_of(header) == self._salt, "its header and its footer do not match")
        self._require(zlib.crc32(header[: -_CRC.size]) == self._salt, "its header is damaged")
        magic, version, blocks, length = _HEAD.unpack(header[: _HEAD.size])
        self._require(magic == _HEADER and version == VERSION, f"unknown version {version}")
        self._require(blocks * BLOCK_BYTES == len(header), "its header has another length")
        meta: Meta = json.loads(bytes(header[_HEAD.size : _HEAD.size + length]))
        return meta

    def let_go(self) -> None:
        """Unmaps the run in small pieces, from any thread, once hardly any look-up uses it.

        Unmapping a gigabyte at once, when the last reference goes, would block everything for some 30 ms.
        """
        under = self._data.obj
        if isinstance(under, mmap.mmap):
            for at in range(0, len(under), _LET_GO_BYTES):
                under.madvise(mmap.MADV_DONTNEED, at, min(_LET_GO_BYTES, len(under) - at))

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of memory in use, excluding the blocks."""
        return self._fences.nbytes + self._seen.nbytes

    def find(self, keys: U64) -> I64:
        """Returns the archive of each id, int64 (n,), -1 if it is absent. keys: uint64 (n, 2).

        A key is the tag, and the home in the low 32 bits of its second word; the other bits are ignored. Raises
        RunDamaged, without any answer, if a block was altered.
        """
        archives = np.full(len(keys), -1, np.int64)
        if len(self._blocks) and len(keys):
            tags, homes = np.ascontiguousarray(keys[:, 0]), np.ascontiguousarray(keys[:, 1])
            here, at = self._all(), np.empty(len(keys), np.int64)
            self._require_whole(self._kernels.find(*here, self._seen, tags, homes, at, archives))
        return archives

    def records(self, first: int, last: int) -> U64:
        """Returns the records of the blocks from `first` to before `last`, uint64 (n, 2). Verifies each block. Raises
        RunDamaged.
        """
        assert 0 <= first <= last <= self.blocks
        out = np.empty((min(self.size, last * BLOCK_RECORDS) - min(self.size, first * BLOCK_RECORDS), 2), np.uint64)
        self._require_whole(self._kernels.unpack(*self._all(), first, last, out))
        return out

    def _all(self) -> tuple[U64, U64, int, int]:
        return self._blocks, self._fences, self.size, self._salt

    def _require_whole(self, damaged: int) -> None:
        self._require(damaged < 0, f"block {damaged} is damaged")


class _Reader:
    """Reads a run from its first block to its last. buffer: records that were read and not yet given."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next = 0
        self.buffer: U64 = _NONE

    @property
    def has_more(self) -> bool:
        return self._next < self._run.blocks

    def read(self) -> None:
        """Reads the next blocks. Raises RunDamaged."""
        last = min(self._next + _WINDOW_BLOCKS, self._run.blocks)
        more, self._next = self._run.records(self._next, last), last
        self.buffer = np.concatenate([self.buffer, more]) if len(self.buffer) else more

    def give(self, count: int) -> U64:
        given, self.buffer = self.buffer[:count], self.buffer[count:]
        return given


def merge(runs: Sequence[Run], keep: U8, kernels: RunKernels = COMPILED) -> Iterator[U64]:
    """Yields the records of all runs for `encode`, in chunks of some 10,000 per run.

    keep: by archive; 0 omits its records. Of several records of one id, the one with the lowest archive is kept. Raises
    RunDamaged, and ValueError if a record names an archive beyond `keep`.
    """
    readers = [_Reader(run) for run in runs]
    while True:
        for reader in readers:
            if reader.has_more and not len(reader.buffer):
                reader.read()
        going_on = [reader for reader in readers if reader.has_more]
        if going_on:
            # The next block may have more records of this tag.
            end = min(reader.buffer[-1, 0] for reader in going_on)
            parts = [reader.give(int(kernels.below(reader.buffer, end))) for reader in readers]
        else:
            parts = [reader.give(len(reader.buffer)) for reader in readers]
        chunk = _joined([part for part in parts if len(part)], kernels)
        count = int(kernels.settle(chunk, keep))
        if count < 0:
            raise ValueError(f"a record names an archive beyond the {len(keep)} known ones")
        if count:
            yield chunk[:count]
        if not going_on:
            return
        for reader in going_on:
            if reader.buffer[0, 0] == end:
                reader.read()


def _joined(parts: list[U64], kernels: RunKernels) -> U64:
    """Merges all sorted sequences into a new array, pairwise."""
    if not parts:
        return _NONE.copy()
    if len(parts) == 1:
        return parts[0].copy()
    half = len(parts) // 2
    older, newer = (part[0] if len(part) == 1 else _joined(part, kernels) for part in (parts[:half], parts[half:]))
    out = np.empty((len(older) + len(newer), 2), np.uint64)
    kernels.join(older, newer, out)
    return out
