"""Small completed claims share a row: fewer rows, the same answers, nothing forgotten early."""

import os
import random
from dataclasses import replace

import pytest

from oncegate.core.claims import IdState
from oncegate.core.entries.producers import Acked, Scoped
from oncegate.core.verdicts import Flag
from oncegate.index.claims import row_sharing
from oncegate.index.claims.evict import gather, pick, unpin
from oncegate.index.claims.row_sharing import BUCKET_BITS
from oncegate.index.claims.snapshot import restore, snapshot
from oncegate.index.table.rows import DONE
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import fingerprints, name
from tests.support.index.row_sharing import BUCKET_MS, EAGER, LATER_MS, NEVER, go_round, many
from tests.support.index.twins import Twins
from tests.support.index.verbs import VerbDriver, digest_of
from tests.support.index.walks import IDS, TOKENS, Walk

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])


class Pair(Twins):
    """The first pools, the second does not; both retire alike if a whole bucket retires."""

    @property
    def oldest_wall_ms(self) -> int | None:
        pooled, plain = self.eviction.oldest_wall_ms, self.plain.oldest_wall_ms
        if plain is None or pooled is None:
            assert plain is pooled is None
            return None
        last_ms = plain | (1 << row_sharing.BUCKET_BITS) - 1
        assert plain <= pooled <= last_ms
        return last_ms


class SharedRows(Walk):
    """A walk of both with faster time, so that claims stay completed for long."""

    def __init__(self, rng: random.Random, compiled: bool) -> None:
        super().__init__(EAGER, rng, compiled)
        self.index = Pair(ClaimIndex(EAGER, compiled), ClaimIndex(NEVER, compiled))

    def step(self) -> None:
        super().step()
        self.now_ms += 2 * BUCKET_MS * (self.rng.random() < 0.1)
        for _ in range(self.rng.randrange(30)):
            self.index.eviction.make_room(1, self.now_ms)

    def _retires(self) -> object:
        oldest_ms = self.index.oldest_wall_ms
        if oldest_ms is None or self.rng.random() < 0.8:
            return None
        return self.retire(oldest_ms + 1, settled=False)

    def check(self) -> None:
        for token, call, ids in [*self.calls, *((token, 99_999, list(IDS)) for token in (*TOKENS, "x"))]:
            for verb in ("claim", "produce"):
                self.index.decide(name(token), call, digest_of(ids), fingerprints(IDS), self.now_ms, verb)
        for token in (*TOKENS, "x"):
            self.index.decide_take(name(token), fingerprints(IDS), self.now_ms)
        for claim in self.claims:
            self.index.view(claim, self.now_ms)
        for print_ in fingerprints(IDS):
            self.index.explain(print_.tobytes(), self.now_ms)
        pooled, plain = self.index.eviction, self.index.plain
        assert {id_: held[0] for id_, held in pooled.contents().items()} == {
            id_: held[0] for id_, held in plain.contents().items()
        }
        for counter in ("ids", "open_claims", "takeovers"):
            assert getattr(pooled, counter) == getattr(plain, counter)


@both_kernels
def test_an_index_that_pools_answers_like_one_that_does_not(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """Leases, repeats, takeovers, retirements by bucket, refusals; both also continue alike after a snapshot."""
    monkeypatch.setattr(row_sharing, "SLOTS_AT_ONCE", 5)
    for module in (row_sharing,):
        monkeypatch.setattr(module, "BUCKET_BITS", BUCKET_BITS + 2)
    print(f"ONCEGATE_SEED={SEED}")
    rounds = most = 0
    for seed in range(SEED, SEED + (16 if compiled else 2)):
        walk = SharedRows(random.Random(seed), compiled)
        for step in range(160):
            walk.step()
            if step % 4 == 0:
                walk.check()
        rounds += walk.index.eviction.store.sharing.rounds
        most = max(most, most_shared(walk.index.eviction))
        walk.all_durable()
        # Expired claims that are not dropped yet would be remembered again, so both drop them.
        walk.index.sweep(walk.now_ms)
        copies = [ClaimIndex(EAGER, compiled), ClaimIndex(NEVER, compiled)]
        for copy, index in zip(copies, (walk.index.eviction, walk.index.plain), strict=True):
            restore(copy.store, dict(snapshot(index.store)))
            copy.reset_leases(walk.now_ms)
        walk.index = Pair(*copies)
        for _ in range(20):
            walk.step()
            walk.check()
    assert rounds > (10 if compiled else 0)
    if compiled:
        assert most >= 3


def most_shared(index: ClaimIndex) -> int:
    """Returns the maximal number of ids in a shared row."""
    rows = index.store.rows
    shared = rows.column("used") & (rows.column("state") == DONE) & ~rows.column("claim").any(axis=1)
    return int(rows.column("named")[shared].max(initial=0))


@both_kernels
def test_single_ids_that_were_done_long_ago_take_no_row_each(compiled: bool) -> None:
    driver = VerbDriver(replace(EAGER, capacity=1024), compiled)
    many(driver, 300)
    assert driver.index.store.rows.in_use > 300
    go_round(driver)
    assert driver.index.store.rows.in_use <= 4
    assert driver.index.ids == 301
    assert set(driver.claim("c", 1, range(300)).words) == {"DUPLICATE"}


def test_two_ids_that_were_done_together_share_a_row() -> None:
    driver = VerbDriver(replace(EAGER, capacity=1024))
    many(driver, 2)
    before = driver.index.store.rows.in_use
    go_round(driver)
    assert driver.index.store.rows.in_use == before - 1
    assert set(driver.claim("c", 1, range(2)).words) == {"DUPLICATE"}


def test_a_list_of_what_was_done_when_shrinks_with_the_rows() -> None:
    driver = VerbDriver(EAGER)
    many(driver, 100)
    go_round(driver)
    assert sum(len(listed) for listed in driver.index.store.expiry.listed()) <= 4


def test_large_claims_keep_their_rows_and_are_not_looked_at_again_and_again() -> None:
    driver = VerbDriver(replace(EAGER, capacity=1024))
    many(driver, 5, ids=row_sharing.IDS_MOST + 1)
    go_round(driver)
    assert driver.index.store.rows.in_use == 6
    many(driver, 0)
    go_round(driver)
    assert not driver.index.store.expiry.unclean(driver.index.wall_ms >> BUCKET_BITS)


def test_ids_that_a_shared_row_cannot_describe_keep_their_own() -> None:
    """The position of rows, the owner of ids, digests of payloads, the batch of an ack."""
    driver = VerbDriver(EAGER)
    for call in range(6):
        driver.does("produce", "p", call, [call])
        driver.does("take", f"owner {call}", 0, [100 + call])
    claims = [driver.claim("s", call, [200 + call]).claim for call in range(6)]
    for claim in claims:
        assert claim is not None
        driver.apply(Scoped(claim, "driver", 7))
        driver.complete(claim)
    many(driver, 0)
    go_round(driver)
    explained = [driver.index.explain(fp.tobytes(), driver.now_ms) for fp in fingerprints(range(6))]
    assert [(found.state, found.written_at) for found in explained] == [(IdState.DONE, ("t", 1, 9))] * 6
    owned = [driver.index.explain(fp.tobytes(), driver.now_ms).owner for fp in fingerprints(range(100, 106))]
    assert owned == [name(f"owner {call}") for call in range(6)]
    driver.apply(Acked("driver", 1, 8, b"", 9_000 + driver.now_ms))
    assert set(driver.asks("claim", "x", 1, range(200, 206)).verdicts.tolist()) == {1}, "forgotten with their batch"


def test_nothing_is_forgotten_before_its_time() -> None:
    """Retirement within a bucket: an id completed after `before` stays known, whatever row it shares."""
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 20):
        rng, driver, done_ms = random.Random(seed), VerbDriver(EAGER), {}
        for id_ in range(40):
            driver.now_ms += rng.randrange(BUCKET_MS // 10)
            driver.complete(driver.claim("a", id_, [id_]).claim)
            done_ms[id_] = 8_000 + driver.now_ms
        many(driver, 0)
        go_round(driver)
        before_ms = rng.choice(list(done_ms.values()))
        driver.retire(before_ms)
        states = [driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints(done_ms)]
        for state, (id_, at_ms) in zip(states, done_ms.items(), strict=True):
            if at_ms >= before_ms:
                assert state is IdState.DONE, f"seed {seed}: id {id_}"
            if at_ms >> BUCKET_BITS < before_ms >> BUCKET_BITS:
                assert state is IdState.ABSENT, f"seed {seed}: id {id_}"


def test_a_claim_that_can_still_be_named_is_not_pooled() -> None:
    driver = VerbDriver(EAGER)
    for call in range(20):
        driver.claim("a", call, [call])
    claims = [driver.claim("b", call, [50 + call], lease_ms=10 * LATER_MS).claim for call in range(5)]
    for claim in claims:
        driver.complete(claim)
    many(driver, 0)
    go_round(driver)
    for call, claim in enumerate(claims):
        assert claim is not None
        assert driver.index.view(claim, driver.now_ms).named == 1
        verdict = driver.asks("claim", "b", call, [50 + call]).verdicts[0]
        assert verdict & Flag.OWN


def test_a_pooled_id_has_only_its_completion_and_time() -> None:
    driver = VerbDriver(EAGER)
    many(driver, 10)
    before = driver.index.explain(fingerprints([3])[0].tobytes(), driver.now_ms)
    go_round(driver)
    after = driver.index.explain(fingerprints([3])[0].tobytes(), driver.now_ms)
    assert (after.state, after.claim, after.token) == (IdState.DONE, None, None)
    assert before.claim is not None
    assert 0 <= after.wall_ms - before.wall_ms < BUCKET_MS


def test_a_row_that_is_leaving_memory_accepts_no_more_ids() -> None:
    """The row was counted, and will retire, with the content that it had when it was picked."""
    driver = VerbDriver(EAGER)
    store, bound_ms = driver.index.store, 9_500
    driver.now_ms = 1_000
    for call in range(10):
        driver.complete(driver.claim("early", call, [call]).claim)
    driver.now_ms += 1_000
    late = [driver.claim("late", call, [100 + call], lease_ms=3 * LATER_MS).claim for call in range(10)]
    for claim in late:
        driver.complete(claim)
    many(driver, 0)
    go_round(driver)
    picked = pick(store, 10, [bound_ms])
    assert picked is not None
    assert picked.ids == 10
    segments = range(len(store.table.slots.base))
    gathered = [gather(store, picked, segment) for segment in segments[:1]]
    driver.now_ms += 7 * LATER_MS
    many(driver, 0)
    go_round(driver)
    assert store.rows.in_use < 10, "the others share a row now"
    gathered += [gather(store, picked, segment) for segment in segments[1:]]
    assert sum(len(part.ids) for part in gathered) == picked.ids
    assert max(int(part.wall_ms.max(initial=0)) for part in gathered) < bound_ms
    unpin(store, picked)


def test_a_shared_row_that_retires_during_a_round_takes_no_id_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes several steps; between two of them the oldest ids of a bucket may retire, with their shared row."""
    monkeypatch.setattr(row_sharing, "SLOTS_AT_ONCE", 4)
    driver, done_ms = VerbDriver(replace(EAGER, capacity=64)), {}
    driver.now_ms = 1_000
    for id_ in range(40):
        driver.now_ms += 100
        driver.complete(driver.claim("a", id_, [id_]).claim)
        done_ms[id_] = 8_000 + driver.now_ms
    many(driver, 0)
    driver.index.sweep(driver.now_ms)
    driver.index.make_room(1, driver.now_ms)  # the round begins with a row completed since its bucket began
    before_ms = done_ms[2] + 1
    assert {wall_ms >> BUCKET_BITS for wall_ms in done_ms.values()} == {before_ms >> BUCKET_BITS}
    driver.retire(before_ms)
    go_round(driver)
    states = [driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints(done_ms)]
    wanted = [IdState.DONE if wall_ms >= before_ms else IdState.ABSENT for wall_ms in done_ms.values()]
    assert states == wanted
