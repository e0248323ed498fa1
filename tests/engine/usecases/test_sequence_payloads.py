"""Payloads of rows by sequence, at the engine: a different one is a CONFLICT until its sequence is acked."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from oncegate.core.entries.producers import SequencesClaimed
from oncegate.core.errors import TokenReused, TooLarge
from oncegate.engine.limits import Limits
from tests.support.memory_gateway import GatedLedgers, verdicts_of
from tests.support.producing_lanes import Lanes, lanes


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


def counted(lane: Lanes, *names: str) -> list[int]:
    journal = lane.served.shard.journal
    return [journal.counts.all(journal.index)[name] for name in names]


def kept(lane: Lanes) -> list[list[int]]:
    claimed = [one for group in lane.served.disk.appends for one in group if isinstance(one, SequencesClaimed)]
    return [np.frombuffer(one.digests, "<u4").tolist() for one in claimed]


async def test_another_payload_is_a_conflict_that_writes_nothing_and_what_is_new_is_written(lane: Lanes) -> None:
    assert (await lane.produce(0, [1, 2, 3], payloads=[10, 20, 30])).rows == 3
    again = await lane.produce(1, [1, 2, 3, 4], payloads=[10, 21, 30, 40])
    assert verdicts_of(again) == ["DUPLICATE+OWN", "CONFLICT", "DUPLICATE+OWN", "GRANTED"]
    assert await lane.served.read() == [1, 2, 3, 4]
    assert kept(lane) == [[10, 20, 30], [40]]
    assert counted(lane, "conflicts", "own_duplicates", "granted") == [1, 2, 4]


async def test_a_conflict_alone_writes_nothing(lane: Lanes) -> None:
    await lane.produce(0, [1], payloads=[10])
    before = len(lane.served.disk.appends)
    assert verdicts_of(await lane.produce(1, [1], payloads=[11])) == ["CONFLICT"]
    assert len(lane.served.disk.appends) == before


async def test_one_call_is_one_request_with_its_payloads(lane: Lanes) -> None:
    await lane.produce(0, [1, 2], payloads=[10, 20])
    assert verdicts_of(await lane.produce(0, [1, 2], payloads=[10, 20])) == ["DUPLICATE+OWN"] * 2
    with pytest.raises(TokenReused):
        await lane.produce(0, [1, 2], payloads=[20, 10])


async def test_acked_sequences_are_stale_whatever_they_come_with(lane: Lanes) -> None:
    await lane.produce(0, [1, 2, 3], payloads=[10, 20, 30])
    await lane.ack([("p", 2)])
    assert verdicts_of(await lane.produce(1, [1, 2, 3], payloads=[11, 21, 31])) == ["STALE", "STALE", "CONFLICT"]


async def test_payloads_are_known_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await lane.produce(0, [1, 2, 3], payloads=[10, 20, 30])
        await lane.ack([("p", 1)])
    async with lanes(ledgers) as lane:
        assert verdicts_of(await lane.produce(1, [1, 2, 3], payloads=[11, 21, 30])) == [
            "STALE",
            "CONFLICT",
            "DUPLICATE+OWN",
        ]


async def test_payloads_beyond_those_that_are_kept_are_refused_and_acks_make_room() -> None:
    async with lanes(sequence_digests=3) as lane:
        await lane.produce(0, [1, 2], payloads=[10, 20])
        before = len(lane.served.disk.appends)
        with pytest.raises(TooLarge, match="2 of at most 3 are kept"):
            await lane.produce(1, [3, 4], payloads=[30, 40])
        assert len(lane.served.disk.appends) == before
        assert verdicts_of(await lane.produce(2, [1, 2], payloads=[10, 21])) == ["DUPLICATE+OWN", "CONFLICT"]
        assert (await lane.produce(3, [3], payloads=[30])).rows == 1
        assert (await lane.produce(4, [4])).rows == 1, "rows without payloads need no room"
        await lane.ack([("p", 2)])
        assert (await lane.produce(5, [5, 6], payloads=[50, 60])).rows == 2


async def test_an_append_that_is_refused_leaves_the_payloads_and_their_number_as_they_were(lane: Lanes) -> None:
    await lane.produce(0, [1], payloads=[10])
    lane.served.disk.faults = ["full"]
    with pytest.raises(Exception, match="no space left"):
        await lane.produce(1, [2], payloads=[20])
    store = lane.served.shard.journal.index.producers
    assert (store.digests, store.producers["p"].digests.sequences.tolist()) == (1, [1])


def test_a_namespace_keeps_payloads_of_several_batches_of_a_million_rows() -> None:
    assert Limits().sequence_digests * 12 == 96_000_000
