"""Knows what was committed under each name: all of it of the last ones, of older ones what tells a replay for ever."""

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, replace

from oncegate.core.entries.kinds import Name, Span
from oncegate.index.older_names import OlderName, OlderNames, number_of
from oncegate.index.part import Undo

Ask = tuple[bytes | None, bytes]
# A few hours of micro-batches, by app, topic and write_id; of older ones 60 bytes are kept for ever, or 120 where the
# digest of what they read is known.
NAMES_REMEMBERED = 1_000
# Of all series: some 100 MB. A hundred streams have their thousand each.
NAMES_REMEMBERED_IN_ALL = 100_000
# Of one name: each is a restart of its job, or a repeat with another nonce. The oldest goes.
ASKS_REMEMBERED = 100
# Of all names, reckoned as objects: three asks of each. Beyond, names kept longest give up all but their last.
ASKS_BYTES_IN_ALL = 64 << 20
ASK_BYTES = 160


@dataclass(frozen=True, slots=True)
class CommittedName:
    """Describes a committed name; `asks` holds (run, nonce) of the last commits asked for under it.

    position: of the entry that committed it. kept_position: of the entry that made it one of the last. nonce, digest
    (of the input) and reads (of what was read): in short (`older_names`). Of an older name fingerprint, run, spans,
    suppressed rows and asks are forgotten.
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
    asks: tuple[Ask, ...]
    reads: bytes | None = None


class CommittedNames:
    """Maps names to what was committed under them. Which are the last is counted in entries, never read from a clock.

    older_position: of the last entry that made a name an older one, on which all that is told of older ones rests.
    """

    def __init__(self) -> None:
        self.last: dict[Name, CommittedName] = {}
        self.older = OlderNames()
        # Of those whose reads are known: their digest in place of that of the input.
        self.older_reads = OlderNames()
        self.older_position = 0
        self._count = 0
        self._names: dict[int, Name] = {}
        # Positions that are keys of `_names`, rising: of all, and of each series.
        self._order: list[int] = []
        self._series: dict[tuple[str, str, str], list[int]] = {}
        # Of the last names, by app and topic.
        self._by_app: Counter[tuple[str, str]] = Counter()
        # What the asks of all take, and the positions of names with several, rising.
        self.asks_bytes = 0
        self._several: list[int] = []

    def __len__(self) -> int:
        return self._count

    def get(self, name: Name) -> CommittedName | None:
        """Finds a name; None when nothing was committed under it."""
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
        """Finds the highest number of the name's series that is committed, where it is above the name's; None where
        there is none, or the name's version is no number."""
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
        """Tells whether the last names have no other one of this app and topic, whatever its version and write_id."""
        return self._by_app[name.app, name.topic] == (name in self.last)

    def commit(self, name: Name, record: CommittedName) -> Undo:
        """Takes in a name that was not committed; returns what takes it back."""
        self._count += 1
        undo_keep = self._keep(name, record)

        def undo() -> None:
            undo_keep()
            self._count -= 1

        return undo

    def ask(self, position: int, name: Name, ask: Ask, digest: bytes | None = None) -> tuple[bool, Undo]:
        """Takes note of a commit asked for under a committed name; returns whether it was known, and what undoes it.

        digest: of the input from now on, in short; None: it stays.
        """
        record = self.get(name)
        assert record is not None, "only of a committed name is an ask an entry"
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
        """Puts a record of other asks in the place of a name's."""
        self._count_asks(self.last[name], -1)
        self.last[name] = record
        self._count_asks(record, 1)

    def _count_asks(self, record: CommittedName, sign: int) -> None:
        self.asks_bytes += sign * sum(ASK_BYTES + len(run or b"") for run, _ in record.asks)
        if len(record.asks) > 1:
            at = bisect_left(self._several, record.kept_position)
            self._several[at : at + (sign < 0)] = [record.kept_position] if sign > 0 else []

    def _with_fewer_asks(self) -> Undo:
        """Lets names give up asks while all together take too much; those first that were kept first."""
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
        """Takes over the last names, in place of everything but the older ones."""
        self.last, self._names, self._order, self._series = {}, {}, [], {}
        self._by_app, self.asks_bytes, self._several = Counter(), 0, []
        for name, record in sorted(last, key=lambda one: one[1].kept_position):
            self._put(name, record)
        # One that was asked for again is among the older ones too.
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
    """Takes back nothing."""
