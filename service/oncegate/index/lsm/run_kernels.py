"""Loops over sorted runs: they verify blocks, find ids, pack records and merge.

Plain scalar loops. `PLAIN` runs them uncompiled and is the reference; `COMPILED` is the same by numba. They are all in
this file, since numba's cache checks only one file for changes.

A record is two 64-bit words: the tag, and the home's 32 bits below the archive's 32. Records ascend by (tag, home). A
block is 512 words: 255 records, its number below the run's salt, and the CRC-32 of all that (ISO 3309, as zlib's; eight
bytes per step: Kounavis and Berry, "Novel table lookup-based algorithms for high-performance CRC generation", 2008).
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U8, U64
from oncegate.compilation import compiled

BLOCK_RECORDS = 255
BLOCK_WORDS = 512
_NUMBER, _CRC = 510, 511  # words of a block
_LOW, _HALF = np.uint64(0xFFFF_FFFF), np.uint64(32)
_BYTE = np.uint64(0xFF)
_SPAN = 2.0**64
_DIGITS = 1 << 9  # more than that, and the addresses written to outgrow the processor's table of pages
_DIGIT = np.uint64(_DIGITS - 1)


def _tables() -> NDArray[np.uint64]:
    """Computes the CRC lookup tables. Row k: the effect on the CRC of a byte that is followed by k others."""
    first = [zlib.crc32(bytes([byte])) ^ zlib.crc32(b"\0") for byte in range(256)]
    rows = [first]
    for _ in range(7):
        rows.append([crc >> 8 ^ first[crc & 0xFF] for crc in rows[-1]])
    return np.array(rows, np.uint64)


_TABLES = _tables()
_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7 = _TABLES


def _helper(function: Callable[..., Any]) -> Callable[..., Any]:
    return register_jitable(function)  # type: ignore[no-any-return]


@_helper
def _crc_step(crc: Any, word: Any) -> Any:
    """Returns the CRC updated by the next eight bytes."""
    low, high = (crc ^ word) & _LOW, word >> _HALF
    crc = _T7[low & _BYTE] ^ _T6[low >> np.uint64(8) & _BYTE]
    crc ^= _T5[low >> np.uint64(16) & _BYTE] ^ _T4[low >> np.uint64(24)]
    crc ^= _T3[high & _BYTE] ^ _T2[high >> np.uint64(8) & _BYTE]
    return crc ^ _T1[high >> np.uint64(16) & _BYTE] ^ _T0[high >> np.uint64(24)]


@_helper
def _crc(words: U64) -> Any:
    crc = _LOW
    for i in range(_CRC):
        crc = _crc_step(crc, words[i])
    return crc ^ _LOW


@_helper
def _four_crcs(a: U64, b: U64, c: U64, d: U64) -> Any:
    """Computes the CRCs of four blocks at once, so that the dependent steps of one CRC overlap with those of the
    others.
    """
    of_a, of_b, of_c, of_d = _LOW, _LOW, _LOW, _LOW
    for i in range(_CRC):
        of_a, of_b = _crc_step(of_a, a[i]), _crc_step(of_b, b[i])
        of_c, of_d = _crc_step(of_c, c[i]), _crc_step(of_d, d[i])
    return of_a ^ _LOW, of_b ^ _LOW, of_c ^ _LOW, of_d ^ _LOW


@_helper
def _crcs(blocks: U64, first: Any, last: Any) -> Any:
    """Computes the CRCs of the blocks from `first` to before `last`."""
    crcs, block = np.empty(last - first, np.uint64), first
    while block + 4 <= last:
        a, b, c, d = _four_crcs(blocks[block], blocks[block + 1], blocks[block + 2], blocks[block + 3])
        at = block - first
        crcs[at], crcs[at + 1], crcs[at + 2], crcs[at + 3] = a, b, c, d
        block += 4
    while block < last:
        crcs[block - first] = _crc(blocks[block])
        block += 1
    return crcs


@_helper
def _is_whole(blocks: U64, block: Any, crc: Any, fences: U64, salt: Any) -> bool:
    """Returns whether a block with this CRC is intact and belongs to this run."""
    words = blocks[block]
    stamp = np.uint64(block) | np.uint64(salt) << _HALF
    return bool(words[_NUMBER] == stamp and words[0] == fences[block] and words[_CRC] == crc)


@_helper
def _block_of(fences: U64, tag: np.uint64) -> Any:
    """Returns the last block whose first tag is not above `tag`, or -1. Searches outwards from an interpolated
    position.
    """
    count = np.int64(fences.size)
    guess = min(np.int64(np.float64(tag) / _SPAN * count), count - 1)
    low, high, step = guess, guess + 1, np.int64(1)
    if fences[guess] <= tag:
        while high < count and fences[high] <= tag:
            low, high, step = high, high + step, step * 2
        high = min(high, count)
    else:
        low, high = guess - 1, guess
        while low >= 0 and fences[low] > tag:
            low, high, step = low - step, low, step * 2
        low = max(low, np.int64(-1))
    while high - low > 1:
        middle = (low + high) // 2
        if fences[middle] <= tag:
            low = middle
        else:
            high = middle
    return low


@_helper
def _is_below(words: U64, i: Any, tag: np.uint64, home: np.uint64) -> bool:
    """Returns whether record i comes before this id."""
    own_tag = words[2 * i]
    return bool(own_tag < tag or (own_tag == tag and words[2 * i + 1] & _LOW < home))


@_helper
def _in_block(words: U64, count: Any, guess: Any, tag: np.uint64, home: np.uint64) -> Any:
    """Returns the archive of an id in a block of `count` records, or -1. guess: where to start."""
    at = guess
    while at < count and _is_below(words, at, tag, home):
        at += 1
    while at > 0 and not _is_below(words, at - 1, tag, home):
        at -= 1
    if at < count and words[2 * at] == tag and words[2 * at + 1] & _LOW == home:
        return np.int64(words[2 * at + 1] >> _HALF)
    return np.int64(-1)


@_helper
def _count(block: Any, records: int) -> Any:
    """Returns the number of records in a block."""
    return min(np.int64(BLOCK_RECORDS), records - np.int64(block) * BLOCK_RECORDS)


@_helper
def _guess(fences: U64, block: Any, count: Any, tag: np.uint64) -> Any:
    """Returns the interpolated position of a tag in its block."""
    above = np.float64(fences[block + 1]) if block + 1 < fences.size else _SPAN
    below = np.float64(fences[block])
    part = (np.float64(tag) - below) / (above - below) if above > below else 0.0
    return min(np.int64(part * count), count - 1)


@_helper
def _check_four(blocks: U64, fences: U64, salt: Any, seen: U8, four: I64) -> Any:
    """Verifies these four blocks. Returns the first damaged one, or -1."""
    crcs = _four_crcs(blocks[four[0]], blocks[four[1]], blocks[four[2]], blocks[four[3]])
    for i in range(4):
        if not _is_whole(blocks, four[i], crcs[i], fences, salt):
            return four[i]
        seen[four[i]] = 1
    return np.int64(-1)


@_helper
def _check_unseen(blocks: U64, fences: U64, salt: Any, seen: U8, at: I64) -> Any:
    """Verifies blocks that were never read, in groups of four; a smaller remainder is left. Returns a damaged one, or
    -1.
    """
    four, waiting = np.empty(4, np.int64), 0
    for i in range(at.size):
        if at[i] >= 0 and seen[at[i]] == 0:
            four[waiting] = at[i]
            waiting += 1
        if waiting == 4:
            damaged, waiting = _check_four(blocks, fences, salt, seen, four), 0
            if damaged >= 0:
                return damaged
    return np.int64(-1)


def find(
    blocks: U64, fences: U64, records: int, salt: int, seen: U8, tags: U64, homes: U64, at: I64, archives: I64
) -> int:
    """Sets `archives` to the archive of each (tag, home), or -1. Returns the number of a damaged block, or -1.

    A block is verified when it is first read; `seen` is then 1. at: scratch, one element per id. Computes all positions
    first, then touches each block, so that the processor waits for many at once; then verifies blocks by fours and
    searches.
    """
    for i in range(tags.size):
        at[i] = _block_of(fences, tags[i])
    for i in range(tags.size):
        if at[i] >= 0:
            archives[i] = np.int64(blocks[at[i], 2 * _guess(fences, at[i], _count(at[i], records), tags[i])] >> _HALF)
    damaged = _check_unseen(blocks, fences, salt, seen, at)
    if damaged >= 0:
        return damaged  # type: ignore[no-any-return]
    for i in range(tags.size):
        tag, home, block, archive = tags[i], homes[i] & _LOW, at[i], np.int64(-1)
        while block >= 0:
            if seen[block] == 0:
                if not _is_whole(blocks, block, _crc(blocks[block]), fences, salt):
                    return np.int64(block)  # type: ignore[return-value]
                seen[block] = 1
            words = blocks[block]
            if fences[block] == tag and words[1] & _LOW > home:  # of one tag, and in the block before if anywhere
                block -= 1
                continue
            count = _count(block, records)
            archive = _in_block(words, count, _guess(fences, block, count, tag), tag, home)
            break
        archives[i] = archive
    return np.int64(-1)  # type: ignore[return-value]


def unpack(blocks: U64, fences: U64, records: int, salt: int, first: int, last: int, out: U64) -> int:
    """Copies the records of the blocks from `first` to before `last`, and verifies each block.

    Returns the number of a damaged block, or -1.
    """
    count, crcs = np.int64(0), _crcs(blocks, first, last)
    for block in range(first, last):
        if not _is_whole(blocks, block, crcs[block - first], fences, salt):
            return block
        for i in range(_count(block, records)):
            out[count, 0], out[count, 1] = blocks[block, 2 * i], blocks[block, 2 * i + 1]
            count += 1
    return -1


def pack(records: U64, number: int, salt: int, blocks: U64) -> None:
    """Writes the records to consecutive blocks. number: that of the first block."""
    for block in range(blocks.shape[0]):
        words, first = blocks[block], block * BLOCK_RECORDS
        count = min(BLOCK_RECORDS, records.shape[0] - first)
        for i in range(count):
            words[2 * i], words[2 * i + 1] = records[first + i, 0], records[first + i, 1]
        words[2 * count : _NUMBER] = 0
        words[_NUMBER] = np.uint64(number + block) | np.uint64(salt) << _HALF
    crcs = _crcs(blocks, 0, blocks.shape[0])
    for block in range(blocks.shape[0]):
        blocks[block, _CRC] = crcs[block]


def ascending(records: U64) -> int:
    """Returns the index of the first record that does not come after the previous one; the number of records if all are
    in order.
    """
    count: int = records.shape[0]
    for i in range(1, count):
        before, tag = records[i - 1, 0], records[i, 0]
        if before > tag or (before == tag and records[i - 1, 1] & _LOW >= records[i, 1] & _LOW):
            return i
    return count


@_helper
def _rest(word: np.uint64) -> Any:
    """Returns a record's second word in a form by which records of one tag ascend: home, then archive."""
    return word << _HALF | word >> _HALF


def distribute(records: U64, digit: int, out: U64) -> None:
    """Performs one pass of a stable LSD radix sort, by 9 of the tags' highest 27 bits."""
    shift, ends = np.uint64(37 + 9 * digit), np.zeros(_DIGITS, np.int64)
    for i in range(records.shape[0]):
        ends[records[i, 0] >> shift & _DIGIT] += 1
    total = np.int64(0)
    for at in range(_DIGITS):
        ends[at], total = total, total + ends[at]
    for i in range(records.shape[0]):
        tag = records[i, 0]
        digit_of = tag >> shift & _DIGIT
        target = ends[digit_of]
        ends[digit_of] = target + 1
        out[target, 0], out[target, 1] = tag, records[i, 1]


def insert(records: U64, moves_max: int) -> bool:
    """Sorts nearly sorted records by insertion. Returns False if that needs more than `moves_max` moves."""
    moves = np.int64(0)
    for i in range(1, records.shape[0]):
        tag, word, at = records[i, 0], records[i, 1], i
        while at > 0 and (
            records[at - 1, 0] > tag or (records[at - 1, 0] == tag and _rest(records[at - 1, 1]) > _rest(word))
        ):
            records[at, 0], records[at, 1] = records[at - 1, 0], records[at - 1, 1]
            at -= 1
        records[at, 0], records[at, 1] = tag, word
        moves += i - at
        if moves > moves_max:
            return False
    return True


def join(older: U64, newer: U64, out: U64) -> None:
    """Merges two sequences of records by tag, home and archive into `out`, which is as long as both.

    Branch-free, since the branch would be unpredictable.
    """
    i, j, at = np.intp(0), np.intp(0), np.intp(0)
    while i < older.shape[0] and j < newer.shape[0]:
        mine, my_word, yours, your_word = older[i, 0], older[i, 1], newer[j, 0], newer[j, 1]
        takes = (yours < mine) | ((yours == mine) & (_rest(your_word) < _rest(my_word)))
        out[at, 0], out[at, 1] = yours if takes else mine, your_word if takes else my_word
        i, j, at = i + 1 - np.intp(takes), j + np.intp(takes), at + 1
    while i < older.shape[0]:
        out[at, 0], out[at, 1], i, at = older[i, 0], older[i, 1], i + 1, at + 1
    while j < newer.shape[0]:
        out[at, 0], out[at, 1], j, at = newer[j, 0], newer[j, 1], j + 1, at + 1


def settle(records: U64, keep: U8) -> int:
    """Removes in place the records of archives that are not in `keep`, and all but the first of each id.

    Returns the number of records left; -1 if `keep` does not cover an archive, and then the records are unusable.
    """
    count, last_tag, last_home, first = np.intp(0), np.uint64(0), np.uint64(0), True
    for i in range(records.shape[0]):
        tag, word = records[i, 0], records[i, 1]
        home, archive = word & _LOW, np.int64(word >> _HALF)
        if archive >= keep.size:
            return -1
        records[count, 0], records[count, 1] = tag, word
        if keep[archive] != 0 and (first or tag != last_tag or home != last_home):
            last_tag, last_home, first = tag, home, False
            count += 1
    return count  # type: ignore[return-value]


def below(records: U64, tag: np.uint64) -> int:
    """Counts the leading records whose tags are lower. The records must ascend."""
    low, high = np.intp(0), np.intp(records.shape[0])
    while low < high:
        middle = (low + high) // 2
        if records[middle, 0] < tag:
            low = middle + 1
        else:
            high = middle
    return low  # type: ignore[return-value]


class RunKernels(NamedTuple):
    """The loops over runs; both sets have the same signatures, so that every test can run on either."""

    find: Callable[..., int]
    unpack: Callable[..., int]
    pack: Callable[..., None]
    ascending: Callable[..., int]
    distribute: Callable[..., None]
    insert: Callable[..., bool]
    join: Callable[..., None]
    settle: Callable[..., int]
    below: Callable[..., int]


PLAIN = RunKernels(find, unpack, pack, ascending, distribute, insert, join, settle, below)
COMPILED = RunKernels(*(compiled(kernel) for kernel in PLAIN))
