"""Claims applied together have the same effect as claims applied one after the other."""

import os
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from oncegate.core.entries.kinds import Claimed, Completed, Released
from oncegate.core.verdicts import Verdict
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.decide import LEFT, ClaimBatch, claim_many, is_repeat
from oncegate.index.claims.store import Widths
from oncegate.index.table.rows import _LAYOUT
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import NARROW

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
COLUMNS = [name for name in _LAYOUT if name != "spare"]


def claims_of(rng: random.Random, count: int, position: int) -> list[Claimed]:
    sizes = [rng.choice((1, 1, 2, 5)) for _ in range(count)]
    return [
        Claimed(
            rng.randbytes(16), rng.randbytes(16), n, rng.randbytes(16), 1_000 + n, position, rng.randbytes(16 * k), b""
        )
        for n, k in enumerate(sizes)
    ]


def ids_of(claims: list[Claimed]) -> np.ndarray:
    return np.frombuffer(bytearray(b"".join(claim.fresh for claim in claims)), np.uint64).reshape(-1, 2)


@dataclass
class OneByOne:
    """Replaces `Together` for claims that were applied one by one."""

    index: ClaimIndex
    undos: list[ClaimUndo]

    def settle(self) -> None:
        for undo in self.undos:
            self.index.settle(undo)

    def undo(self) -> None:
        for undo in reversed(self.undos):
            self.index.undo(undo)


def fold(index: ClaimIndex, claims: list[Claimed], position: int, now_ms: int, at_once: bool) -> ClaimBatch | OneByOne:
    # Segments move at the same moments, so that dead slots are dropped alike.
    index.table.make_room(len(ids_of(claims)))
    if at_once:
        return claim_many(index.store, position, claims, now_ms)
    index.make_room(len(ids_of(claims)), now_ms, entries=len(claims))
    undos = [index.apply(position + n, claim, now_ms) for n, claim in enumerate(claims)]
    return OneByOne(index, [undo for undo in undos if undo is not None])


def whole_content(index: ClaimIndex) -> object:
    """Returns every row by its number, every id, every counter, every name."""
    columns = {name: index.store.rows.column(name).tolist() for name in COLUMNS}
    counters = (
        index.ids,
        index.open_claims,
        index.takeovers,
        index.wall_ms,
        index.store.table.used,
        index.store.table.dead,
    )
    return (
        columns,
        index.contents(),
        counters,
        dict(index.store.registry._by_claim),
        dict(index.store.registry._by_call),
    )


@pytest.mark.parametrize("widths", [Widths(), NARROW], ids=["wide", "narrow"])
def test_claims_folded_in_at_once_leave_the_index_that_one_after_the_other_leave(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    states = []
    for at_once in (True, False):
        rng, index, position = random.Random(SEED), ClaimIndex(widths), 1
        for step in range(12):
            claims = claims_of(rng, rng.randrange(1, 12), step)
            folded = fold(index, claims, position, 50 * step, at_once)
            position += len(claims)
            if step % 4 == 3:
                folded.undo()
            else:
                folded.settle()
                end = Completed if step % 2 else Released
                for n, claim in enumerate(claims[::2]):
                    undone = index.apply(position + n, end(claim.claim, step), 50 * step)
                    assert undone is not None
                    index.settle(undone)
                position += len(claims)
        states.append(whole_content(index))
    assert states[0] == states[1]


def test_ids_whose_claim_was_released_are_new_and_can_be_taken_back_to_it() -> None:
    rng, index = random.Random(SEED), ClaimIndex()
    claims = claims_of(rng, 5, 1)
    first = fold(index, claims, 1, 0, at_once=True)
    first.settle()
    for n, claim in enumerate(claims):
        released = index.apply(6 + n, Released(claim.claim, 2), 0)
        assert released is not None
        index.settle(released)
    before = index.contents()
    again = [
        Claimed(rng.randbytes(16), rng.randbytes(16), 0, claim.digest, 1_000, 3, claim.fresh, b"") for claim in claims
    ]
    folded = fold(index, again, 11, 10, at_once=True)
    assert index.ids == sum(len(claim.fresh) // 16 for claim in claims)
    index.sweep(1_000_000)
    assert isinstance(first, ClaimBatch)
    named = first.rows
    assert index.store.rows.used[named].all(), "forgotten, but for what may be taken back"
    folded.undo()
    assert index.contents() == before
    assert index.ids == index.open_claims == 0
    fold(index, again, 11, 10, at_once=True).settle()
    index.sweep(1_000_000)
    assert not index.store.rows.used[named].any(), "nothing names them, and nothing is taken back any more"


def test_held_ids_are_reported_and_takeover_candidates_are_left_alone_with_no_effect() -> None:
    rng, index = random.Random(SEED), ClaimIndex()
    first, second, third, fourth = claims_of(rng, 4, 1)
    fold(index, [first], 1, 0, at_once=True).settle()
    assert is_repeat(index.store, first.token, first.call, 0)
    assert not is_repeat(index.store, first.token, first.call + 1, 0)
    mixed = replace(second, fresh=first.fresh + second.fresh + second.fresh)
    late = first.lease_ms
    told = claim_many(index.store, 2, [mixed, replace(third, fresh=second.fresh), fourth], late - 1)
    held, fresh = len(first.fresh) // 16, len(second.fresh) // 16
    said = [Verdict(int(byte) & 15).name for byte in told.answers.verdicts]
    assert said[: held + 3 * fresh] == ["BUSY"] * held + ["GRANTED"] * fresh + ["SAME"] * fresh + ["BUSY"] * fresh
    assert [entry.fresh for entry in told.entries] == [second.fresh, fourth.fresh]
    assert index.open_claims == 3
    told.undo()
    before = whole_content(index)
    told = claim_many(index.store, 2, [mixed, fourth], late)
    assert told.rests_on[0] == LEFT
    assert [entry.claim for entry in told.entries] == [fourth.claim]
    told.undo()
    assert whole_content(index)[1:] == before[1:], "except for rows that another claim uses now"
