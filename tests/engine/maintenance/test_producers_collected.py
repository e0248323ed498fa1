"""A lane that is written for long: its entries are compacted, so disk, memory and startup time do not grow."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from oncegate.core.claims import Verb
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from oncegate.engine.namespace import Namespace
from oncegate.engine.producer_requests import AckRequest, DriverRequest, ProducerRequest
from oncegate.engine.requests import SequenceRequest
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders
from oncegate.testing import FakeClock
from tests.support.memory_gateway import Events, id16, verdicts_of, wait_until

BATCH = 50
# Enough that its entries, without gaps or acks, exceed the threshold of a compaction many times.
BATCHES = 1_000
# The limit of a compacted ledger. A tenth of the batches, at some frames of 4 KiB each, would take twenty times as
# much.
COLLECTED_BYTES = 64 << 10


class Query:
    """A driver with one lane. Each batch is claimed, completed and acked by an attempt of its own."""

    def __init__(self, namespace: Namespace, clock: FakeClock, batch: int = 0) -> None:
        self.namespace, self.deadline, self.batch = namespace, Deadline(clock), batch

    async def run(self, batches: int, acks: bool = True) -> None:
        namespace, deadline = self.namespace, self.deadline
        driver = await namespace.drivers.register(DriverRequest("query", id16(1)), deadline)
        for batch in range(self.batch, self.batch + batches):
            token = id16(100 + batch)
            lane = await namespace.producers.register(ProducerRequest("lane", token, "query"), deadline)
            sequences = np.arange(batch * BATCH, (batch + 1) * BATCH, dtype=np.uint64)
            asked = await namespace.producers.claim(SequenceRequest("lane", lane.epoch, token, 0, sequences), deadline)
            assert verdicts_of(asked) == ["GRANTED"] * BATCH
            await namespace.producers.settle(Verb.COMPLETE, "lane", lane.epoch, token, 0, deadline)
            await namespace.producers.close("lane", lane.epoch, token)
            if acks:
                upto = (("lane", int(sequences[-1])),)
                await namespace.drivers.ack(AckRequest("query", driver.epoch, id16(1), upto, batch), deadline)
        self.batch += batches


def size_bytes(folder: Path) -> int:
    """Returns the size of all files below; one may be removed during the count."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


@pytest.mark.slow
@pytest.mark.parametrize("acks", [True, False], ids=["acked", "never acked"])
async def test_disk_and_memory_do_not_grow_with_what_a_lane_has_written(tmp_path: Path, acks: bool) -> None:
    clock, events, folder = FakeClock(), Events(), tmp_path / "data"
    runs = run_folders(f"log:{folder}")
    async with (
        open_ledgers(f"log:{folder}", create=True) as ledgers,
        open_gateway(ledgers, runs, clock, events, Limits(collect_bytes=8 << 10)) as gateway,
    ):
        query = Query(gateway.namespace("default"), clock)
        for _ in range(10):
            await query.run(BATCHES // 10, acks)
            clock.advance(COMPACT_AGAIN_MS)
            query.namespace.home.scheduler.step()
            await wait_until(lambda: not query.namespace.home.snapshotter.compacting)
            # Files are removed on another thread, a little later.
            await wait_until(lambda: size_bytes(folder) <= COLLECTED_BYTES)
        assert events.names().count("compaction") == 10
        # Without acks: the sequences of older epochs, and those of this one.
        known = query.namespace.home.journal.index.producers.producers["lane"]
        assert (known.watermark, len(known.intervals)) == ((known.claimed_to, 0) if acks else (None, 2))
        await gateway.close()
        async with open_gateway(ledgers, runs, clock, events) as again:
            clock.advance(60_000)
            await Query(again.namespace("default"), clock, query.batch).run(1, acks)
