"""Old ids move from memory to archives and runs, and every use case answers as before."""

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import IdState
from oncegate.core.entries.kinds import Evicted
from oncegate.core.errors import OffsetTrimmed, Recovering
from oncegate.core.verdicts import Verdict
from oncegate.engine.commit.room import PROBE_MS
from oncegate.engine.maintenance.archive_log import TOPIC
from oncegate.engine.maintenance.eviction import EVICT_AGAIN_MS
from oncegate.engine.recovery.owner import REOPEN_MS
from oncegate.engine.requests import SettingsRequest
from oncegate.index.claims.decide import decide
from oncegate.index.claims.evict import drop
from oncegate.index.claims.store import ClaimStore
from oncegate.index.lsm.bloom import KINDS
from oncegate.index.lsm.tier import RUNS_MAX
from tests.support.memory_gateway import GatedLedgers, id16, run_ready_tasks, verdicts_of, wait_until
from tests.support.sealed import (
    FORGOTTEN_MS,
    HOT,
    HOUR_MS,
    answers_as_before,
    counters,
    done,
    eviction,
    files,
    filled,
    names,
    pass_hours,
    produce,
    runs_of,
    seal,
    settled,
    state,
    take,
    without_room,
)

HOURS = 13


async def test_the_oldest_ids_leave_memory_once_there_are_more_than_may_stay() -> None:
    async with eviction() as served:
        await done(served, *names(0, 6))
        served.clock.advance(1_000)
        await done(served, *names(6, 12), token=2)
        await seal(served)
        assert counters(served) == (12, 6, 6)
        assert [type(entry) for group in served.disk.appends for entry in group].count(Evicted) >= 2
        assert len(served.shard.journal.index.claims.cold.runs) == 1
        assert verdicts_of(await served.claim(*names(0, 13), token=3)) == ["DUPLICATE"] * 12 + ["GRANTED"]


async def test_sealed_ids_are_answered_as_before_by_every_verb() -> None:
    async with eviction() as served:
        await done(served, *names(0, HOT))
        await take(served, 7, "taken 1", "taken 2")
        await produce(served, "produced")
        before = [await state(served, name) for name in ("id 0", "taken 1", "produced", "new")]
        for _ in range(3):
            await seal(served)
        assert counters(served)[1] <= HOT
        assert [await state(served, name) for name in ("id 0", "taken 1", "produced", "new")] == before
        assert before == [IdState.DONE, IdState.TAKEN, IdState.DONE, IdState.ABSENT]
        asked = ("id 0", "id 7", "taken 1", "produced")
        assert verdicts_of(await served.claim(*asked, token=3)) == ["DUPLICATE"] * 4
        assert await produce(served, *asked, token=4) == ["DUPLICATE"] * 4
        assert await take(served, 7, *asked) == ["DUPLICATE", "DUPLICATE", "GRANTED", "DUPLICATE"]
        assert await take(served, 8, *asked) == ["DUPLICATE"] * 4


@pytest.mark.parametrize("kind", ["blocked", "pybloom"])
async def test_a_restart_drops_what_was_sealed_and_answers_alike(kind: str) -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers, cold_filter=kind) as served:
        await done(served, *names(0, 20))
        await take(served, 7, *names(20, 30))
        await seal(served)
        before = counters(served)
        assert before[2] > 0
    async with eviction(ledgers, cold_filter=kind) as served:
        assert {type(run.filter) for run in served.shard.journal.index.claims.cold.runs} == {KINDS[kind]}
        assert counters(served) == before
        assert verdicts_of(await served.claim(*names(0, 31), token=3)) == ["DUPLICATE"] * 30 + ["GRANTED"]
        assert await take(served, 7, "id 25", "id 3") == ["GRANTED", "DUPLICATE"]


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_a_full_ledger_ends_a_round_where_it_is_and_the_next_one_continues(refused: int) -> None:
    async with eviction() as served:
        await done(served, *names(0, 20))
        await take(served, 7, "taken")
        served.disk.faults = [""] * refused + ["full"]
        await seal(served)
        assert "eviction_failed" in served.events.names()
        sealed = counters(served)[2]
        assert (sealed > 0) == (refused > 0), "ids that were durable before are sealed"
        served.clock.advance(PROBE_MS)
        await run_ready_tasks()
        await answers_as_before(served)
        await seal(served)
        assert counters(served)[2] > sealed
        await answers_as_before(served)


async def test_a_crash_between_archive_and_run_loses_nothing_and_retires_nothing() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(24 * HOUR_MS), served.deadline())
        with without_room(served):
            await filled(served)
        assert served.shard.eviction.busy
        assert (counters(served)[2], runs_of(served)) == (0, [])
        await answers_as_before(served)
        before = len(served.disk.appends)
        served.clock.advance(2 * HOUR_MS)
        served.shard.scheduler.retire()
        await run_ready_tasks()
        assert len(served.disk.appends) == before, "a bucket is over, and it waits"
    async with eviction(ledgers) as served:
        assert counters(served)[2] > 0, "made up for at the start"
        await answers_as_before(served)


async def test_a_run_without_room_is_made_later_and_only_then_the_table_drops_the_ids() -> None:
    async with eviction() as served:
        with without_room(served):
            await filled(served)
        assert counters(served)[2] == 0
        served.shard.eviction.step()
        assert (await settled(served), runs_of(served)) == (None, []), "not at once"
        served.clock.advance(EVICT_AGAIN_MS)
        served.shard.eviction.step()
        await settled(served)
        assert counters(served)[2] > 0
        assert not served.shard.eviction.busy
        await answers_as_before(served)


async def test_a_run_whose_filter_found_no_room_is_no_file_that_is_left() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        with without_room(served, ".filter"):
            await filled(served)
            assert (counters(served)[2], list(files(ledgers))) == (0, [])
        served.clock.advance(EVICT_AGAIN_MS)
        served.shard.eviction.step()
        await settled(served)
        assert counters(served)[2] > 0
        assert len(files(ledgers)) == 2 * len(runs_of(served))
        await answers_as_before(served)


@pytest.mark.parametrize("what", ["run gone", "run damaged", "run cut", "filter gone", "filter damaged", "all gone"])
async def test_missing_or_damaged_runs_are_rebuilt_at_a_start(what: str) -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        await filled(served)
        before = counters(served)
    held = files(ledgers)
    for name in [name for name in held if what.startswith(("all", name.rpartition(".")[2]))]:
        if what.endswith("gone"):
            del held[name]
        elif what.endswith("cut"):
            held[name] = held[name][:-1]
        else:
            held[name] = held[name][:10] + b"\xff\xff" + held[name][12:]
    async with eviction(ledgers) as served:
        assert counters(served) == before
        cold = served.shard.journal.index.claims.cold
        assert all(run.filter is not None and run.filter.sound for run in cold.runs)
        await answers_as_before(served)
        assert {name.rpartition(".")[0] for name in held} == {run.name.rpartition(".")[0] for run in cold.runs}


async def test_a_filter_of_another_run_is_not_believed() -> None:
    """Names are reused after everything was lost; a leftover filter would hide ids."""
    others, ledgers = GatedLedgers(), GatedLedgers()
    async with eviction(others) as served:
        await filled(served)
    async with eviction(ledgers) as served:
        await filled(served)
    assert files(others).keys() == files(ledgers).keys()
    files(ledgers).update({name: data for name, data in files(others).items() if name.endswith(".filter")})
    async with eviction(ledgers) as served:
        await answers_as_before(served)


async def test_runs_of_another_ledger_are_not_looked_into() -> None:
    """Although their archives have the same numbers."""
    others, ledgers = GatedLedgers(), GatedLedgers()
    async with eviction(others) as served:
        await done(served, *names(500, 520))
        await take(served, 7, "taken of others")
        await seal(served)
    async with eviction(ledgers) as served:
        await filled(served)
    files(ledgers).clear()
    files(ledgers).update(files(others))
    async with eviction(ledgers) as served:
        await answers_as_before(served)
        assert verdicts_of(await served.claim("id 500", token=8)) == ["GRANTED"]


async def test_a_run_damaged_while_it_serves_is_never_answered_from_and_made_again() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        await filled(served)
    name = next(name for name in files(ledgers) if name.endswith(".run"))
    data = bytearray(files(ledgers)[name])
    data[4096 + 100] ^= 1  # in a block, which is read only when it is first needed
    files(ledgers)[name] = bytes(data)
    async with eviction(ledgers) as served:
        with pytest.raises(Recovering, match="made again"):
            await served.claim(*names(0, 20), token=8)
        await settled(served)
        assert name not in runs_of(served)
        await answers_as_before(served)


async def test_there_are_four_runs_at_most_and_no_other_files() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        for part in range(12):
            await done(served, *names(10 * part, 10 * part + 10), token=part + 20)
            await seal(served)
            assert len(runs_of(served)) <= RUNS_MAX
            assert {name.rpartition(".")[0] for name in files(ledgers)} == {
                name.rpartition(".")[0] for name in runs_of(served)
            }
        assert counters(served)[0] == 120
        assert counters(served)[1] <= HOT + 10
        assert verdicts_of(await served.claim(*names(0, 120), token=9)) == ["DUPLICATE"] * 120


async def test_archives_retire_with_their_time_and_leave_ledger_and_runs() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers, horizon_ms_min=1) as served:
        await served.namespace.settings.configure(SettingsRequest(24 * HOUR_MS), served.deadline())
        await filled(served)
        await pass_hours(served, 30)
        assert counters(served)[2] == 0
        assert verdicts_of(await served.claim("id 0", "id 19", token=9)) == ["GRANTED"] * 2
        served.shard.eviction.step()
        await settled(served)
        assert (runs_of(served), files(ledgers)) == ([], {})
        assert served.shard.journal.index.claims.archives.by_number == {}
        with pytest.raises(OffsetTrimmed):
            await served.shard.eviction.outputs.fetch(TOPIC, 0, 0, 1, 1)
    async with eviction(ledgers) as served:
        assert verdicts_of(await served.claim("id 1", token=10)) == ["GRANTED"]


async def test_sealing_forgets_nothing_early_and_keeps_nothing_longer() -> None:
    """Ids completed an hour apart and sealed two at a time are each forgotten with their bucket."""
    async with eviction() as served:
        await served.namespace.settings.configure(SettingsRequest(24 * HOUR_MS), served.deadline())
        await pass_hours(served, 2)
        for hour in range(HOURS):
            await done(served, f"hour {hour}", token=50 + hour)
            await pass_hours(served, 1)
        await seal(served)
        cold = served.shard.journal.index.claims.archives.by_number.values()
        assert (len(cold), {archive.ids for archive in cold}) == (6, {1})
        known = []
        for _ in range(36):
            known.append([await state(served, f"hour {hour}") is IdState.DONE for hour in range(HOURS)])
            await pass_hours(served, 1)
        forgotten = [next(at for at, now in enumerate(known) if not now[hour]) for hour in range(HOURS)]
        assert np.diff(forgotten).tolist() == [1] * (HOURS - 1)


async def test_a_collected_ledger_holds_the_hot_ids_and_the_names_of_archives() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers, collect_bytes=1) as served:
        await filled(served, 40)
        await seal(served)
        before = counters(served)
        served.shard.scheduler.compact()
        await wait_until(lambda: not served.shard.snapshotter.compacting)
        assert "compaction" in served.events.names(), "though nothing retired"
    slots = sum(len(entry.body) for entry in ledgers._stores["default"].entries if b"slots" in entry.body[:40])
    assert slots <= 16 * before[1] + 100
    async with eviction(ledgers) as served:
        assert counters(served) == before
        await answers_as_before(served, 40)


async def test_what_cannot_leave_memory_stays() -> None:
    """Open claims, and claims that can still be named."""
    async with eviction() as served:
        await served.claim(*names(0, 20), token=1, lease_ms=900_000)
        await seal(served)
        assert counters(served) == (20, 20, 0)
        await done(served, *names(20, 40), token=2)
        served.shard.eviction.step()
        await settled(served)
        assert counters(served) == (40, 40, 0), "its claim can be named for two leases yet"


async def test_the_live_rate_of_false_positives_is_counted() -> None:
    async with eviction() as served:
        await filled(served)
        served.shard.journal.index.claims.cold.runs[0].filter = None
        await served.claim(*names(1_000, 1_100), token=4)
        counts = served.shard.counters()
        assert (counts["cold_asked"], counts["cold_looked_up"], counts["cold_in_vain"]) == (100, 100, 100)
        assert counts["cold_fpr_ppm"] == 1_000_000


async def test_an_id_that_one_run_holds_counts_as_none_that_others_were_asked_for_in_vain() -> None:
    async with eviction() as served:
        await filled(served)
        await done(served, *names(20, 40), token=5)
        await seal(served)
        runs = served.shard.journal.index.claims.cold.runs
        for run in runs:
            run.filter = None
        before = served.shard.counters()  # a filter may have had a false positive
        await served.claim(*names(0, 10), token=4)
        counts = served.shard.counters()
        assert len(runs) > 1
        assert counts["cold_looked_up"] - before["cold_looked_up"] == 10 * len(runs)
        assert [counts[name] - before[name] for name in ("cold_in_vain", "cold_fpr_ppm")] == [0, 0]
        await served.claim(*names(1_000, 1_010), token=4, call=2)
        assert served.shard.counters()["cold_in_vain"] - counts["cold_in_vain"] == 10 * len(runs)


async def test_closing_in_the_middle_of_a_merge_ends_it() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers, merge_bytes_per_second=1) as served:
        await done(served, *names(0, 20))
        served.clock.advance(FORGOTTEN_MS)
        served.shard.eviction.step()
        await wait_until(lambda: served.clock.sleepers > 1)
        await run_ready_tasks()
    assert files(ledgers) == {}
    async with eviction(ledgers) as served:
        assert verdicts_of(await served.claim(*names(0, 20), token=3)) == ["DUPLICATE"] * 20


async def test_at_each_step_of_their_way_out_ids_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async with eviction() as served:
        await done(served, *names(0, 20))
        index, asked = served.shard.journal.index.claims, []
        prints = served.namespace.fingerprints().of_array(pa.array(names(0, 20)))

        def dropped(store: ClaimStore, ids: np.ndarray) -> int:
            count = drop(store, ids)
            asked.append(set(decide(index, id16(77), 1, bytes(16), prints, 0).verdicts.tolist()))
            return count

        monkeypatch.setattr("oncegate.engine.maintenance.eviction.drop", dropped)
        await seal(served)
        assert len(asked) > 1
        assert all(verdicts == {Verdict.DUPLICATE} for verdicts in asked)


async def test_ids_that_have_not_retired_can_be_rebuilt_from_the_ledger() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(24 * HOUR_MS), served.deadline())
        await filled(served)
        await pass_hours(served, 12)
        await done(served, *names(20, 40), token=5)
        await seal(served)
        await pass_hours(served, 14)
        assert verdicts_of(await served.claim("id 0", "id 20", token=6)) == ["GRANTED", "DUPLICATE"]
    files(ledgers).clear()
    async with eviction(ledgers) as served:
        assert runs_of(served) != []
        assert verdicts_of(await served.claim(*names(20, 40), token=7)) == ["DUPLICATE"] * 20


@pytest.mark.parametrize("end", ["lost", "kept"])
async def test_an_append_of_unknown_outcome_in_a_round_reopens_the_ledger_and_nothing_is_lost(end: str) -> None:
    async with eviction() as served:
        await done(served, *names(0, 20))
        await take(served, 7, "taken")
        served.disk.faults = ["", end]
        await seal(served)
        while served.gateway.readiness()["default"] != "SERVING":
            served.clock.advance(REOPEN_MS)
            await run_ready_tasks()
        assert served.disk.opened == 2
        assert counters(served)[2] > 0, "durable ids are sealed"
        await answers_as_before(served)
        await seal(served)
        await answers_as_before(served)
