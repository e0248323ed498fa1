"""Acks at the engine: part by part, never over uncompleted rows, never backwards, and only by the driver."""

from collections.abc import AsyncIterator, Awaitable

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import (
    NotDriver,
    OlderBatch,
    OtherDriver,
    UnknownDriver,
    UnknownProducer,
)
from oncegate.engine.producer_requests import AckResult
from tests.support.memory_gateway import GatedLedgers, id16, verdicts_of
from tests.support.producing_lanes import Lanes, lanes


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


async def test_acked_rows_are_stale_permanently_also_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.claim(0, [1, 2, 3])
        await lane.complete(0)
        answer = await lane.ack([("p", 2)], batch=4)
        assert (answer.watermarks, answer.batch) == ((("p", 2),), 4)
    async with lanes(ledgers) as lane:
        assert verdicts_of(await lane.claim(1, [1, 2, 3, 4])) == ["STALE", "STALE", "DUPLICATE+OWN", "GRANTED"]
        assert (await lane.driver()).batch == 4
        assert lane.shard.counters()["stale"] == 2


async def test_an_ack_goes_no_further_than_what_was_claimed_and_never_back(lane: Lanes) -> None:
    assert (await lane.ack([("p", 10)])).watermarks == (("p", None),)
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    assert (await lane.ack([("p", 10)])).watermarks == (("p", 2),)
    lane.served.disk.appends.clear()
    assert (await lane.ack([("p", 1)])).watermarks == (("p", 2),)
    assert (await lane.ack(batch=3)).batch == 3
    assert (await lane.ack(batch=3)).batch == 3
    assert lane.served.disk.kinds() == [["Acked"]], "what moves nothing is not written"
    assert verdicts_of(await lane.claim(1, [3])) == ["GRANTED"]


async def test_of_one_producer_named_twice_the_higher_sequence_counts(lane: Lanes) -> None:
    await lane.claim(0, [1, 2, 3])
    await lane.complete(0)
    assert (await lane.ack([("p", 3), ("p", 1)])).watermarks == (("p", 3), ("p", 3))


async def refusals(asked: Awaitable[AckResult]) -> list[tuple[str, dict[str, object]]]:
    """Returns the refusals of an ack, part by part."""
    return [(error.code, error.extra) for error in (await asked).refused]


async def test_a_part_that_is_refused_keeps_no_other_part_from_being_acked(lane: Lanes) -> None:
    await lane.register(token=5, producer="q")
    await lane.claim(0, [1, 2], token=5, producer="q")
    await lane.shard.producers.settle(Verb.COMPLETE, "q", 1, id16(5), 0, lane.served.deadline())
    await lane.claim(0, [1, 2])
    await lane.complete(0)
    await lane.claim(1, [3, 4, 7])
    answer = await lane.ack([("q", 2), ("p", 7)], batch=8)
    assert [(error.code, error.extra) for error in answer.refused] == [
        ("NOT_DONE", {"producer": "p", "not_done": [[3, 4], [7, 7]]})
    ]
    assert (answer.watermarks, answer.batch) == ((("q", 2), ("p", None)), 8)
    assert verdicts_of(await lane.claim(1, [1, 2], token=5, producer="q")) == ["STALE"] * 2
    assert verdicts_of(await lane.claim(2, [1, 3, 4, 7])) == ["DUPLICATE+OWN", *["SAME+OF_CALL"] * 3]
    assert (await lane.ack([("p", 2)])).watermarks == (("p", 2),)


async def test_a_part_that_is_refused_is_still_refused_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.claim(0, [1])
        held = await lane.claim_ids("a", batch=3)
        assert len(await refusals(lane.ack([("p", 1)], batch=3))) == 2
    async with lanes(ledgers) as lane:
        assert len(await refusals(lane.ack([("p", 1)], batch=3))) == 2
        await lane.served.settle(Verb.COMPLETE, held.claim)
        await lane.complete(0)
        assert await refusals(lane.ack([("p", 1)], batch=3)) == []


async def test_released_sequences_block_an_ack_as_well(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.settle(Verb.RELEASE, 0)
    assert await refusals(lane.ack([("p", 1)])) == [("NOT_DONE", {"producer": "p", "not_done": [[1, 1]]})]


async def test_leftovers_of_an_older_epoch_block_an_ack_as_well(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.close()
    await lane.register(token=2)
    assert await refusals(lane.ack([("p", 3)])) == [("NOT_DONE", {"producer": "p", "not_done": [[1, 1]]})]


async def test_an_ack_of_an_earlier_batch_is_refused_whole_with_the_last_one(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.complete(0)
    await lane.ack(batch=7)
    lane.served.disk.appends.clear()
    with pytest.raises(OlderBatch, match="checkpoint was set back") as refused:
        await lane.ack([("p", 1)], batch=6)
    assert refused.value.extra == {"batch": 7}
    assert lane.served.disk.appends == []
    assert (await lane.ack([("p", 1)], batch=7)).watermarks == (("p", 1),)


async def test_an_executor_never_acks(lane: Lanes) -> None:
    await lane.claim(0, [1])
    await lane.complete(0)
    with pytest.raises(NotDriver, match="owns the retries"):
        await lane.ack([("p", 1)], token=1)
    assert verdicts_of(await lane.claim(1, [1])) == ["DUPLICATE+OWN"]


async def test_acks_of_what_is_not_known_or_not_ones_own_are_refused(lane: Lanes) -> None:
    with pytest.raises(UnknownDriver):
        await lane.ack(epoch=2)
    await lane.claim(0, [1])
    await lane.complete(0)
    await lane.driver(name="e")
    await lane.register(token=5, producer="q", driver="e")
    answer = await lane.ack([("nobody", 1), ("q", 1), ("p", 1)])
    assert [(type(error), error.extra["producer"]) for error in answer.refused] == [
        (UnknownProducer, "nobody"),
        (OtherDriver, "q"),
    ]
    assert answer.watermarks == (("p", 1),), "another driver's is not returned"
