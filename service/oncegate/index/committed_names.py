"""Stores the names of committed batches: recent ones in full, older ones as short records that detect replays for ever.

An older name is a record of 60 bytes, in blocks sorted by key: key 20, digest of the input 16 (zeros: unknown), rows
u64, wall_ms u64, nonce 8; integers are little-endian. Digest and nonce are hashes of the client's values, since those
need not be random in their first bytes.

The key of a name whose version is a number is a hash of the rest (12 bytes) and that number (big-endian). The names of
a stream are therefore neighbours, and its blocks are full. The key of any other name is a hash of all of it. Older
releases hashed numbers of 19 digits in full, so those are looked up by both keys. Hashes are truncated SHA-256. Two of
a million names share a key with a lower probability than that of an undetected bit error of a disk.

The hashes have no secret key. Finding two names with one key takes 2^48 hashes, and an attacker must choose both, so
only two of its own names are confused. Finding a name with the key of another caller's name takes 2^96.
"""

import hashlib
import re
import struct
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from oncegate.core.entries.kinds import Name, Span
from oncegate.index.part import Undo

# Large enough that a block's own overhead is negligible, small enough to be copied in microseconds.
BLOCK_RECORDS = 512
_DIGEST_BYTES, _NONCE_BYTES = 16, 8
_RECORD = struct.Struct("<20s16sQQ8s")
_SIZE_BYTES, _KEY_BYTES, _SERIES_BYTES = _RECORD.size, 20, 12
# A key as three numbers that sort like the key.
_KEYS = np.dtype([("first", ">u8"), ("second", ">u8"), ("third", ">u4"), ("rest", "V40")])
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")
_SHORT_DIGITS = 18


class OlderName(NamedTuple):
    """The record of an older name: the `short_digest` of its commit (None if unknown), and the `short_nonce`."""

    digest: bytes | None
    rows: int
    wall_ms: int
    nonce: bytes


class OlderNames:
    """Maps names to their records. A block is never modified but replaced, so that `frozen` copies none."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._firsts: list[bytes] = []

    def __len__(self) -> int:
        return sum(map(len, self._blocks)) // _SIZE_BYTES

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OlderNames) and b"".join(self._blocks) == b"".join(other.frozen())

    __hash__ = None  # type: ignore[assignment]

    def get(self, name: Name) -> OlderName | None:
        """Returns a name's record; None if there is none."""
        for key in _keys(name):
            number, at = self._place(key)
            if self._is_at(number, at, key):
                break
        else:
            return None
        _, digest, rows, wall_ms, nonce = _RECORD.unpack_from(self._blocks[number], at)
        return OlderName(digest if any(digest) else None, rows, wall_ms, nonce)

    def highest(self, name: Name) -> int | None:
        """Returns the highest number among the versions of a name's series; None if there is none.

        Numbers of 19 digits that an earlier version of this program recorded are ignored.
        """
        series = _series(name)
        number, at = self._place(series + b"\xff" * (_KEY_BYTES - _SERIES_BYTES))
        if not self._blocks or at == 0:
            return None
        key = self._blocks[number][at - _SIZE_BYTES : at - _SIZE_BYTES + _KEY_BYTES]
        return int.from_bytes(key[_SERIES_BYTES:], "big") if key.startswith(series) else None

    def add(self, name: Name, what: OlderName) -> bool:
        """Adds a name. Returns False, without effect, if it is already there."""
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
        """Undoes an `add`."""
        number, at = self._place(_keys(name)[0])
        rest = self._blocks[number][:at] + self._blocks[number][at + _SIZE_BYTES :]
        self._put(number, *([rest] if rest else []))

    def frozen(self) -> list[bytes]:
        """Returns all current records, sorted by key, in blocks."""
        return list(self._blocks)

    def extend(self, data: bytes) -> None:
        """Appends records from `frozen`. Raises ValueError if they are malformed or out of order."""
        if len(data) % _SIZE_BYTES:
            raise ValueError(f"{len(data)} bytes are not whole records of {_SIZE_BYTES} bytes")
        if not _is_rising((self._blocks[-1][-_SIZE_BYTES:] if self._blocks else b"") + data):
            raise ValueError("older names out of order")
        step = BLOCK_RECORDS * _SIZE_BYTES
        blocks = [data[at : at + step] for at in range(0, len(data), step)]
        self._blocks += blocks
        self._firsts += [block[:_KEY_BYTES] for block in blocks]

    def _put(self, number: int, *blocks: bytes) -> None:
        """Replaces a block with new ones."""
        self._blocks[number : number + 1] = blocks
        self._firsts[number : number + 1] = [block[:_KEY_BYTES] for block in blocks]

    def _place(self, key: bytes) -> tuple[int, int]:
        """Returns the block and byte at which a key is stored, or would be inserted."""
        number = max(0, bisect_right(self._firsts, key) - 1)
        if not self._blocks:
            return 0, 0
        block = self._blocks[number]
        records = range(0, len(block), _SIZE_BYTES)
        return number, _SIZE_BYTES * bisect_left(records, key, key=lambda at: block[at : at + _KEY_BYTES])

    def _is_at(self, number: int, at: int, key: bytes) -> bool:
        return bool(self._blocks) and self._blocks[number][at : at + _KEY_BYTES] == key


def short_digest(digest: bytes | None) -> bytes | None:
    """Returns the stored prefix of an input's digest; None for None."""
    return None if digest is None else hashlib.sha256(digest).digest()[:_DIGEST_BYTES]


def short_nonce(nonce: bytes) -> bytes:
    """Returns the stored prefix of a commit's nonce."""
    return hashlib.sha256(nonce).digest()[:_NONCE_BYTES]


def _is_rising(data: bytes) -> bool:
    """Returns whether each record's key is greater than the previous one."""
    keys = np.frombuffer(data, _KEYS)
    is_less, is_equal = np.zeros(max(0, len(keys) - 1), np.bool_), np.ones(max(0, len(keys) - 1), np.bool_)
    for word in ("first", "second", "third"):
        before, after = keys[word][:-1], keys[word][1:]
        is_less |= is_equal & (before < after)
        is_equal &= before == after
    return bool(is_less.all())


def _is_next(block: bytes, at: int, key: bytes) -> bool:
    """Returns whether the previous record belongs to the same series; later names then follow here, after a
    full block.
    """
    return block[at - _SIZE_BYTES : at - _SIZE_BYTES + _SERIES_BYTES] == key[:_SERIES_BYTES]


def number_of(version: str) -> int | None:
    """Returns a version as a number; None if it is not a number of at most 19 digits in Spark's form."""
    return int(version) if _NUMBER.fullmatch(version) else None


def _keys(name: Name) -> list[bytes]:
    """Returns the key of a name, followed by the key under which earlier versions of this program recorded it."""
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


BatchAsk = tuple[bytes | None, bytes]
# A few hours of micro-batches, by app, topic and write_id. An older name keeps 60 bytes for ever, or 120 if the digest
# of what it read is known.
NAMES_REMEMBERED = 1_000
# Limit for all series together: some 100 MB. A hundred streams have their thousand each.
NAMES_REMEMBERED_IN_ALL = 100_000
# Limit per name: each ask is a restart of its job, or a repeat with another nonce. The oldest is dropped.
ASKS_REMEMBERED = 100
# Limit for all names, estimated as objects: three asks each. Above it, the oldest names keep only their last ask.
ASKS_BYTES_IN_ALL = 64 << 20
ASK_BYTES = 160


@dataclass(frozen=True, slots=True)
class CommittedName:
    """A committed name. `asks` holds (run, nonce) of the last commits that were asked for under it.

    position: of the entry that committed it.
    kept_position: of the entry that made it one of the last names.
    nonce, digest (of the input), reads (of what was read): truncated, as in an older name.

    An older name has lost fingerprint, run, spans, suppressed rows and asks.
    """

    run: bytes | None
    nonce: bytes
    digest: bytes | None
    rows: int
    fingerprint: bytes | None
    spans: tuple[Span, ...]
    suppressed_rows: int
    wall_ms: int
    position: int
    kept_position: int
    asks: tuple[BatchAsk, ...]
    reads: bytes | None = None


class CommittedNames:
    """Maps names to their commits. Which names are the last is determined by counting entries, never by a clock.

    older_position: of the last entry that made a name an older one; answers about older names depend on it.
    """

    def __init__(self) -> None:
        self.last: dict[Name, CommittedName] = {}
        self.older = OlderNames()
        # Names whose reads are known, with the digest of those in place of the input's.
        self.older_reads = OlderNames()
        self.older_position = 0
        self._count = 0
        self._names: dict[int, Name] = {}
        # Positions that are keys of `_names`, rising: of all names, and of each series.
        self._order: list[int] = []
        self._series: dict[tuple[str, str, str], list[int]] = {}
        # Number of last names by app and topic.
        self._by_app: Counter[tuple[str, str]] = Counter()
        # The bytes of all asks, and the positions of names with several, rising.
        self.asks_bytes = 0
        self._several: list[int] = []

    def __len__(self) -> int:
        return self._count

    def get(self, name: Name) -> CommittedName | None:
        """Returns a name's commit; None if nothing was committed under it."""
        record = self.last.get(name)
        if record is not None:
            return record
        older = self.older.get(name)
        if older is None:
            return None
        at, read = self.older_position, self.older_reads.get(name)
        reads = None if read is None else read.digest
        return CommittedName(None, older.nonce, older.digest, older.rows, None, (), 0, older.wall_ms, at, at, (), reads)

    def higher_name(self, name: Name) -> Name | None:
        """Returns the name with the highest committed number of the series, if that is above this name's.

        None if there is none, or the version is not a number.
        """
        number = number_of(name.version)
        if number is None:
            return None
        positions = self._series.get(_series_of(name), [])
        names = (self._names[position] for position in positions)
        numbers = [(found, one) for one in names if (found := number_of(one.version)) is not None]
        older = self.older.highest(name)
        if older is not None:
            numbers.append((older, replace(name, version=str(older))))
        highest, found_name = max(numbers, key=lambda one: one[0], default=(-1, name))
        return found_name if highest > number else None

    def is_first(self, name: Name) -> bool:
        """Returns whether no other recent name has the same app and topic, whatever its version and write_id."""
        return self._by_app[name.app, name.topic] == (name in self.last)

    def commit(self, name: Name, record: CommittedName) -> Undo:
        """Adds a name that was not committed. Returns the undo."""
        self._count += 1
        undo_keep = self._keep(name, record)

        def undo() -> None:
            undo_keep()
            self._count -= 1

        return undo

    def ask(self, position: int, name: Name, ask: BatchAsk, digest: bytes | None = None) -> tuple[bool, Undo]:
        """Records that a commit was requested under a committed name. Returns whether the ask was known, and the undo.

        digest: truncated digest that replaces the input's; None: no change.
        """
        record = self.get(name)
        assert record is not None, "only a committed name can be asked for again"
        if ask in record.asks:
            return True, _nothing
        asks = (*record.asks, ask)[-ASKS_REMEMBERED:]
        asked = replace(record, asks=asks, digest=record.digest if digest is None else digest)
        if name not in self.last:
            return False, self._keep(name, replace(asked, kept_position=position))
        self._ask(name, asked)
        undo_less = self._with_fewer_asks()

        def undo() -> None:
            undo_less()
            self._ask(name, record)

        return False, undo

    def _ask(self, name: Name, record: CommittedName) -> None:
        """Replaces a name's record with one that has other commit requests."""
        self._count_asks(self.last[name], -1)
        self.last[name] = record
        self._count_asks(record, 1)

    def _count_asks(self, record: CommittedName, sign: int) -> None:
        self.asks_bytes += sign * sum(ASK_BYTES + len(run or b"") for run, _ in record.asks)
        if len(record.asks) > 1:
            at = bisect_left(self._several, record.kept_position)
            self._several[at : at + (sign < 0)] = [record.kept_position] if sign > 0 else []

    def _with_fewer_asks(self) -> Undo:
        """Drops recorded commit requests, oldest names first, until their total is within the limit."""
        before: list[tuple[Name, CommittedName]] = []
        while self.asks_bytes > ASKS_BYTES_IN_ALL and self._several:
            name = self._names[self._several[0]]
            before.append((name, self.last[name]))
            self._ask(name, replace(self.last[name], asks=self.last[name].asks[-1:]))

        def undo() -> None:
            for name, record in reversed(before):
                self._ask(name, record)

        return undo

    def restore(self, last: list[tuple[Name, CommittedName]]) -> None:
        """Replaces everything except the older names."""
        self.last, self._names, self._order, self._series = {}, {}, [], {}
        self._by_app, self.asks_bytes, self._several = Counter(), 0, []
        for name, record in sorted(last, key=lambda one: one[1].kept_position):
            self._put(name, record)
        # A name that was asked for again is among the older names too.
        self._count = len(self.older) + sum(self.older.get(name) is None for name in self.last)

    def _keep(self, name: Name, record: CommittedName) -> Undo:
        undo_keep, undo_less = self._keep_whole(name, record), self._with_fewer_asks()

        def undo() -> None:
            undo_less()
            undo_keep()

        return undo

    def _keep_whole(self, name: Name, record: CommittedName) -> Undo:
        self._put(name, record)
        series, before = self._series[_series_of(name)], self.older_position
        if len(series) > NAMES_REMEMBERED:
            oldest = series[0]
        elif len(self._order) > NAMES_REMEMBERED_IN_ALL:
            oldest = self._order[0]
        else:
            return lambda: self._take_out(record.kept_position)
        gone, what = self._names[oldest], self.last[self._names[oldest]]
        self._take_out(oldest)
        is_new = self.older.add(gone, OlderName(what.digest, what.rows, what.wall_ms, what.nonce))
        if is_new and what.reads is not None:
            self.older_reads.add(gone, OlderName(what.reads, what.rows, what.wall_ms, what.nonce))
        self.older_position = record.kept_position

        def undo() -> None:
            self._take_out(record.kept_position)
            if is_new:
                self.older.remove(gone)
                if what.reads is not None:
                    self.older_reads.remove(gone)
            self._put(gone, what)
            self.older_position = before

        return undo

    def _put(self, name: Name, record: CommittedName) -> None:
        position = record.kept_position
        self.last[name] = record
        self._names[position] = name
        self._by_app[name.app, name.topic] += 1
        self._count_asks(record, 1)
        insort(self._order, position)
        insort(self._series.setdefault(_series_of(name), []), position)

    def _take_out(self, position: int) -> None:
        name = self._names.pop(position)
        self._count_asks(self.last.pop(name), -1)
        series = self._series[_series_of(name)]
        for positions in (self._order, series):
            del positions[bisect_left(positions, position)]
        if not series:
            del self._series[_series_of(name)]
        self._by_app[name.app, name.topic] -= 1
        if not self._by_app[name.app, name.topic]:
            del self._by_app[name.app, name.topic]


def _series_of(name: Name) -> tuple[str, str, str]:
    return name.app, name.topic, name.write_id


def _nothing() -> None:
    """Does nothing: there is no change to undo."""
