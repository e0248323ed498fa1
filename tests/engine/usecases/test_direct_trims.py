"""Records of lanes are trimmed only after proof that their entries are durable and that this gateway owns the
ledger."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import LedgerFenced
from oncegate.engine.usecases.direct import entering
from tests.support.direct_records import DirectLanes, direct_lanes
from tests.support.memory_gateway import run_ready_tasks


@pytest.fixture
async def lane() -> AsyncIterator[DirectLanes]:
    async with direct_lanes() as found:
        yield found


async def test_records_are_trimmed_behind_an_append_that_began_once_they_were_entered(
    lane: DirectLanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entering, "TRIM_RECORDS", 2)
    lane.records.commit(1, (1, 1))
    await lane.ask(1, 1)
    assert lane.records.trims == []
    lane.records.commit(1, (2, 2))
    lane.disk.appends.clear()
    await lane.ask(2, 2)
    await run_ready_tasks()
    assert lane.records.trims == [{1: 2}]
    assert lane.disk.kinds() == [["LaneWritten"], ["Probe"]]
    lane.records.commit(1, (3, 3))
    assert await lane.ask(1, 9) == [[1, 3]]


async def test_records_that_are_entered_while_a_trim_waits_for_its_proof_are_kept(
    lane: DirectLanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their entry is queued after the proof: if the gateway dies now, they are only in the topic."""
    monkeypatch.setattr(entering, "TRIM_RECORDS", 2)
    lane.records.commit(1, (1, 2))
    await lane.ask(1, 1)
    lane.records.commit(1, (3, 4))
    lane.disk.gate.clear()
    pending = await lane.served.begin(lane.ask(3, 4))
    lane.records.commit(1, (5, 6))
    later = await lane.served.begin(lane.ask(5, 6))
    lane.disk.gate.set()
    await pending
    await later
    await run_ready_tasks()
    assert lane.records.trims == [{1: 2}]


@pytest.mark.parametrize("fault", [["fenced"], ["", "fenced"]])
async def test_an_owner_that_was_followed_trims_nothing(
    lane: DirectLanes, monkeypatch: pytest.MonkeyPatch, fault: list[str]
) -> None:
    monkeypatch.setattr(entering, "TRIM_RECORDS", 1)
    lane.records.commit(1, (1, 1))
    lane.disk.faults = list(fault)
    pending = await lane.served.begin(lane.ask(1, 1))
    await run_ready_tasks()
    assert lane.records.trims == []
    assert pending.done()
    if fault == ["fenced"]:
        with pytest.raises(LedgerFenced):
            await pending
    else:
        assert await pending == [[1, 1]], "the entry counts under any owner of the ledger"
