"""Two indexes that get the same requests: one seals its old ids, the other never does. Their answers must be equal."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oncegate.core.claims import ClaimState, IdState
from oncegate.core.entries.kinds import Archived, Entry, Evicted
from oncegate.core.verdicts import Flag
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.evict import gather, numbered, parts_of, pick, unpin
from oncegate.index.claims.replay import replay
from oncegate.index.claims.results import ClaimDecision, ClaimView, Explained
from oncegate.index.claims.row_sharing import BUCKET_BITS
from oncegate.index.claims.snapshot import restore, snapshot
from oncegate.index.claims.store import Widths
from oncegate.index.lsm.run import Run, encode, merge, sorted_records
from oncegate.index.lsm.tier import ColdRun
from oncegate.index.table.arrays import NO_DIGESTS
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import fingerprints, name
from tests.support.index.walks import IDS, TOKENS, Walk

# Small claims share rows from the start.
SMALL = Widths(tag_bits=16, row_bits=16, capacity=8, segments=4, pool_from=2)
# Ids that are sealed apart must retire apart, so all retirements of a walk are at multiples of this. Ids that share a
# row retire together, hence two of their buckets.
BUCKET_MS = 2 << BUCKET_BITS


def answer_without_own(asked: ClaimDecision) -> tuple[list[int], list[int], bytes | None, bool]:
    """Returns an answer without `own`, which is known for only two leases."""
    verdicts = asked.verdicts & ~np.uint8(Flag.OWN)
    return verdicts.tolist(), asked.numbers.tolist(), asked.claim, asked.again


def lasting_part(explained: Explained) -> tuple[object, ...]:
    """Returns the permanent part of an explanation: of a completed id, only that it is completed."""
    if explained.state is IdState.TAKEN:
        return explained.state, explained.owner, explained.takeover
    if explained.state in (IdState.CLAIMED_LIVE, IdState.CLAIMED_OVER):
        return explained.state, explained.claim, explained.lease_left_ms
    return (explained.state,)


@dataclass
class Pair:
    eviction: ClaimUndo | None
    plain: ClaimUndo | None


class Twins:
    """Behaves like one index: each request goes to both, and their answers must be equal."""

    def __init__(self, eviction: ClaimIndex, plain: ClaimIndex) -> None:
        self.eviction, self.plain = eviction, plain

    def decide(self, *args: Any, **more: Any) -> ClaimDecision:
        answer = self.eviction.decide(*args, **more)
        assert answer_without_own(answer) == answer_without_own(self.plain.decide(*args, **more))
        return answer

    def decide_take(self, *args: Any) -> ClaimDecision:
        answer = self.eviction.decide_take(*args)
        assert answer_without_own(answer) == answer_without_own(self.plain.decide_take(*args))
        return answer

    def view(self, claim: bytes, now_ms: int) -> ClaimView:
        view = self.eviction.view(claim, now_ms)
        assert view == self.plain.view(claim, now_ms)
        return view

    def explain(self, fingerprint: bytes, now_ms: int) -> Explained:
        explained = self.eviction.explain(fingerprint, now_ms)
        assert lasting_part(explained) == lasting_part(self.plain.explain(fingerprint, now_ms))
        return explained

    def renew(self, claim: bytes, now_ms: int) -> None:
        for index in (self.eviction, self.plain):
            index.renew(claim, now_ms)

    def apply(self, position: int, entry: Entry, now_ms: int) -> Pair:
        """Applies an entry to both indexes, except `Evicted`, which concerns only the sealing one."""
        plain = None if isinstance(entry, Evicted) else self.plain.apply(position, entry, now_ms)
        return Pair(self.eviction.apply(position, entry, now_ms), plain)

    def undo(self, pair: Pair) -> None:
        for index, undo in ((self.eviction, pair.eviction), (self.plain, pair.plain)):
            if undo is not None:
                index.undo(undo)

    def settle(self, pair: Pair) -> None:
        for index, undo in ((self.eviction, pair.eviction), (self.plain, pair.plain)):
            if undo is not None:
                index.settle(undo)

    def sweep(self, now_ms: int) -> None:
        for index in (self.eviction, self.plain):
            index.sweep(now_ms)

    def make_room(self, ids: int, now_ms: int, **more: bool) -> None:
        for index in (self.eviction, self.plain):
            index.make_room(ids, now_ms, **more)

    @property
    def oldest_wall_ms(self) -> int | None:
        """Returns the oldest time. Both must agree on its bucket: ids that share a row have the latest of their
        times."""
        found = [index.oldest_wall_ms for index in (self.eviction, self.plain)]
        buckets = {None if wall_ms is None else wall_ms >> BUCKET_BITS for wall_ms in found}
        assert len(buckets) == 1, found
        return self.plain.oldest_wall_ms


@dataclass
class Store:
    """The bytes of archives by number, as the ledger keeps them."""

    records: dict[int, np.ndarray] = field(default_factory=dict)
    runs_made: int = 0

    def run(self, chunks: Iterable[np.ndarray], archives: Sequence[int]) -> ColdRun:
        self.runs_made += 1
        data = memoryview(b"".join(encode(chunks, {})))
        return ColdRun(f"run {self.runs_made}", Run(data), None, tuple(archives))

    def run_of(self, archives: Sequence[int]) -> ColdRun:
        records = np.concatenate([np.empty((0, 2), np.uint64), *(self.records[number] for number in archives)])
        return self.run([sorted_records(records)], archives)


class TwinWalk(Walk):
    """A walk of both indexes with sealing, merges and restarts, from entries or from a snapshot."""

    def __init__(self, rng: random.Random, compiled: bool = True, widths: Widths = SMALL) -> None:
        super().__init__(widths, rng, compiled, payloads=rng.random() < 0.3)
        self.widths, self.compiled, self.store = widths, compiled, Store()
        self.index: Any = Twins(ClaimIndex(widths, compiled), ClaimIndex(widths, compiled))
        self.sealed_ids = self.merges = 0
        self.round: Iterator[str] | None = None

    @property
    def eviction(self) -> ClaimIndex:
        index: ClaimIndex = self.index.eviction
        return index

    def bounds(self) -> list[int]:
        return list(range(0, self.now_ms + 60_000, BUCKET_MS))

    def seal(self) -> None:
        """Runs the next step of a round, or the first step of a new one."""
        if self.round is None:
            self.round = self._rounds()
        if next(self.round, None) is None:
            self.round = None

    def seal_all(self) -> None:
        """Runs a whole round, with everything durable."""
        self.seal()
        while self.round is not None:
            self.all_durable()
            self.seal()

    def _rounds(self) -> Iterator[str]:
        """Yields between steps. Anything except a retirement may happen there, including a refusal of the entry."""
        index = self.eviction
        picked = pick(index.store, self.rng.choice((1, 5, 100)), self.bounds())
        if picked is None:
            return
        gathered = []
        for segment in range(len(index.store.table.slots.base)):
            gathered.append(gather(index.store, picked, segment))
            yield "gathered"
        numbers = self._append(parts_of(picked, gathered))
        entry = self.pending[-1]
        yield "appended"
        while any(waiting is entry for waiting in self.pending):
            yield "waiting"
        if all(number in index.archives.by_number for number in numbers):
            index.cold.replace([], [self.store.run_of(numbers)])
            yield "installed"
            yield from self._drop(numbers)
            self.sealed_ids += picked.ids
        unpin(index.store, picked)

    def _append(self, parts: list[tuple[Archived, np.ndarray]]) -> range:
        sealed = self.eviction.archives
        numbers = range(sealed.next_number, sealed.next_number + len(parts))
        for number, (_, records) in zip(numbers, parts, strict=True):
            self.store.records[number] = numbered(records, number)
        entry = Evicted(sealed.high_offset, tuple(archived for archived, _ in parts), 1)
        self.pending.append(self.apply(entry, settled=False))
        return numbers

    def _drop(self, numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            for part in np.array_split(self.store.records[number], 2):
                self.eviction.drop_evicted(number, part)
                yield "dropped"
            archive = self.eviction.archives.by_number[number]
            assert archive.dropped == archive.ids

    def merge(self) -> None:
        cold = self.eviction.cold
        at = self.rng.randrange(len(cold.runs) + 1)
        gone, kept = cold.runs[at : at + 3], self.eviction.archives.keep_mask()
        if gone:
            archives = [number for run in gone for number in run.archives if kept[number]]
            cold.replace(gone, [self.store.run(merge([run.run for run in gone], kept), archives)])
            self.merges += 1
        cold.replace(cold.idle(), [])

    def _retires(self) -> Any:
        oldest_ms = self.index.oldest_wall_ms
        if oldest_ms is None or self.round is not None or self.rng.random() < 0.5:
            return None
        return self.retire((oldest_ms // BUCKET_MS + self.rng.choice((1, 1, 2))) * BUCKET_MS, settled=False)

    def restart(self) -> None:
        """Restarts both indexes from the ledger. Claims that were forgotten and sealed are not remembered again."""
        self.all_durable()
        self.round = None
        unknown = [claim for claim in self.claims if self.eviction.view(claim, self.now_ms).state is ClaimState.UNKNOWN]
        old, again = self.index, Twins(*(ClaimIndex(self.widths, self.compiled) for _ in range(2)))
        plain = [(position, entry) for position, entry in self.entries if not isinstance(entry, Evicted)]
        replay(plain, again.plain.store, self.now_ms)
        replay(
            self.entries, again.eviction.store, self.now_ms, lambda _, entry: self.dropped_again(again.eviction, entry)
        )
        self.index = again
        live = [archive.number for archive in again.eviction.archives.live]
        again.eviction.cold.replace([], [self.store.run_of(live[at::2]) for at in range(2) if live])
        self._forget_alike(again, unknown)
        assert again.eviction.known_ids == old.plain.ids

    def dropped_again(self, index: ClaimIndex, entry: Entry) -> None:
        if isinstance(entry, Evicted):
            for archive in list(index.archives.by_number.values())[-len(entry.archives) :]:
                assert index.drop_evicted(archive.number, self.store.records[archive.number]) == archive.ids

    @staticmethod
    def _forget_alike(again: Twins, unknown: list[bytes]) -> None:
        known = {claim for claim, _ in again.eviction.store.registry.all()}
        for claim in [claim for claim, _ in again.plain.store.registry.all() if claim not in known]:
            assert claim in unknown, "only what was forgotten before"
            again.plain.store.registry.forget(claim)

    def load(self) -> None:
        """Restarts both indexes from their snapshots."""
        self.all_durable()
        self.round = None
        old, again = self.index, Twins(*(ClaimIndex(self.widths, self.compiled) for _ in range(2)))
        for new, was in ((again.eviction, old.eviction), (again.plain, old.plain)):
            restore(new.store, dict(snapshot(was.store)))
            new.reset_leases(self.now_ms)
            was.reset_leases(self.now_ms)
        again.eviction.archives.restore(old.eviction.archives.snapshot())
        again.eviction.cold.replace([], old.eviction.cold.runs)
        self.index = again
        loose = [archive.number for archive in again.eviction.cold.missing()]
        again.eviction.cold.replace([], [self.store.run_of(loose)] if loose else [])
        undropped = [archive.number for archive in again.eviction.archives.live if archive.dropped < archive.ids]
        list(self._drop(undropped))

    def look(self) -> None:
        """Makes every possible request to both indexes."""
        for token in (*TOKENS, "x"):
            for verb in ("claim", "produce"):
                for digests in (NO_DIGESTS, np.full(len(IDS), 3, np.uint32)):
                    self.index.decide(name(token), 99_999, b"?" * 16, fingerprints(IDS), self.now_ms, verb, digests)
            self.index.decide_take(name(token), fingerprints(IDS), self.now_ms)
        for token, call, ids in self.calls:
            self.asks("claim", token, call, ids)
        for claim in self.claims:
            self.index.view(claim, self.now_ms)
        for print_ in fingerprints(IDS):
            self.index.explain(print_.tobytes(), self.now_ms)
        eviction, plain = self.index.eviction, self.index.plain
        assert (eviction.open_claims, eviction.takeovers) == (plain.open_claims, plain.takeovers)
        assert (eviction.known_ids, eviction.wall_ms) == (plain.ids, plain.wall_ms)
        assert self.index.oldest_wall_ms == plain.oldest_wall_ms
