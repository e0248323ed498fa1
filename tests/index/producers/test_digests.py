"""Digests of payloads by sequence: a different one is a CONFLICT until the sequence is acked."""

import os
import random
from typing import Any

import numpy as np
import pytest

from oncegate.core.entries.producers import SequencesClaimed
from oncegate.core.verdicts import BY_BYTE
from oncegate.index.producers.decide import decide
from oncegate.index.producers.digests import Digests, sequences_of
from oncegate.index.producers.intervals import spans_of
from tests.support.index.producers_saved import pieces_of, restored
from tests.support.index.sequences import LEASE_MS, Lane, id16, u64

SEED = int(os.environ.get("ONCEGATE_SEED", "20261128"))


def u32(numbers: Any) -> Any:
    return np.array(list(numbers), np.uint32)


def as_dict(digests: Digests) -> dict[int, int]:
    return dict(zip(digests.sequences.tolist(), digests.digests.tolist(), strict=True))


class Payloads(Lane):
    """A producer with payloads; each call accepts its grants and completes them."""

    def verdicts(self, call: int, payloads: dict[int, int]) -> list[str]:
        wanted, digests = u64(payloads), u32(payloads.values())
        decision = decide(self.store, self.producer, call, id16(call), wanted, None, digests)
        return [BY_BYTE[int(byte)].verdict.name for byte in decision.verdicts]

    def take(self, call: int, payloads: dict[int, int], with_digests: bool = True) -> Any:
        wanted, digests = u64(payloads), u32(payloads.values())
        decision = decide(self.store, self.producer, call, id16(call), wanted, None, digests if with_digests else None)
        parts = [digests[decision.actions == action].tobytes() for action in (1, 3)]
        spans = decision.fresh.tobytes(), decision.taken.tobytes()
        kept = b"".join(parts) if with_digests else b""
        entry = SequencesClaimed(7, self.producer.epoch, call, id16(call), LEASE_MS, 0, *spans, kept)
        return self.apply(entry)

    def write(self, call: int, payloads: dict[int, int], with_digests: bool = True) -> None:
        self.take(call, payloads, with_digests)
        self.complete(call)


@pytest.fixture
def lane() -> Payloads:
    lane = Payloads()
    lane.register(1)
    return lane


def test_a_sequence_that_comes_with_another_payload_is_a_conflict_and_with_the_same_a_duplicate(
    lane: Payloads,
) -> None:
    lane.write(0, {1: 10, 2: 20, 3: 30})
    assert lane.verdicts(1, {1: 10, 2: 21, 3: 30, 4: 40}) == ["DUPLICATE", "CONFLICT", "DUPLICATE", "GRANTED"]
    assert lane.verdicts(0, {1: 20, 2: 10, 3: 20}) == ["CONFLICT"] * 3, "those of its neighbours are others"


def test_in_later_epochs_it_is_compared_likewise(lane: Payloads) -> None:
    lane.write(0, {1: 10, 2: 20})
    lane.register(2)
    assert lane.verdicts(0, {1: 11, 2: 20}) == ["CONFLICT", "DUPLICATE"]


def test_sequences_without_a_payload_are_not_compared_on_either_side(lane: Payloads) -> None:
    lane.write(0, {1: 10}, with_digests=False)
    lane.write(1, {2: 20})
    assert lane.verdicts(2, {1: 11, 2: 20}) == ["DUPLICATE", "DUPLICATE"]
    decision = decide(lane.store, lane.producer, 3, id16(3), u64([1, 2]), None)
    assert [BY_BYTE[int(byte)].verdict.name for byte in decision.verdicts] == ["DUPLICATE", "DUPLICATE"]


def test_acked_sequences_are_stale_and_no_longer_compared_and_the_next_one_is(lane: Payloads) -> None:
    lane.write(0, {1: 10, 2: 20, 3: 30})
    lane.ack(2)
    assert as_dict(lane.producer.digests) == {3: 30}
    assert lane.store.digests == 1
    assert lane.verdicts(1, {1: 11, 2: 21, 3: 31}) == ["STALE", "STALE", "CONFLICT"]


def test_sequences_granted_again_have_the_payload_of_the_last_grant(lane: Payloads) -> None:
    lane.take(0, {1: 10, 2: 20, 3: 30})
    lane.release(0)
    lane.write(1, {1: 11})
    lane.write(2, {2: 0}, with_digests=False)
    assert as_dict(lane.producer.digests) == {1: 11, 3: 30}
    lane.register(2)
    assert lane.verdicts(0, {1: 10, 2: 9}) == ["CONFLICT", "DUPLICATE"]


def test_sequences_taken_over_have_the_payload_of_the_new_holder(lane: Payloads) -> None:
    lane.take(0, {2: 20, 4: 40})
    lane.register(2)
    lane.write(0, {2: 21, 4: 41, 5: 50})
    assert as_dict(lane.producer.digests) == {2: 21, 4: 41, 5: 50}


def test_undone_changes_restore_the_former_state(lane: Payloads) -> None:
    states, undos = [], []
    steps: list[Any] = [
        lambda: lane.take(0, {1: 10, 2: 20}),
        lambda: lane.complete(0),
        lambda: lane.take(1, {3: 30}),
        lambda: lane.complete(1),
        lambda: lane.ack(2),
        lambda: lane.take(2, {4: 40}, with_digests=False),
    ]
    for step in steps:
        states.append((as_dict(lane.producer.digests), lane.store.digests))
        undos.append(step())
    for before, undo in zip(reversed(states), reversed(undos), strict=True):
        undo()
        assert (as_dict(lane.producer.digests), lane.store.digests) == before


def test_a_snapshot_keeps_them_and_how_many_there_are(lane: Payloads) -> None:
    lane.write(0, {1: 10, 2: 20, 9: 90})
    lane.ack(1)
    store = restored(pieces_of(lane.store))
    assert as_dict(store.producers["p"].digests) == {2: 20, 9: 90}
    assert store.digests == 2


def test_they_are_what_a_dictionary_would_hold() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        digests, model = Digests.empty(), dict[int, int]()
        for _ in range(chance.randrange(12)):
            chosen = sorted(chance.sample(range(30), chance.randrange(1, 12)))
            taken = [one for one in chosen if chance.random() < 0.3]
            fresh = [one for one in chosen if one not in taken]
            order = [*fresh, *taken]
            values = [chance.randrange(1, 9) for _ in order] if chance.random() < 0.8 else []
            digests = digests.replaced(spans_of(u64(fresh)), spans_of(u64(taken)), u32(values))
            model = {name: one for name, one in model.items() if name not in order} | dict(
                zip(order, values, strict=False)
            )
            if chance.random() < 0.3:
                watermark = chance.randrange(30)
                digests, model = digests.above(watermark), {n: one for n, one in model.items() if n > watermark}
            assert as_dict(digests) == model
            assert digests.sequences.tolist() == sorted(model)
            asked = {number: chance.randrange(1, 9) for number in range(31)}
            differ = digests.differ(u64(asked), u32(asked.values())).tolist()
            assert differ == [number in model and model[number] != one for number, one in asked.items()]


def test_spans_are_taken_apart_into_their_sequences() -> None:
    for numbers in ([], [5], [1, 2, 3], [0, 2, 3, 9], [2**64 - 3, 2**64 - 2]):
        assert sequences_of(spans_of(u64(numbers))).tolist() == numbers
