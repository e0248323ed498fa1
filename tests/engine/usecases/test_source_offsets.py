"""Source offsets of a job: recorded with its batch or ack, durable before answered, known after a restart."""

import pytest

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import Fenced, LedgerFull, NotFound, TooLarge
from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from oncegate.engine.requests import CommitRequest
from tests.support.memory_gateway import GatedLedgers, Served, id16, serving, wait_until
from tests.support.producing_lanes import Lanes, lanes

INPUT = b"i" * 32


async def commit(served: Served, version: int, offsets: bytes, nonce: int = 0, write_id: str = "") -> str:
    name = Name("query", str(version), "topic", write_id)
    ask = CommitRequest(name, None, id16(nonce or version + 1), (), INPUT, None, False, offsets)
    answer = await served.namespace.batches.commit(ask, served.deadline())
    return str(answer.outcome)


async def offsets(served: Served, app: str = "query", write_id: str = "") -> bytes:
    return await served.namespace.batches.source_offsets(app, "topic", write_id)


async def test_the_newest_batch_has_the_source_offsets_and_a_replay_changes_nothing() -> None:
    async with serving() as served:
        await commit(served, 0, b"behind 0")
        await commit(served, 1, b"behind 1")
        assert await commit(served, 0, b"elsewhere", nonce=9) == "DUPLICATE"
        assert await offsets(served) == b"behind 1"
        with pytest.raises(NotFound, match="no source_offsets of app query in topic topic under write_id late"):
            await offsets(served, write_id="late")
        await commit(served, 1, b"late 1", nonce=7, write_id="late")
        assert (await offsets(served), await offsets(served, write_id="late")) == (b"behind 1", b"late 1")
        await commit(served, 2, b"")
        with pytest.raises(NotFound, match="or the newest one brought none"):
            await offsets(served)


async def test_source_offsets_are_returned_once_their_batch_is_durable_and_never_for_a_refused_batch() -> None:
    async with serving() as served:
        await commit(served, 0, b"behind 0")
        served.disk.hold()
        under_way = await served.begin(commit(served, 1, b"behind 1"))
        pending = await served.begin(offsets(served))
        assert not pending.done()
        await served.disk.release()
        assert (await under_way, await pending) == ("COMMITTED", b"behind 1")
        served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await commit(served, 2, b"behind 2")
        assert await offsets(served) == b"behind 1"


async def test_an_ack_records_source_offsets_for_its_driver_even_without_other_news() -> None:
    async with lanes() as lane:
        await lane.claim(0, [1, 2])
        await lane.complete(0)
        await lane.ack([("p", 2)], topic="topic", source_offsets=b"behind 2")
        assert await offsets(lane.served, "d") == b"behind 2"
        lane.served.disk.appends.clear()
        for told in (b"behind 2", b"behind 4", b"behind 4"):
            await lane.ack([("p", 2)], topic="topic", source_offsets=told)
        await lane.ack([("p", 2)])
        assert lane.served.disk.kinds() == [["Acked"]]
        assert await offsets(lane.served, "d") == b"behind 4"
        await lane.driver(token=91)
        with pytest.raises(Fenced):
            await lane.ack(topic="topic", source_offsets=b"behind 9")
        assert await offsets(lane.served, "d") == b"behind 4"


async def test_it_is_known_after_a_restart_and_a_compaction() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await commit(served, 0, b"behind 0")
        await acked(Lanes(served))
    async with serving(ledgers, collect_bytes=1) as served:
        assert (await offsets(served), await offsets(served, "d")) == (b"behind 0", b"behind 2")
        served.clock.advance(COMPACT_AGAIN_MS)
        served.shard.scheduler.step()
        await wait_until(lambda: "compaction" in served.events.names())
    async with serving(ledgers) as served:
        assert (await offsets(served), await offsets(served, "d")) == (b"behind 0", b"behind 2")
        await commit(served, 1, b"behind 1")
        assert await offsets(served) == b"behind 1"


async def acked(lane: Lanes) -> None:
    await lane.driver()
    await lane.ack(topic="topic", source_offsets=b"behind 2")


async def test_source_offsets_that_are_too_long_are_refused_before_any_effect() -> None:
    async with lanes(source_offsets_bytes=8) as lane:
        with pytest.raises(TooLarge, match="source_offsets of 9 bytes; at most 8 are kept"):
            await commit(lane.served, 0, b"x" * 9)
        with pytest.raises(TooLarge, match="nothing was written"):
            await lane.ack(topic="topic", source_offsets=b"x" * 9)
        assert lane.served.disk.appends == []
        assert await commit(lane.served, 0, b"x" * 8) == "COMMITTED"
