"""Writes and opens sorted runs and their filters as files in the shard's folder of runs.

    <number>.run      the run; its header has the ledger id, the numbers of its archives, a ledger position and a salt
    <number>.filter   the salt of its run (16 random bytes), then the filter; a reused name has another salt
    bound             a later ledger position, and the salts of the runs that are valid there

A run is valid if the ledger's history contains the position in its header or in `bound`. After a ledger was restored
from an older copy, the folder may have runs of a discarded history, whose archive numbers are used again. A compaction
forgets the positions below it, so runs are bound to a newer position before.

The files are only a cache: missing, damaged or foreign ones are rebuilt from the ledger's archives.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise

from oncegate.arraytypes import U64
from oncegate.engine.commit.marks import Marks
from oncegate.index.lsm.bloom import Filter, decode, make
from oncegate.index.lsm.run import Run, RunDamaged, encode
from oncegate.index.lsm.tier import ColdRun, fpr_of
from oncegate.ports import Mark, Runs

_NAME = re.compile(r"(\d{8,16})\.(run|filter)")
_BOUND = "bound"
SALT_BYTES = 16
# Blocks read at once when a filter is rebuilt.
_BLOCKS_AT_ONCE = 4_096
Spend = Callable[[int], None]


def _free(_size_bytes: int) -> None:
    return None


@dataclass
class RunPlan:
    """The description of a run to be written.

    chunks: its records, ascending. archives: the numbers of its archives. ids: upper bound of its ids. tier_index: its
    index in the cold tier, 0 for the oldest run.
    """

    chunks: Iterable[U64]
    archives: tuple[int, ...]
    ids: int
    tier_index: int


class RunFiles:
    """The files of one ledger's runs. All methods block.

    marks: the ledger's positions. kind, cold_fpr: kind and false-positive rate of the filters.
    """

    def __init__(self, runs: Runs, marks: Marks, kind: str, cold_fpr: float) -> None:
        self._runs = runs
        self.marks = marks
        self._ledger = marks.ledger.hex()
        self._kind = kind
        self._cold_fpr = cold_fpr
        self._number = max((int(match[1]) for name in runs.names() if (match := _NAME.fullmatch(name))), default=0)

    def write(self, plan: RunPlan, mark: Mark, spend: Spend = _free) -> ColdRun:
        """Writes a run and its filter durably, and opens them.

        `mark`: a ledger position at or after the entries of these archives. Raises LedgerFull, OSError; RunDamaged if a
        merged run is damaged.
        """
        self._number += 1
        name, salt = f"{self._number:08}.run", secrets.token_hex(SALT_BYTES)
        sieve = make(self._kind, plan.ids, fpr_of(plan.tier_index, self._cold_fpr))
        meta = {"ledger": self._ledger, "archives": spans(plan.archives), "salt": salt, "mark": _shown(mark)}
        try:
            self._runs.write(name, _spending(encode(_added(plan.chunks, sieve), meta), spend))
            run = Run(self._runs.open(name), name)
            self._write_filter(name, salt, sieve)
        except BaseException:
            # Without this removal each retry would leave another file, possibly on a full disk.
            with suppress(Exception):
                self._remove(name)
            raise
        return ColdRun(name, run, sieve, plan.archives)

    def _write_filter(self, name: str, salt: str, sieve: Filter) -> None:
        self._runs.write(_filter_of(name), chain([bytes.fromhex(salt)], sieve.encode()))

    def bind(self, runs: Sequence[ColdRun], mark: Mark) -> None:
        """Records durably that these runs are valid at the ledger position `mark`. Raises LedgerFull, OSError."""
        bound = {"mark": _shown(mark), "runs": [run.run.meta["salt"] for run in runs]}
        self._runs.write(_BOUND, [json.dumps(bound).encode()])

    def _bound(self) -> set[str]:
        """Returns the salts of the runs that are bound to a position in this ledger's history."""
        try:
            bound = json.loads(bytes(self._runs.open(_BOUND)))
            return set(bound["runs"]) if self._is_of_history(bound["mark"]) else set()
        except (KeyError, TypeError, ValueError):
            return set()

    def _is_of_history(self, shown: list[object]) -> bool:
        """Returns whether a recorded position belongs to the ledger's history. Raises ValueError, TypeError if
        malformed."""
        position, chain = shown
        return self.marks.holds(Mark(self.marks.ledger, int(str(position)), bytes.fromhex(str(chain))))

    def open_all(self, archives: Iterable[int]) -> list[ColdRun]:
        """Opens the existing runs of these archives, oldest first; removes all other files."""
        missing, runs, bound = set(archives), [], self._bound()
        for name in sorted((name for name in self._runs.names() if name.endswith(".run")), reverse=True):
            run = self._open(name, bound)
            if run is not None and not missing.isdisjoint(run.archives):
                missing.difference_update(run.archives)
                runs.append(run)
        runs.sort(key=lambda run: run.archives[0])
        for tier_index, run in enumerate(runs):
            run.filter = self._filter(run, tier_index)
        sound = [run for run in runs if run.damaged is None]
        self._keep(sound)
        return sound

    def _open(self, name: str, bound: set[str]) -> ColdRun | None:
        """Opens a run; returns None if it is unusable, or belongs to a different ledger or a discarded history."""
        try:
            run = Run(self._runs.open(name), name)
            archives = tuple(number for first, last in run.meta["archives"] for number in range(first, last + 1))
            believed = run.meta["salt"] in bound or self._is_of_history(run.meta["mark"])
        except (RunDamaged, KeyError, TypeError, ValueError):
            return None
        is_own = run.meta.get("ledger") == self._ledger and believed
        return ColdRun(name, run, None, archives) if is_own and archives else None

    def _filter(self, run: ColdRun, tier_index: int) -> Filter | None:
        """Reads the run's filter; rebuilds it if it is damaged or exceeds the configured false-positive rate."""
        salt, fpr = run.run.meta["salt"], fpr_of(tier_index, self._cold_fpr)
        empty = make(self._kind, run.run.size, fpr)
        try:
            data = self._runs.open(_filter_of(run.name))
        except KeyError:
            data = memoryview(b"")
        saved = decode(data[SALT_BYTES:]) if data[:SALT_BYTES] == bytes.fromhex(salt) else None
        if saved is None or type(saved) is not type(empty) or not saved.sound or saved.ids != run.run.size:
            return self._made_again(run, salt, empty)
        return saved if saved.fpr <= 1.01 * fpr else self._made_again(run, salt, empty)

    def _made_again(self, run: ColdRun, salt: str, sieve: Filter) -> Filter | None:
        try:
            for first in range(0, run.run.blocks, _BLOCKS_AT_ONCE):
                sieve.add(run.run.records(first, min(first + _BLOCKS_AT_ONCE, run.run.blocks)))
        except RunDamaged as error:
            run.damaged = str(error)
            return None
        self._write_filter(run.name, salt, sieve)
        return sieve

    def _keep(self, runs: Sequence[ColdRun]) -> None:
        named = {_BOUND, *(name for run in runs for name in (run.name, _filter_of(run.name)))}
        for name in self._runs.names():
            if name not in named:
                self._runs.remove(name)

    def remove(self, runs: Iterable[ColdRun]) -> None:
        """Removes run files that are no longer in use; files that are still open stay readable."""
        for run in runs:
            self._remove(run.name)
            run.run.let_go()

    def _remove(self, name: str) -> None:
        self._runs.remove(name)
        self._runs.remove(_filter_of(name))


def _shown(mark: Mark) -> list[object]:
    return [mark.position, mark.chain.hex()]


def _filter_of(name: str) -> str:
    return name.removesuffix(".run") + ".filter"


def _added(chunks: Iterable[U64], sieve: Filter) -> Iterator[U64]:
    for chunk in chunks:
        sieve.add(chunk)
        yield chunk


def _spending(pieces: Iterable[bytes], spend: Spend) -> Iterator[bytes]:
    for piece in pieces:
        spend(len(piece))
        yield piece


def spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the ranges (first, last) of consecutive numbers, ascending."""
    ordered = sorted(numbers)
    cuts = [at for at, (low, high) in enumerate(pairwise(ordered), 1) if high != low + 1]
    return [(ordered[a], ordered[b - 1]) for a, b in pairwise([0, *cuts, len(ordered)])] if ordered else []
