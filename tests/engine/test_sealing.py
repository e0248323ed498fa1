"""Old ids leave memory for archives and runs, and every use case answers as before."""

from oncegate.core.decisions import IdState
from oncegate.core.entries import Sealed
from tests.engine.held import HeldLedgers, said
from tests.engine.sealed import HOT, counters, done, names, produce, seal, sealing, state, take


async def test_the_oldest_ids_leave_memory_once_there_are_more_than_may_stay() -> None:
    async with sealing() as served:
        await done(served, *names(0, 6))
        served.clock.advance(1_000)
        await done(served, *names(6, 12), token=2)
        await seal(served)
        assert counters(served) == (12, 6, 6)
        assert [type(entry) for group in served.disk.appends for entry in group].count(Sealed) >= 2
        assert len(served.shard.journal.index.claims.cold.runs) == 1
        assert said(await served.claim(*names(0, 13), token=3)) == ["DUPLICATE"] * 12 + ["GRANTED"]


async def test_sealed_ids_are_answered_as_before_by_every_verb() -> None:
    async with sealing() as served:
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
        assert said(await served.claim(*asked, token=3)) == ["DUPLICATE"] * 4
        assert await produce(served, *asked, token=4) == ["DUPLICATE"] * 4
        assert await take(served, 7, *asked) == ["DUPLICATE", "DUPLICATE", "GRANTED", "DUPLICATE"]
        assert await take(served, 8, *asked) == ["DUPLICATE"] * 4


async def test_a_restart_drops_what_was_sealed_and_answers_alike() -> None:
    ledgers = HeldLedgers()
    async with sealing(ledgers) as served:
        await done(served, *names(0, 20))
        await take(served, 7, *names(20, 30))
        await seal(served)
        before = counters(served)
        assert before[2] > 0
    async with sealing(ledgers) as served:
        assert counters(served) == before
        assert said(await served.claim(*names(0, 31), token=3)) == ["DUPLICATE"] * 30 + ["GRANTED"]
        assert await take(served, 7, "id 25", "id 3") == ["GRANTED", "DUPLICATE"]
