"""A reading of a partition answers all its callers; cancelling one of them does not end it for the others."""

from oncegate.core.errors import DeadlinePassed
from tests.support.direct_records import direct_lanes
from tests.support.memory_gateway import run_ready_tasks


async def test_a_question_that_is_given_up_ends_the_reading_of_no_other() -> None:
    async with direct_lanes() as lane:
        lane.records.commit(1, (3, 4))
        lane.records.gate.clear()
        first = await lane.served.begin(lane.ask(1, 5))  # its reading has begun: the next two share another
        hasty = await lane.served.begin(lane.ask(1, 5, timeout_ms=1_000))
        patient = await lane.served.begin(lane.ask(1, 5))
        lane.served.clock.advance(1_000)
        await run_ready_tasks()
        assert isinstance(hasty.exception(), DeadlinePassed)
        assert not patient.done()
        lane.records.gate.set()
        assert await first == await patient == [[3, 4]]
        assert len(lane.records.reads) == 2


async def test_a_question_whose_caller_goes_away_ends_the_reading_of_no_other() -> None:
    async with direct_lanes() as lane:
        lane.records.commit(1, (3, 4))
        lane.records.gate.clear()
        first = await lane.served.begin(lane.ask(1, 5))
        gone = await lane.served.begin(lane.ask(1, 5))
        patient = await lane.served.begin(lane.ask(1, 5))
        gone.cancel()
        await run_ready_tasks()
        assert not patient.done()
        lane.records.gate.set()
        assert await first == await patient == [[3, 4]]
        assert len(lane.records.reads) == 2
