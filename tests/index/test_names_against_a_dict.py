"""Committed names against a dictionary with unlimited memory: commits, requests, refusals, snapshots in steps."""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from oncegate.core.batches import CommitOutcome, decide
from oncegate.core.entries.kinds import Asked, Committed, Entry, Name
from oncegate.index import batches as batches_snapshot
from oncegate.index import committed_names
from oncegate.index.batches import BatchIndex, Winner
from oncegate.index.committed_names import ASK_BYTES, short_digest, short_nonce
from oncegate.index.part import Piece
from tests.support.ledger_tools import SEED

STEPS = 600
REMEMBERED, REMEMBERED_IN_ALL, ASKS = 3, 10, 3
# A little more than one per name, and a second one for some.
ASKS_BYTES = 13 * ASK_BYTES
VERSIONS = [*map(str, range(12)), "00", "v1", *(str(10**18 - 2 + number) for number in range(4))]
SERIES = [("a", "t", ""), ("a", "t", "w"), ("a", "u", ""), ("b", "t", ""), ("at", "", "")]
NAMES = [Name(app, version, topic, write_id) for app, topic, write_id in SERIES for version in VERSIONS]
DIGESTS = [None, b"1" * 32, b"2" * 32]
Ask = tuple[bytes | None, bytes]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", REMEMBERED)
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED_IN_ALL", REMEMBERED_IN_ALL)
    monkeypatch.setattr(committed_names, "ASKS_REMEMBERED", ASKS)
    monkeypatch.setattr(committed_names, "ASKS_BYTES_IN_ALL", ASKS_BYTES)
    monkeypatch.setattr(committed_names, "BLOCK_RECORDS", 4)
    for what in ("_NAMES_PER_PIECE", "_BLOCKS_PER_PIECE"):
        monkeypatch.setattr(batches_snapshot, what, 2)


@dataclass
class Known:
    """The commit of a name. `whole`: it is a recent one, so that rows and requests are known too."""

    nonce: bytes
    digest: bytes | None
    rows: int
    fingerprint: bytes
    wall_ms: int
    asks: list[Ask]
    whole: bool = True
    same_rows: bool = True


@dataclass
class Reference:
    names: dict[Name, Known] = field(default_factory=dict)
    order: list[Name] = field(default_factory=list)
    suppressed_rows: int = 0
    older_position: int = 0

    def keep(self, position: int, name: Name) -> None:
        self.order.append(name)
        series = [
            one for one in self.order if (one.app, one.topic, one.write_id) == (name.app, name.topic, name.write_id)
        ]
        over = series if len(series) > REMEMBERED else self.order if len(self.order) > REMEMBERED_IN_ALL else []
        if over:
            self.order.remove(gone := over[0])
            known, self.older_position = self.names[gone], position
            known.whole, known.same_rows, known.asks = False, False, []
        self.fewer_asks()

    def fewer_asks(self) -> None:
        for name in self.order:
            taken = sum(ASK_BYTES + len(run or b"") for one in self.order for run, _ in self.names[one].asks)
            if taken > ASKS_BYTES:
                self.names[name].asks = self.names[name].asks[-1:]

    def commit(self, position: int, name: Name, known: Known) -> None:
        assert name not in self.names, "committed twice"
        self.names[name] = known
        self.keep(position, name)

    def ask(self, position: int, name: Name, ask: Ask, suppressed: int) -> None:
        known = self.names[name]
        if ask in known.asks:
            return
        known.asks = [*known.asks, ask][-ASKS:]
        self.suppressed_rows += suppressed
        if not known.whole:
            known.whole = True
            self.keep(position, name)
        self.fewer_asks()

    def outcome(self, ask: "Commit") -> CommitOutcome:
        known = self.names.get(ask.name)
        if known is None:
            return CommitOutcome.BATCH_CONFLICT if self._follows_another(ask) else CommitOutcome.COMMITTED
        if known.nonce == ask.nonce:
            return CommitOutcome.COMMITTED_AGAIN
        if ask.run is not None and any(run == ask.run and nonce != ask.nonce for run, nonce in known.asks):
            return CommitOutcome.SECOND_WRITE
        if None not in (known.digest, ask.digest):
            return CommitOutcome.DUPLICATE if known.digest == ask.digest else CommitOutcome.BATCH_CONFLICT
        if not known.same_rows:
            return CommitOutcome.BATCH_FORGOTTEN
        same = (known.rows, known.fingerprint) == (ask.rows, ask.fingerprint)
        return CommitOutcome.DUPLICATE if same or ask.first_wins else CommitOutcome.BATCH_CONFLICT

    def _follows_another(self, ask: "Commit") -> bool:
        version = ask.name.version
        if version[0] not in "123456789" or not version.isdigit():
            return False
        before = self.names.get(Name(ask.name.app, str(int(version) - 1), ask.name.topic, ask.name.write_id))
        return before is not None and None not in (before.digest, ask.previous) and before.digest != ask.previous


@dataclass
class Commit:
    """A request as a driver sends it."""

    name: Name
    run: bytes | None
    nonce: bytes
    rows: int
    fingerprint: bytes
    digest: bytes | None
    previous: bytes | None
    first_wins: bool


class Walk:
    """The index and the reference side by side; `pending`: the changes that an append may still refuse."""

    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(seed), seed
        self.index, self.reference = BatchIndex(), Reference()
        self.pending: list[tuple[Callable[[], None], Reference]] = []
        self.position = 0
        self.outcomes: dict[CommitOutcome, int] = dict.fromkeys(CommitOutcome, 0)

    def request(self) -> Commit:
        rng = self.rng
        name = rng.choice(self.reference.order if self.reference.order and rng.random() < 0.3 else NAMES)
        run = rng.choice([None, b"r1", b"r2", b"r3", rng.randbytes(4)])
        digest, previous = rng.choices(DIGESTS, k=2)
        same = self.reference.names.get(name)
        nonce = (
            same.nonce if same and rng.random() < 0.1 else rng.choice([bytes(8) + rng.randbytes(8), bytes(15) + b"1"])
        )
        rows = rng.randrange(3)
        fingerprint = rng.choice([b"f", b"g"]) * 16 if rows else bytes(16)
        return Commit(name, run, nonce, rows, fingerprint, digest, previous, rng.random() < 0.3)

    def step(self) -> None:
        what = self.rng.random()
        if what < 0.1:
            self.pending.clear()
        elif what < 0.15:
            while self.pending:
                undo, self.reference = self.pending.pop()
                undo()
        else:
            self.decide(self.request())
        self.compare(self.index, self.reference)

    def decide(self, ask: Commit) -> None:
        # A winner of no chunks has no stage; its rows are passed anyway, and compared.
        facts = self.index.facts(
            ask.name,
            ask.run,
            ask.nonce,
            [Winner(bytes(16), 0 if ask.rows == 0 else 1, ask.rows, ask.fingerprint)],
            ask.digest,
            ask.previous,
            ask.first_wins,
        )
        if not facts.committed:
            facts = type(facts)(False, True, facts.previous)
        outcome, expected = decide(facts).outcome, self.reference.outcome(ask)
        assert outcome is expected, f"seed {self.seed}, step {self.position}: {ask}"
        self.outcomes[outcome] += 1
        if outcome is CommitOutcome.COMMITTED_AGAIN or (not facts.committed and outcome is not CommitOutcome.COMMITTED):
            return
        before = copy.deepcopy(self.reference)
        self.position += 1
        undo = self.index.apply(self.position, self.entry(ask, outcome))
        assert undo is not None
        self.pending.append((undo, before))

    def entry(self, ask: Commit, outcome: CommitOutcome) -> Entry:
        """Returns the entry for the ledger and updates the reference."""
        wall_ms = self.position
        if outcome is CommitOutcome.COMMITTED:
            known = Known(ask.nonce, ask.digest, ask.rows, ask.fingerprint, wall_ms, [(ask.run, ask.nonce)])
            self.reference.commit(self.position, ask.name, known)
            return Committed(ask.name, ask.run, ask.nonce, (), ask.digest, ask.fingerprint, ask.rows, (), wall_ms)
        self.reference.ask(
            self.position, ask.name, (ask.run, ask.nonce), ask.rows if outcome is CommitOutcome.DUPLICATE else 0
        )
        return Asked(ask.name, ask.run, ask.nonce, outcome.value, ask.rows, 2, wall_ms)

    def compare(self, index: BatchIndex, reference: Reference) -> None:
        committed = index.committed
        assert len(committed) == len(reference.names), self.seed
        assert sorted(map(str, committed.last)) == sorted(map(str, reference.order)), self.seed
        assert index.suppressed_rows == reference.suppressed_rows, self.seed
        assert committed.older_position == reference.older_position, self.seed
        for name in NAMES:
            others = {(one.app, one.topic) for one in reference.order if one != name}
            assert committed.is_first(name) == ((name.app, name.topic) not in others), (self.seed, name)
            found, known = committed.get(name), reference.names.get(name)
            assert (found is None) == (known is None), (self.seed, name)
            if found is None or known is None:
                continue
            told = (found.nonce, found.digest, found.rows, found.wall_ms, list(found.asks), found.fingerprint)
            nonce, digest = short_nonce(known.nonce), short_digest(known.digest)
            fingerprint = known.fingerprint if known.same_rows else None
            assert told == (nonce, digest, known.rows, known.wall_ms, known.asks, fingerprint), (self.seed, name)


def restored(steps: Iterator[list[Piece]], between: Callable[[], None]) -> BatchIndex:
    index = BatchIndex()
    reader = batches_snapshot.BatchesReader(index)
    for pieces in steps:
        for what, data in pieces:
            reader.take(what, data)
        between()
    reader.finish()
    return index


def test_answers_about_a_name_match_a_dictionary_through_refusals_and_saves() -> None:
    print("seed", SEED)
    walk, saves = Walk(SEED), 0
    while walk.position < STEPS:
        walk.step()
        if walk.rng.random() < 0.02:
            saves += 1
            expected = copy.deepcopy(walk.reference)
            index = restored(batches_snapshot.snapshot_steps(walk.index), walk.step)
            walk.compare(index, expected)
        if walk.rng.random() < 0.01:
            walk.pending.clear()
            walk.index = restored(batches_snapshot.snapshot_steps(walk.index), lambda: None)
    assert saves > 10
    assert len(walk.reference.names) - len(walk.reference.order) > 4 * REMEMBERED_IN_ALL, "many are older"
    seldom = {outcome for outcome, count in walk.outcomes.items() if count < 4}
    assert seldom == {CommitOutcome.MISSING_STAGE, CommitOutcome.LOWER_VERSION}, walk.outcomes
