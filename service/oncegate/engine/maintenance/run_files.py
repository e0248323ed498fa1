"""Writes and opens sorted runs and their filters as files in the shard's folder of runs.

    <number>.run      the run; its header names the ledger, the archives it holds, and 16 bytes that nothing else has
    <number>.filter   these 16 bytes, then the filter: of that run, and of no other that once had this name

None of it is truth. Whatever is missing, damaged or another's is made again from the ledger's archives.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise

from oncegate.arraytypes import U64
from oncegate.index.lsm.bloom import Filter, decode, make
from oncegate.index.lsm.run import Run, RunDamaged, encode
from oncegate.index.lsm.tier import ColdRun, fpr_of
from oncegate.ports import Runs

_NAME = re.compile(r"(\d{8,16})\.(run|filter)")
SALT_BYTES = 16
# Read at once where a filter is made again.
_BLOCKS_AT_ONCE = 4_096
Spend = Callable[[int], None]


def _free(_size_bytes: int) -> None:
    return None


@dataclass
class RunPlan:
    """Describes a run to be made.

    chunks: its records, ascending. archives: whose they are. ids: how many at most. tier_index: where in the cold tier,
    0 the oldest run.
    """

    chunks: Iterable[U64]
    archives: tuple[int, ...]
    ids: int
    tier_index: int


class RunFiles:
    """Keeps the runs of one ledger's archives. All methods block.

    `ledger`: the ledger's id. `kind`, `cold_fpr`: the filters' kind, and how often they may be wrong.
    """

    def __init__(self, runs: Runs, ledger: bytes, kind: str, cold_fpr: float) -> None:
        self._runs = runs
        self._ledger = ledger.hex()
        self._kind = kind
        self._cold_fpr = cold_fpr
        self._number = max((int(match[1]) for name in runs.names() if (match := _NAME.fullmatch(name))), default=0)

    def write(self, plan: RunPlan, spend: Spend = _free) -> ColdRun:
        """Makes a run and its filter durable, and opens them. LedgerFull, OSError; RunDamaged where one is merged."""
        self._number += 1
        name, salt = f"{self._number:08}.run", secrets.token_hex(SALT_BYTES)
        sieve = make(self._kind, plan.ids, fpr_of(plan.tier_index, self._cold_fpr))
        meta = {"ledger": self._ledger, "archives": spans(plan.archives), "salt": salt}
        try:
            self._runs.write(name, _spending(encode(_added(plan.chunks, sieve), meta), spend))
            run = Run(self._runs.open(name), name)
            self._write_filter(name, salt, sieve)
        except BaseException:
            # Nobody knows of it, and each further try would leave another one where there is little room.
            with suppress(Exception):
                self._remove(name)
            raise
        return ColdRun(name, run, sieve, plan.archives)

    def _write_filter(self, name: str, salt: str, sieve: Filter) -> None:
        self._runs.write(_filter_of(name), chain([bytes.fromhex(salt)], sieve.encode()))

    def open_all(self, archives: Iterable[int]) -> list[ColdRun]:
        """Opens the runs that together hold what there is of these archives, oldest first; removes other files."""
        missing, runs = set(archives), []
        for name in sorted((name for name in self._runs.names() if name.endswith(".run")), reverse=True):
            run = self._open(name)
            if run is not None and not missing.isdisjoint(run.archives):
                missing.difference_update(run.archives)
                runs.append(run)
        runs.sort(key=lambda run: run.archives[0])
        for tier_index, run in enumerate(runs):
            run.filter = self._filter(run, tier_index)
        sound = [run for run in runs if run.damaged is None]
        self._keep(sound)
        return sound

    def _open(self, name: str) -> ColdRun | None:
        """Opens a run; None: it is no run of this ledger that could be used."""
        try:
            run = Run(self._runs.open(name), name)
            archives = tuple(number for first, last in run.meta["archives"] for number in range(first, last + 1))
        except (RunDamaged, KeyError, TypeError, ValueError):
            return None
        return ColdRun(name, run, None, archives) if run.meta.get("ledger") == self._ledger and archives else None

    def _filter(self, run: ColdRun, tier_index: int) -> Filter | None:
        """Reads the filter saved with the run, if it is sound and as rare as now asked for; else makes it again."""
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
        named = {name for run in runs for name in (run.name, _filter_of(run.name))}
        for name in self._runs.names():
            if name not in named:
                self._runs.remove(name)

    def remove(self, runs: Iterable[ColdRun]) -> None:
        """Removes runs that nobody looks into any more; what is open stays readable."""
        for run in runs:
            self._remove(run.name)
            run.run.let_go()

    def _remove(self, name: str) -> None:
        self._runs.remove(name)
        self._runs.remove(_filter_of(name))


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
    """Returns ascending numbers as (first, last) of those that follow one another."""
    ordered = sorted(numbers)
    cuts = [at for at, (low, high) in enumerate(pairwise(ordered), 1) if high != low + 1]
    return [(ordered[a], ordered[b - 1]) for a, b in pairwise([0, *cuts, len(ordered)])] if ordered else []
