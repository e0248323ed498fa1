"""Runs of another history are ignored, after ledger and witness were set back but the runs were not."""

import copy

import pytest

from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from tests.support.memory_gateway import GatedLedgers, Served, verdicts_of, wait_until
from tests.support.sealed import answers_as_before, done, eviction, files, filled, runs_of, seal, without_room


def set_back(ledgers: GatedLedgers, older: object) -> None:
    ledgers._stores["default"] = older  # type: ignore[assignment]


@pytest.mark.parametrize("compacted", [False, True])
async def test_ids_of_a_history_that_did_not_happen_are_new(compacted: bool) -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers, hot_ids=0) as served:
        for number in range(2):
            await done(served, f"old {number}", token=90 + number)
            await seal(served)
        older = copy.deepcopy(ledgers._stores["default"])
        for number in range(4):
            await done(served, f"lost {number}", token=2 + number)
            await seal(served)
        assert runs_of(served)
    set_back(ledgers, older)
    async with eviction(ledgers, hot_ids=0, collect_bytes=1) as served:
        for number in range(4):
            await done(served, f"other {number}", token=12 + number)
            await seal(served)
        if compacted:
            await compact(served)
        asked = ["old 0", *(f"lost {number}" for number in range(4)), "other 3"]
        assert verdicts_of(await served.claim(*asked, token=30)) == ["DUPLICATE"] + ["GRANTED"] * 4 + ["DUPLICATE"]


async def compact(served: Served) -> None:
    served.shard.scheduler.compact()
    await wait_until(lambda: not served.shard.snapshotter.compacting)


async def fill_and_compact(ledgers: GatedLedgers) -> list[str]:
    """Makes runs, compacts the ledger afterwards, and returns the names of the runs."""
    async with eviction(ledgers) as served:
        await filled(served)
        runs = runs_of(served)
        assert runs
    async with eviction(ledgers, collect_bytes=1) as served:
        await compact(served)
        assert "compaction" in served.events.names()
    return runs


async def test_runs_are_used_again_after_a_compaction_and_restarts_without_being_made_again() -> None:
    ledgers = GatedLedgers()
    runs = await fill_and_compact(ledgers)
    for _ in range(2):
        async with eviction(ledgers) as served:
            assert runs_of(served) == runs
            assert "building_runs" not in served.events.names()
            await answers_as_before(served)


@pytest.mark.parametrize("left", [b"", b"{", b'{"mark": 1}', b"[]"])
async def test_runs_whose_binding_cannot_be_read_are_made_again(left: bytes) -> None:
    ledgers = GatedLedgers()
    await fill_and_compact(ledgers)
    files(ledgers)["bound"] = left
    async with eviction(ledgers) as served:
        assert "building_runs" in served.events.names()
        await answers_as_before(served)


async def test_a_compaction_is_postponed_and_reported_if_runs_cannot_be_bound_to_its_snapshot() -> None:
    ledgers = GatedLedgers()
    async with eviction(ledgers) as served:
        await filled(served)
    async with eviction(ledgers, collect_bytes=1) as served:
        with without_room(served):
            await compact(served)
        assert served.shard.failing() == {"compaction": "no room for bound"}
        await answers_as_before(served)
        served.clock.advance(COMPACT_AGAIN_MS)
        await compact(served)
        assert served.shard.failing() == {}
