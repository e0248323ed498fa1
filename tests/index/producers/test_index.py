"""Producers and drivers by their entries: epochs, watermarks, leftovers; unchanged by undo and snapshots."""

import os
import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from oncegate.core.claims import ClaimState
from oncegate.core.entries.producers import Acked, DriverRegistered
from oncegate.core.producers import Registrant, Standing
from oncegate.index.producers.apply import CALLS_KEPT, PAST_TOKENS, apply
from oncegate.index.producers.decide import registrant, standing
from oncegate.index.producers.intervals import Intervals, flat
from oncegate.index.producers.snapshot import ProducerSnapshot, snapshot_steps
from oncegate.index.producers.store import Driver, ProducerState, ProducerStore
from tests.support.index.producers_saved import pieces_of, restored, seen_in
from tests.support.index.sequences import LEASE_MS, Lane, id16, verdicts_of

SEED = int(os.environ.get("ONCEGATE_SEED", "20261121"))


def content_of(store: ProducerStore) -> object:
    """Returns everything that entries determine, leases excluded."""
    return told_by(pieces_of(store))


def told_by(pieces: list[tuple[str, bytes]]) -> object:
    known = seen_in(pieces)
    producers = sorted(known.producers, key=lambda one: str(one.values["name"]))
    return msgspec.to_builtins((producers, sorted(known.drivers, key=lambda one: one.name), known.takeovers))


def test_an_older_epochs_open_claims_are_left_to_the_next() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2])
    lane.complete(0)
    lane.claim(1, [3, 4])
    lane.register(2)
    assert verdicts_of(lane.decide(0, [1, 3, 5])) == ["DUPLICATE", "GRANTED+TAKEOVER", "GRANTED"]
    assert lane.producer.call_state(1) is ClaimState.UNKNOWN, "calls are an epoch's own"


def test_done_is_no_longer_own_in_the_next_epoch_and_stays_one_piece() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2])
    lane.complete(0)
    lane.register(2)
    lane.claim(0, [3])
    lane.complete(0)
    assert verdicts_of(lane.decide(1, [2, 3])) == ["DUPLICATE", "DUPLICATE+OWN"]
    assert lane.producer.done().tolist() == [[1, 3]]


def test_where_to_go_on_is_behind_everything_that_is_done_without_a_break() -> None:
    lane = Lane()
    lane.register(1)
    assert lane.store.resume_after(lane.producer) is None
    lane.claim(0, [1, 2])
    assert lane.store.resume_after(lane.producer) is None
    lane.claim(1, [3, 9])
    lane.complete(1)
    assert lane.store.resume_after(lane.producer) is None, "1 and 2 are still open"
    lane.complete(0)
    assert lane.store.resume_after(lane.producer) == 9, "sequences that were never claimed delay nothing"
    lane.claim(2, [10, 11])
    assert lane.store.resume_after(lane.producer) == 9
    lane.release(2)
    assert lane.store.resume_after(lane.producer) == 9, "released is not done"
    lane.ack(9)
    assert (lane.store.resume_after(lane.producer), len(lane.producer.done())) == (9, 0)


def test_an_ack_forgets_what_it_covers_and_nothing_else() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2, 3, 4])
    lane.complete(0)
    lane.claim(1, [6])
    lane.ack(3)
    assert (lane.producer.watermark, lane.producer.done().tolist()) == (3, [[4, 4]])
    assert verdicts_of(lane.decide(2, [1, 3, 4, 6, 7])) == [
        "STALE",
        "STALE",
        "DUPLICATE+OWN",
        "SAME+OF_CALL",
        "GRANTED",
    ]


@pytest.mark.parametrize(
    ("acked", "after"), [(1, None), (3, None), (4, 4), (6, 6), (7, 6), (2**64 - 1, 6)], ids=lambda value: str(value)
)
def test_a_watermark_never_goes_back_nor_beyond_what_was_claimed(acked: int, after: int | None) -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2, 3, 4, 6])
    lane.complete(0)
    lane.ack(3)
    assert lane.producer.watermark_after(acked) == after


def test_where_nothing_was_claimed_no_watermark_moves() -> None:
    lane = Lane()
    lane.register(1)
    assert lane.producer.watermark_after(5) is None


def test_claimed_and_uncompleted_sequences_block_an_ack() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2])
    lane.complete(0)
    lane.claim(1, [4, 5])
    lane.claim(2, [8, 9])
    lane.release(2)
    assert lane.store.undone(lane.producer, 3).tolist() == []
    assert lane.store.undone(lane.producer, 4).tolist() == [[4, 5]]
    assert lane.store.undone(lane.producer).tolist() == [[4, 5], [8, 9]]


def test_who_asks_is_known_by_epoch_and_token() -> None:
    lane = Lane()
    assert standing(None, 1, id16(1)) is Standing.UNKNOWN
    lane.register(1)
    lane.register(2)
    found = {
        (3, 2): Standing.ABOVE,
        (1, 1): Standing.BELOW,
        (2, 1): Standing.OTHER_TOKEN,
        (2, 2): Standing.OWN,
    }
    assert {(epoch, token): standing(lane.producer, epoch, id16(token)) for epoch, token in found} == found


def test_who_registers_is_known_by_token_and_lease() -> None:
    lane = Lane()
    assert registrant(None, id16(1), 0) is Registrant.FIRST
    lane.register(1)
    lane.register(2)
    assert registrant(lane.producer, id16(2), 5) is Registrant.SAME
    assert registrant(lane.producer, id16(1), 0) is Registrant.PAST
    assert registrant(lane.producer, id16(3), 1) is Registrant.OTHER_LIVE
    assert registrant(lane.producer, id16(3), 0) is Registrant.OTHER_OVER


def test_tokens_that_were_followed_are_known_for_a_while() -> None:
    lane = Lane()
    for token in range(1, PAST_TOKENS + 3):
        lane.register(token)
    assert registrant(lane.producer, id16(2), 0) is Registrant.PAST
    assert registrant(lane.producer, id16(1), 0) is Registrant.OTHER_OVER


def test_settled_calls_are_forgotten_in_their_turn_and_open_ones_never() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [0])
    for call in range(1, 2 * CALLS_KEPT + 1):
        lane.claim(call, [call])
        lane.complete(call)
    assert len(lane.producer.calls) <= 2 * CALLS_KEPT
    assert lane.producer.call_state(0) is ClaimState.OPEN
    assert lane.producer.call_state(2) is ClaimState.UNKNOWN
    assert lane.producer.call_state(2 * CALLS_KEPT) is ClaimState.DONE
    assert verdicts_of(lane.decide(2, [2, 5_000])) == ["DUPLICATE+OWN", "BUSY"], "forgotten, and still no new call"
    lane.complete(0)
    assert lane.store.resume_after(lane.producer) == 2 * CALLS_KEPT


def test_after_a_rebuild_every_holder_has_a_full_lease() -> None:
    lane = Lane()
    lane.register(1)
    assert lane.producer.lease_left_ms(LEASE_MS - 1) == 1
    lane.store.reset_leases(50_000)
    assert lane.producer.lease_left_ms(50_000) == LEASE_MS


class Walk(Lane):
    """Random entries, each of which the present state allows; no call is repeated within an epoch."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng, self.call, self.tokens, self.driver_epoch = rng, 0, 0, 1

    def step(self) -> Any:
        if "p" not in self.store.producers or self.rng.random() < 0.12:
            self.tokens, self.call = self.tokens + 1, 0
            return self.register(self.tokens)
        chance, producer = self.rng.random(), self.producer
        opened = [number for number, call in producer.calls.items() if call.state is ClaimState.OPEN]
        if chance < 0.1:
            self.driver_epoch += 1
            return self.apply(DriverRegistered("d", self.driver_epoch, id16(self.driver_epoch), 0))
        if opened and chance < 0.55:
            return (self.release if self.rng.random() < 0.3 else self.complete)(self.rng.choice(opened))
        if chance < 0.7:
            return self._ack_some()
        self.call += 1
        highest = -1 if producer.claimed_to is None else producer.claimed_to
        known = sorted(set(self.rng.choices(range(highest + 1), k=5))) if highest >= 0 else []
        wanted = [s for s in known if self.decide(10_000, [s]).out_of_order is None]
        wanted += [highest + 1 + self.rng.randrange(3), highest + 5]
        decision = self.decide(self.call, wanted)
        return self.claim(self.call, wanted) if len(decision.fresh) or len(decision.taken) else None

    def _ack_some(self) -> Any:
        reached = self.store.resume_after(self.producer)
        after = None if reached is None else self.producer.watermark_after(reached)
        upto = flat({} if after is None else {7: after})
        return self.apply(Acked("d", self.driver_epoch, self.rng.randrange(9), upto, 0))


def test_undone_changes_leave_no_trace() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 25):
        walk = Walk(random.Random(seed))
        for _ in range(25):
            walk.step()
            before, position = content_of(walk.store), walk.position
            kept = len(walk.entries), walk.call, walk.tokens, walk.driver_epoch
            undos = [walk.step() for _ in range(walk.rng.randrange(1, 5))]
            for undo in reversed([undo for undo in undos if undo is not None]):
                undo()
            assert content_of(walk.store) == before, f"seed {seed}"
            walk.position = position
            count, walk.call, walk.tokens, walk.driver_epoch = kept
            del walk.entries[count:]


def test_a_replay_and_what_was_saved_are_the_index() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 25):
        walk = Walk(random.Random(seed))
        for _ in range(60):
            walk.step()
        again = ProducerStore()
        for position, entry in enumerate(walk.entries, 1):
            apply(again, position, entry)
        assert content_of(again) == content_of(walk.store), f"seed {seed}"
        loaded = restored(pieces_of(walk.store))
        assert content_of(loaded) == content_of(walk.store), f"seed {seed}"
        walk.store = loaded
        for _ in range(20):
            walk.step()


@pytest.mark.parametrize("damage", ["columns", "order", "name"])
def test_what_does_not_add_up_is_not_loaded(damage: str) -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 3])
    [(what, data), *rest] = pieces_of(lane.store)
    [one] = msgspec.msgpack.decode(data, type=list[ProducerSnapshot])
    held = {"columns": one.held[:-8], "order": one.held[8:16] + one.held[:8] + one.held[16:], "name": one.held}[damage]
    broken = [replace(one, held=held)] * (2 if damage == "name" else 1)
    with pytest.raises(ValueError, match=r"three columns|out of order|one name"):
        restored([(what, msgspec.msgpack.encode(broken)), *rest])


def test_a_snapshot_of_producers_is_of_the_moment_at_which_it_began() -> None:
    """Random entries before each of its steps change parts that are saved and parts that are not saved yet."""
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 25):
        walk = Walk(random.Random(seed))
        for _ in range(40):
            walk.step()
        as_it_was, steps, pieces = content_of(walk.store), snapshot_steps(walk.store), list[tuple[str, bytes]]()
        while True:
            for _ in range(3):
                walk.step()
            if (step := next(steps, None)) is None:
                break
            pieces += step
        assert told_by(pieces) == as_it_was, f"seed {seed}"
        assert content_of(walk.store) != as_it_was


def test_a_snapshot_of_producers_that_is_closed_or_thrown_away_copies_nothing_more() -> None:
    store = ProducerStore()
    steps = snapshot_steps(store)
    assert store.saved_producers is not None
    steps.close()
    assert (store.saved_producers, store.saved_drivers) == (None, None)
    snapshot_steps(store)
    assert (store.saved_producers, store.saved_drivers) == (None, None)
    list(snapshot_steps(store))
    assert (store.saved_producers, store.saved_drivers) == (None, None)


def test_producers_are_saved_in_small_steps() -> None:
    store = ProducerStore()
    for number in range(1_001):
        store.put(ProducerState(f"p{number}", number, "d"))
        store.drivers[f"d{number}"] = Driver(f"d{number}")
    steps = list(snapshot_steps(store))
    per_step = [len(msgspec.msgpack.decode(data)) for step in steps[:-1] for _, data in step]
    assert per_step == [200, 200, 200, 200, 200, 1] * 2
    large = ProducerStore()
    first = np.arange(30_000, dtype=np.uint64) * np.uint64(2)
    for number in range(4):
        large.put(ProducerState(f"p{number}", number, "d", intervals=Intervals(first, first, first)))
    assert max(sum(len(data) for _, data in step) for step in snapshot_steps(large)) < 3 << 19


@pytest.mark.parametrize("missing", ["producers/0", "drivers/1", "producers"])
def test_a_snapshot_without_some_of_its_producers_is_refused(missing: str) -> None:
    lane = Lane()
    lane.register(1)
    pieces = pieces_of(lane.store)
    assert missing in dict(pieces)
    with pytest.raises(ValueError, match="producers"):
        restored([one for one in pieces if one[0] != missing])
