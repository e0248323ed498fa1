"""A compaction that saves the index between appends: requests are answered, and the snapshot is unaffected."""

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest

from oncegate.core.claims import Verb
from oncegate.engine.maintenance.snapshotter import SNAPSHOT_RESTS
from oncegate.engine.requests import ClaimResult
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import GatedLedgers, Served, run_ready_tasks, serving, verdicts_of, wait_until

STEP_MS = 5


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(collect_bytes=1) as served:
        yield served


def let_others_run(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    """Replaces sleeps of no duration by a yield: on the fake clock they would not let other tasks run."""
    wait = served.clock.sleep_ms

    async def sleep_ms(duration_ms: int) -> None:
        await (wait(duration_ms) if duration_ms else run_ready_tasks(1))

    monkeypatch.setattr(served.clock, "sleep_ms", sleep_ms)


async def claims_meanwhile(served: Served) -> list[ClaimResult]:
    """Claims one id after the other while the index is being saved, and completes every second claim."""
    answers: list[ClaimResult] = []
    while served.shard.journal.index.claims.snapshot is not None:
        answer = await served.claim(f"meanwhile {len(answers)}", f"old {len(answers)}", token=100 + len(answers))
        answers.append(answer)
        if len(answers) % 2:
            await served.settle(Verb.COMPLETE, answer.claim)
    return answers


async def begin(served: Served) -> None:
    served.shard.scheduler.compact()
    await wait_until(lambda: served.shard.journal.index.claims.snapshot is not None)


async def test_claims_are_answered_while_the_index_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart over the compacted ledger also knows the ids from before and during the save."""
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        let_others_run(monkeypatch, served)
        claimed = await served.claim(*(f"old {n}" for n in range(50)), token=1)
        await served.settle(Verb.COMPLETE, claimed.claim)
        await served.claim("open", token=2)
        await begin(served)
        answers = await claims_meanwhile(served)
        assert len(answers) > 20
        assert verdicts_of(answers[0]) == ["GRANTED", "DUPLICATE"]
        await wait_until(lambda: not served.shard.snapshotter.compacting)
        assert "compaction" in served.events.names()
        before = contents(served.shard.journal.index.claims)
        ids = served.shard.counters()["ids"]
    async with serving(ledgers) as served:
        assert contents(served.shard.journal.index.claims) == before
        assert served.shard.counters()["ids"] == ids
        assert verdicts_of(await served.claim("meanwhile 0", "meanwhile 1", token=9)) == ["DUPLICATE", "BUSY"]


async def test_a_step_of_saving_is_followed_by_three_times_as_long_for_requests(served: Served) -> None:
    claimed = await served.claim(*(f"old {n}" for n in range(50)), token=1)
    await served.settle(Verb.COMPLETE, claimed.claim)
    snapshotter, steps = served.shard.snapshotter, []
    save = served.shard.scheduler.save

    def slow() -> Iterator[list[bytes]]:
        for step in save():
            steps.append(served.clock.monotonic_ms())
            served.clock.advance(STEP_MS)
            yield step

    snapshotter.compact(slow)
    await wait_until(lambda: len(steps) == 1)
    for n in range(5):
        await served.claim(f"meanwhile {n}", token=10 + n)
    assert len(steps) == 1, "appends went on alone"
    while snapshotter.compacting:
        served.clock.advance(STEP_MS)
        await run_ready_tasks()
    rests_ms = [after - before - STEP_MS for before, after in pairwise(steps)]
    assert len(steps) > 3
    assert min(rests_ms) == SNAPSHOT_RESTS * STEP_MS


async def test_a_refusal_meanwhile_stops_the_save_and_the_next_one_is_whole(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    let_others_run(monkeypatch, served)
    await served.claim("old", token=1)
    size_bytes = served.shard.journal.size_bytes
    await begin(served)
    served.disk.faults = ["full"]
    with pytest.raises(Exception, match="no space left"):
        await served.claim("refused", token=2)
    await wait_until(lambda: not served.shard.snapshotter.compacting)
    assert served.shard.journal.size_bytes >= size_bytes, "nothing was collected"
    await run_ready_tasks()
    served.clock.advance(60_000)
    await wait_until(lambda: served.shard.group_commit.open)
    served.shard.scheduler.compact()
    await wait_until(lambda: not served.shard.snapshotter.compacting)
    assert served.shard.journal.size_bytes < size_bytes


async def test_a_gateway_that_is_closed_while_it_saves_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        let_others_run(monkeypatch, served)
        await served.claim("old", token=1)
        await begin(served)
        before = contents(served.shard.journal.index.claims)
    async with serving(ledgers) as served:
        assert contents(served.shard.journal.index.claims) == before
