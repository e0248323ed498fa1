"""Replaying many claims at once gives the same table as one entry after the other."""

import os
import random
from collections.abc import Iterable

import numpy as np
import pytest

from oncegate.core.entries.kinds import Claimed, Completed, Entry, Probe, Produced, Released
from oncegate.index.claims.replay import replay
from oncegate.index.claims.store import Widths
from oncegate.index.table import bulk_insert
from oncegate.index.table.rows import Rows
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver, fingerprints, name
from tests.support.index.walks import Walk, answers

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
Entries = Iterable[tuple[int, Entry]]


def one_by_one(entries: Entries, widths: Widths, now_ms: int, compiled: bool = True) -> ClaimIndex:
    """Replays entries in the simplest way."""
    index = ClaimIndex(widths, compiled)
    for position, entry in entries:
        undo = index.apply(position, entry, now_ms)
        if undo is not None:
            index.settle(undo)
    index.reset_leases(now_ms)
    return index


def used_rows(rows: Rows) -> list[tuple[bytes, int, int, int, int, int]]:
    """Returns the content of the used rows, regardless of their numbers."""
    holders, used = rows.holders, np.flatnonzero(rows.column("used"))
    names = ("state", "named", "slots", "pins", "remembered")
    numbers = zip(*(getattr(holders, of)[used].tolist() for of in names), strict=True)
    return sorted((rows.claim[row].tobytes(), *of) for row, of in zip(used, numbers, strict=True))


def assert_alike(index: ClaimIndex, plain: ClaimIndex) -> None:
    """Compares two indexes to the last counter, after a sweep: dead slots depend on when a table moves."""
    assert index.contents() == plain.contents()
    for counter in ("ids", "open_claims", "takeovers", "wall_ms", "oldest_wall_ms"):
        assert getattr(index, counter) == getattr(plain, counter), counter
    index.sweep(0)
    plain.sweep(0)
    assert used_rows(index.store.rows) == used_rows(plain.store.rows)
    assert (index.store.table.used, index.store.table.dead) == (plain.store.table.used, plain.store.table.dead)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("room", [1, 3, bulk_insert.IDS_PER_SEGMENT])
def test_a_life_is_folded_as_it_would_be_one_by_one(room: int, compiled: bool) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 10):
        walk = Walk(NARROW, random.Random(seed), compiled, payloads=seed % 3 == 0)
        for _ in range(120):
            walk.step()
        walk.all_durable()
        index, plain = ClaimIndex(NARROW, compiled), one_by_one(walk.entries, NARROW, walk.now_ms, compiled)
        replay(walk.entries, index.store, walk.now_ms, room=room)
        found, expected = (answers(of, walk.calls, walk.claims, walk.now_ms) for of in (index, plain))
        assert found == expected, f"seed {seed}"
        assert_alike(index, plain)


def claims_of(ids: np.ndarray, batch: int) -> list[tuple[int, Entry]]:
    """Returns claims of `batch` ids each, all completed except the tenth and the twentieth, which are released."""
    entries: list[Entry] = []
    for call in range(len(ids) // batch):
        part = ids[call * batch : (call + 1) * batch].tobytes()
        entries.append(Claimed(name(f"claim {call}"), name("a"), call, name("?"), LEASE_MS, call, part, b""))
        settled = Released if call in (9, 19) else Completed
        entries.append(settled(name(f"claim {call}"), call))
    return list(enumerate(entries, 1))


def test_two_threads_fold_what_one_would() -> None:
    """With ids that were released and come again, and with more of one segment than there is room for."""
    print(f"ONCEGATE_SEED={SEED}")
    rng = np.random.default_rng(SEED)
    ids = rng.integers(0, 1 << 64, (200_000, 2), np.uint64)
    assert len(ids) > 2 * bulk_insert.ALONE
    ids[100_000 : 105_000 + bulk_insert.IDS_PER_SEGMENT, 0] &= np.uint64(0xFFFF_FFFF_FFFF_FF00)
    entries = claims_of(np.concatenate([ids, ids[9_000:10_000]]), 1_000)
    index = ClaimIndex()
    replay(entries, index.store, 0)
    assert index.ids == len(ids) - 1_000
    assert_alike(index, one_by_one(entries, Widths(), 0))


def test_an_id_that_two_claims_were_granted_is_the_later_ones() -> None:
    """No gateway writes such entries; the result is only consistent."""
    both = fingerprints([1, 2, 3]).tobytes()
    grants = [Claimed(name(claim), name("a"), call, name("?"), 1, 1, both, b"") for call, claim in enumerate("bc")]
    entries: list[tuple[int, Entry]] = list(enumerate([*grants, Probe(1), Completed(name("c"), 2)], 1))
    index = ClaimIndex()
    replay(entries, index.store, 0)
    assert_alike(index, one_by_one(entries, Widths(), 0))
    assert (index.ids, index.open_claims) == (3, 0)


def test_changes_of_a_topic_wait_like_claims_do() -> None:
    driver = Driver()
    ids = [fingerprints([number]).tobytes() for number in range(6)]
    for number, one in enumerate(ids):
        entry = Produced("t", 0, number, 1, 10, name(f"p{number}"), name("a"), number, name("?"), number, one, b"")
        driver.entries.append((number + 1, entry))
    index = ClaimIndex()
    replay(driver.entries, index.store, 0)
    assert index.store.topics == ["t"]
    assert_alike(index, one_by_one(driver.entries, Widths(), 0))


def test_room_is_taken_as_ids_come_so_that_a_small_ledger_clears_little_memory() -> None:
    index = ClaimIndex(Widths(segments=1))
    inserting = bulk_insert.BulkInsert(index.store.table, bulk_insert.COMPILED, 2_000)
    added, taken = 0, []
    ids = fingerprints(range(5_000))
    while added < len(ids):
        before, added = added, inserting.add(ids, 0, added)
        taken.append(added - before)
        inserting.insert()
    assert taken == [bulk_insert.IDS_PER_SEGMENT_FIRST, 1_024, 2_000, 1_912]
