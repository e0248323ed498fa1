"""Ids that left the table are answered as before: sealing, merging and restarting change no answer."""

import os
import random

import pytest

from oncegate.core.claims import IdState
from oncegate.core.entries.kinds import Entry, Evicted, Produced, Taken
from oncegate.core.entries.producers import Acked, Scoped
from oncegate.core.errors import Recovering
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.claims.evict import gather, numbered, parts_of, pick, unpin
from oncegate.index.lsm.bloom import make
from oncegate.index.lsm.run import BLOCK_BYTES, Run, encode
from oncegate.index.lsm.tier import RUNS_MAX, fpr_of
from tests.support.index.driver import LEASE_MS, fingerprints, name
from tests.support.index.twins import Store, TwinWalk
from tests.support.index.verbs import VerbDriver

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_no_answer_reveals_whether_old_ids_were_sealed(compiled: bool) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    sealed = merges = 0
    for seed in range(SEED, SEED + (12 if compiled else 2)):
        walk = TwinWalk(random.Random(seed), compiled)
        events = (walk.seal, walk.seal, walk.seal_all, walk.merge, walk.restart, walk.load)
        for _ in range(150):
            walk.step()
            if walk.rng.random() < 0.6:
                walk.rng.choices(events, (8, 8, 2, 2, 1, 1))[0]()
            walk.look()
        sealed, merges = sealed + walk.sealed_ids, merges + walk.merges
    assert sealed > 20, "or nothing is shown"
    assert merges > 2


def sealed_driver(*entries: Entry) -> VerbDriver:
    """Returns an index that applied these entries at least two leases ago, and then sealed everything possible."""
    driver = VerbDriver()
    for entry in entries:
        driver.apply(entry)
    seal_all(driver)
    return driver


def seal_all(driver: VerbDriver) -> int:
    """Seals ids. Returns the number that left the table."""
    index, store = driver.index, Store()
    driver.now_ms += 100 * LEASE_MS
    index.sweep(driver.now_ms)
    picked = pick(index.store, 1_000, [])
    if picked is None:
        return 0
    gathered = [gather(index.store, picked, segment) for segment in range(len(index.store.table.slots.base))]
    first = index.archives.next_number
    parts = parts_of(picked, gathered)
    for number, (_, records) in enumerate(parts, first):
        store.records[number] = numbered(records, number)
    driver.apply(Evicted(index.archives.high_offset, tuple(archived for archived, _ in parts), 1))
    index.cold.replace([], [store.run_of(range(first, index.archives.next_number))])
    dropped = sum(index.drop_evicted(number, records) for number, records in store.records.items())
    unpin(index.store, picked)
    return dropped


def prints(*ids: int) -> bytes:
    return fingerprints(ids).tobytes()


def produced(*ids: int, digests: bytes = b"", wall_ms: int = 5_000) -> Produced:
    claim = name(f"c{ids}")
    return Produced("t", 0, 0, len(ids), 0, claim, name("a"), ids[0], name("d"), wall_ms, prints(*ids), b"", digests)


def test_ids_with_more_than_their_completion_to_answer_stay_in_the_table() -> None:
    """Open claims, claims that can be named, payload digests, ids that an ack drops."""
    driver = VerbDriver()
    driver.claim("open", 1, [1])
    driver.apply(produced(2, 3, digests=bytes(range(8))))
    scoped = driver.claim("scoped", 1, [4]).claim
    assert scoped is not None
    driver.apply(Scoped(scoped, "driver", 7))
    driver.complete(scoped)
    driver.complete(driver.claim("plain", 1, [5]).claim)
    assert seal_all(driver) == 1
    states = [driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints(range(1, 6))]
    assert states == [IdState.CLAIMED_OVER, *[IdState.DONE] * 4]
    driver.apply(Acked("driver", 1, 8, b"", 9_000))
    assert driver.asks("claim", "x", 1, [4, 5]).verdicts.tolist() == [Verdict.GRANTED, Verdict.DUPLICATE]
    driver.complete(driver.claim("named", 1, [6]).claim)
    assert pick(driver.index.store, 1, []) is None
    assert driver.asks("claim", "named", 2, [6]).verdicts.tolist() == [Verdict.DUPLICATE | Flag.OWN]


def test_an_owner_is_granted_again_what_it_took_with_the_takeover_that_it_was() -> None:
    driver = sealed_driver(Taken(name("o"), 6_000, prints(1), prints(2)))
    assert (driver.index.ids, driver.index.archives.ids) == (0, 2)
    decision = driver.asks("take", "o", 0, [1, 2, 3])
    assert decision.verdicts.tolist() == [Verdict.GRANTED, Verdict.GRANTED | Flag.TAKEOVER, Verdict.GRANTED]
    assert driver.asks("take", "x", 0, [1, 2]).verdicts.tolist() == [Verdict.DUPLICATE] * 2
    explained = driver.index.explain(prints(2), driver.now_ms)
    assert (explained.state, explained.owner, explained.takeover) == (IdState.TAKEN, name("o"), True)


def test_a_refused_retirement_of_an_archive_is_taken_back() -> None:
    driver = sealed_driver(produced(1, 2))
    undo = driver.retire(5_001, settled=False)
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.GRANTED]
    driver.undo(undo)
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.DUPLICATE]
    driver.retire(5_000)
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.DUPLICATE]
    driver.retire(5_001)
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.GRANTED]
    assert not driver.index.archives.by_number


def test_an_archive_goes_with_the_newest_of_its_ids() -> None:
    driver = sealed_driver(produced(1), produced(2, wall_ms=7_000))
    assert len(driver.index.archives.by_number) == 1
    driver.retire(6_000)
    assert driver.asks("claim", "x", 1, [1, 2]).verdicts.tolist() == [Verdict.DUPLICATE] * 2
    driver.retire(7_001)
    assert driver.asks("claim", "x", 1, [1, 2]).verdicts.tolist() == [Verdict.GRANTED] * 2


def test_a_filter_that_is_not_sound_is_passed_over() -> None:
    driver = sealed_driver(produced(1, 2))
    (run,) = driver.index.cold.runs
    run.filter = make("blocked", 1, 0.01)
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.GRANTED], "it is believed while it is sound"
    run.filter.add(fingerprints([7, 8, 9]))
    assert not run.filter.sound
    assert driver.asks("claim", "x", 1, [1]).verdicts.tolist() == [Verdict.DUPLICATE]


def test_a_damaged_run_is_never_answered_from() -> None:
    driver = sealed_driver(produced(1, 2))
    (run,) = driver.index.cold.runs
    data = bytearray(b"".join(encode([run.run.records(0, 1)], {})))
    data[BLOCK_BYTES + 3] ^= 1
    run.run, told = Run(memoryview(data)), []
    driver.index.cold.when_damaged = lambda: told.append(1)
    for _ in range(2):
        with pytest.raises(Recovering, match="nothing was written"):
            driver.asks("claim", "x", 1, [1])
        with pytest.raises(Recovering):
            driver.index.explain(prints(1), 0)
    assert (len(told), driver.index.cold.damaged()) == (4, [run])
    assert [archive.ids for archive in driver.index.cold.missing()] == [2]


def test_rates_of_filters_never_add_up_to_more_than_the_setting() -> None:
    assert sum(fpr_of(place, 0.01) for place in range(RUNS_MAX)) == pytest.approx(0.01)
    assert fpr_of(0, 0.01) == 0.005


def test_a_run_is_idle_only_once_all_its_archives_have_retired() -> None:
    """An idle run is removed: a living archive in it would be lost."""
    driver = sealed_driver(Taken(name("o"), 6_000, prints(1), b""), Taken(name("p"), 8_000, prints(2), b""))
    (run,), cold = driver.index.cold.runs, driver.index.cold
    assert len(run.archives) == 2
    for before_ms, idle in ((6_000, []), (6_001, []), (8_000, []), (8_001, [run])):
        driver.retire(before_ms)
        assert cold.idle() == idle
        cold.replace(cold.idle(), [])
        told = driver.asks("take", "x", 0, [2]).verdicts.tolist()
        assert told == [Verdict.GRANTED if idle else Verdict.DUPLICATE]
