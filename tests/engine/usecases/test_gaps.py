"""A gap is detected if the claim names the previous sequence, or if the producer declared that there are no gaps."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import Gap
from oncegate.core.producers import Gaps
from oncegate.index.shard import ShardIndex
from tests.support.memory_gateway import GatedLedgers, verdicts_of
from tests.support.producing_lanes import Lanes, lanes


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    """Producer "p" in epoch 2, without gaps and claims."""
    async with lanes() as found:
        await found.close()
        await found.register(token=2, gaps=Gaps.REFUSE)
        found.served.disk.appends.clear()
        yield found


async def claim(lane: Lanes, call: int, *sequences: int, prev: int | None = None, epoch: int = 2) -> list[str]:
    return verdicts_of(await lane.claim(call, sequences, prev, token=epoch, epoch=epoch))


@pytest.mark.parametrize(
    ("sequences", "prev"),
    [((8,), None), ((7, 9), None), ((6, 9), 5), ((3, 8), 2), ((8, 9), 7), ((1, 8), None)],
    ids=["the next is passed over", "among these", "among these, vouched", "repeats", "vouched in vain", "known, new"],
)
async def test_skipped_sequences_are_a_gap_where_gaps_are_refused(
    lane: Lanes, sequences: tuple[int, ...], prev: int | None
) -> None:
    await claim(lane, 0, 1, 2, 3, 4, 5, 6)
    lane.served.disk.appends.clear()
    with pytest.raises(Gap) as raised:
        await claim(lane, 1, *sequences, prev=prev)
    assert raised.value.extra == {"prev_sequence": prev, "claimed_to": 6}
    assert lane.served.disk.appends == []
    assert await claim(lane, 2, 6, 7, 8) == ["SAME+OF_CALL", "GRANTED", "GRANTED"]


async def test_its_first_claim_may_begin_anywhere_and_what_is_vouched_for_is_no_gap(lane: Lanes) -> None:
    with pytest.raises(Gap, match="gaps=refuse"):
        await claim(lane, 0, 17, 19)
    assert await claim(lane, 1, 17, 18) == ["GRANTED"] * 2
    assert await claim(lane, 2, 19) == ["GRANTED"]
    assert await claim(lane, 3, 25, 26, prev=19) == ["GRANTED"] * 2
    assert await claim(lane, 4, 17, 19, 26) == ["SAME+OF_CALL"] * 3, "a known request need not list all its sequences"
    assert await claim(lane, 5, 18, 27) == ["SAME+OF_CALL", "GRANTED"], "nor before what is new"
    assert await claim(lane, 6, 19, 28, prev=18) == ["SAME+OF_CALL", "GRANTED"]


async def test_a_producer_that_said_nothing_may_pass_over_what_it_likes(lane: Lanes) -> None:
    await claim(lane, 0, 1)
    await lane.close(token=2, epoch=2)
    await lane.register(token=3)
    assert await claim(lane, 0, 5, 9, epoch=3) == ["GRANTED"] * 2


async def test_that_there_are_no_gaps_is_known_after_a_restart_and_a_collection() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.close()
        await lane.register(token=2, gaps=Gaps.REFUSE)
        await claim(lane, 0, 1)
        index, loaded = lane.shard.journal.index, ShardIndex()
        for position, saved in enumerate(index.snapshot(), 1):
            loaded.replayed(position, saved)
        assert loaded.producers.producers["p"].gaps == Gaps.REFUSE
    async with lanes(ledgers) as lane:
        with pytest.raises(Gap):
            await claim(lane, 1, 3)
