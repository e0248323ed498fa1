"""Holds what is known for ever of each committed name: 60 bytes, in blocks sorted by key.

A record: key 20, digest of the input 16 (zeros: unknown), rows u64, wall_ms u64, nonce 8; integers are little-endian.
Digest and nonce are hashes of what the client brought, for it need not be random in its first bytes.

The key of a name whose version is a number is a hash of the rest (12 bytes) and that number (big-endian), so that the
names of a stream lie side by side and its blocks are full; of any other it is a hash of all of it. So it was of numbers
of 19 digits: they are looked up by both. Hashes are SHA-256,
cut: that two of a million names have one key is less likely than a flipped bit that no disk notices.

They have no secret key. Who searches for two names with one key (2^48 hashes) needs to choose both, and so takes one of
its own names for the other; to meet a name that somebody else chose takes 2^96.
"""

import hashlib
import re
import struct
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from oncegate.core.entries.kinds import Name

# Large enough that a block's own overhead is nothing beside it, small enough to be copied in microseconds.
BLOCK_RECORDS = 512
_DIGEST_BYTES, _NONCE_BYTES = 16, 8
_RECORD = struct.Struct("<20s16sQQ8s")
_SIZE_BYTES, _KEY_BYTES, _SERIES_BYTES = _RECORD.size, 20, 12
# A key as three numbers, in its order.
_KEYS = np.dtype([("first", ">u8"), ("second", ">u8"), ("third", ">u4"), ("rest", "V40")])
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")
_SHORT_DIGITS = 18


class OlderName(NamedTuple):
    """Describes a committed name of long ago by `short_digest` (None: unknown) and `short_nonce` of its commit."""

    digest: bytes | None
    rows: int
    wall_ms: int
    nonce: bytes


class OlderNames:
    """Maps names to what is known of them. A block never changes: it is replaced, so that `frozen` copies none."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._firsts: list[bytes] = []

    def __len__(self) -> int:
        return sum(map(len, self._blocks)) // _SIZE_BYTES

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OlderNames) and b"".join(self._blocks) == b"".join(other.frozen())

    __hash__ = None  # type: ignore[assignment]

    def get(self, name: Name) -> OlderName | None:
        """Finds a name; None when it is not there."""
        for key in _keys(name):
            number, at = self._place(key)
            if self._is_at(number, at, key):
                break
        else:
            return None
        _, digest, rows, wall_ms, nonce = _RECORD.unpack_from(self._blocks[number], at)
        return OlderName(digest if any(digest) else None, rows, wall_ms, nonce)

    def highest(self, name: Name) -> int | None:
        """Returns the highest number among the versions of a name's series; None where none is there.

        Numbers of 19 digits that an earlier version of this program has kept are not among them.
        """
        series = _series(name)
        number, at = self._place(series + b"\xff" * (_KEY_BYTES - _SERIES_BYTES))
        if not self._blocks or at == 0:
            return None
        key = self._blocks[number][at - _SIZE_BYTES : at - _SIZE_BYTES + _KEY_BYTES]
        return int.from_bytes(key[_SERIES_BYTES:], "big") if key.startswith(series) else None

    def add(self, name: Name, what: OlderName) -> bool:
        """Adds a name; False, and no effect, when it is there."""
        if self.get(name) is not None:
            return False
        key = _keys(name)[0]
        number, at = self._place(key)
        record = _RECORD.pack(key, what.digest or bytes(_DIGEST_BYTES), what.rows, what.wall_ms, what.nonce)
        block = self._blocks[number] if self._blocks else b""
        if len(block) < BLOCK_RECORDS * _SIZE_BYTES:
            self._put(number, block[:at] + record + block[at:])
        elif at == len(block):
            self._put(number, block, record)
        else:
            cut = at if _is_next(block, at, key) else len(block) // 2 // _SIZE_BYTES * _SIZE_BYTES
            left, right = block[:cut], block[cut:]
            if at <= cut:
                self._put(number, left[:at] + record + left[at:], right)
            else:
                self._put(number, left, right[: at - cut] + record + right[at - cut :])
        return True

    def remove(self, name: Name) -> None:
        """Takes back an `add`."""
        number, at = self._place(_keys(name)[0])
        rest = self._blocks[number][:at] + self._blocks[number][at + _SIZE_BYTES :]
        self._put(number, *([rest] if rest else []))

    def frozen(self) -> list[bytes]:
        """Returns all records as they are now, sorted by key, in blocks."""
        return list(self._blocks)

    def extend(self, data: bytes) -> None:
        """Adds records that `frozen` gave, after those that are there. ValueError: these are none, or out of order."""
        if len(data) % _SIZE_BYTES:
            raise ValueError(f"{len(data)} bytes are no records of {_SIZE_BYTES}")
        if not _is_rising((self._blocks[-1][-_SIZE_BYTES:] if self._blocks else b"") + data):
            raise ValueError("older names out of order")
        step = BLOCK_RECORDS * _SIZE_BYTES
        blocks = [data[at : at + step] for at in range(0, len(data), step)]
        self._blocks += blocks
        self._firsts += [block[:_KEY_BYTES] for block in blocks]

    def _put(self, number: int, *blocks: bytes) -> None:
        """Puts these in place of a block."""
        self._blocks[number : number + 1] = blocks
        self._firsts[number : number + 1] = [block[:_KEY_BYTES] for block in blocks]

    def _place(self, key: bytes) -> tuple[int, int]:
        """Finds where a key is, or would be: block and byte."""
        number = max(0, bisect_right(self._firsts, key) - 1)
        if not self._blocks:
            return 0, 0
        block = self._blocks[number]
        records = range(0, len(block), _SIZE_BYTES)
        return number, _SIZE_BYTES * bisect_left(records, key, key=lambda at: block[at : at + _KEY_BYTES])

    def _is_at(self, number: int, at: int, key: bytes) -> bool:
        return bool(self._blocks) and self._blocks[number][at : at + _KEY_BYTES] == key


def short_digest(digest: bytes | None) -> bytes | None:
    """Returns what is kept of an input's digest; None for None."""
    return None if digest is None else hashlib.sha256(digest).digest()[:_DIGEST_BYTES]


def short_nonce(nonce: bytes) -> bytes:
    """Returns what is kept of a commit's nonce."""
    return hashlib.sha256(nonce).digest()[:_NONCE_BYTES]


def _is_rising(data: bytes) -> bool:
    """Tells whether each record's key is greater than the one before."""
    keys = np.frombuffer(data, _KEYS)
    is_less, is_equal = np.zeros(max(0, len(keys) - 1), np.bool_), np.ones(max(0, len(keys) - 1), np.bool_)
    for word in ("first", "second", "third"):
        before, after = keys[word][:-1], keys[word][1:]
        is_less |= is_equal & (before < after)
        is_equal &= before == after
    return bool(is_less.all())


def _is_next(block: bytes, at: int, key: bytes) -> bool:
    """Tells whether the record before is of the same series: then more will come right here, behind a full block."""
    return block[at - _SIZE_BYTES : at - _SIZE_BYTES + _SERIES_BYTES] == key[:_SERIES_BYTES]


def number_of(version: str) -> int | None:
    """Returns a version as a number; None where it is not one as Spark writes it, in at most 19 digits."""
    return int(version) if _NUMBER.fullmatch(version) else None


def _keys(name: Name) -> list[bytes]:
    """Returns the key of a name, and behind it the one by which earlier versions of this program have kept it."""
    number = number_of(name.version)
    by_text = hashlib.sha256(f"{_rest(name)}:{name.version}".encode()).digest()[:_KEY_BYTES]
    if number is None:
        return [by_text]
    by_number = _series(name) + number.to_bytes(_KEY_BYTES - _SERIES_BYTES, "big")
    return [by_number] if len(name.version) <= _SHORT_DIGITS else [by_number, by_text]


def _series(name: Name) -> bytes:
    return hashlib.sha256(_rest(name).encode()).digest()[:_SERIES_BYTES]


def _rest(name: Name) -> str:
    return "".join(f"{len(part)}:{part}" for part in (name.app, name.topic, name.write_id))
