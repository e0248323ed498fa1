"""Compares the estimates of `oncegate size` with measurements of memory and disk: within 20 % either way."""

import asyncio
import tracemalloc
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import numpy as np
import pytest

from oncegate.cli import capacity as sizing
from oncegate.cli.size import _filter_bytes
from oncegate.clock import SystemClock
from oncegate.core.claims import Verb
from oncegate.core.entries.codec import encode as encode_entry
from oncegate.core.entries.kinds import Claimed, Committed, Completed, Name, Produced, TopicCreated
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.requests import ClaimRequest
from oncegate.index.claims.snapshot import snapshot
from oncegate.index.lsm.run import encode
from oncegate.index.shard import ShardIndex, warm_up
from oncegate.index.topics import TopicIndex, snapshot_steps
from oncegate.ledgers import open_ledgers
from oncegate.ledgers.catalog import Catalog, Location, Published, Wrote
from oncegate.ledgers.log.files.outputs import RangeCounts
from oncegate.runs import run_folders
from oncegate.testing.clock import FakeClock
from tests.support.index.claim_index import ClaimIndex
from tests.support.memory_gateway import wait_until

WITHIN = 0.2


class Silent:
    def event(self, name: str, /, **fields: object) -> None:
        pass


def grow(index: ClaimIndex, ids: int, batch: int, first: int = 0, payloads: bool = False) -> ClaimIndex:
    """Claims and completes `ids` more ids in the index, with or without `payloads`; returns the index."""
    rng = np.random.default_rng(first)
    for call in range(first, first + ids // batch):
        index.make_room(batch, call)
        claim, raw = rng.bytes(16), rng.bytes(16 * batch)
        digests = rng.bytes(4 * batch) if payloads else b""
        claimed = Claimed(claim, claim, call, claim, 30_000, call, raw, b"", digests)
        index.settle(index.apply(2 * call + 1, claimed, call))
        index.settle(index.apply(2 * call + 2, Completed(claim, call), call))
    return index


def test_the_table_has_its_documented_size_wherever_its_segments_are() -> None:
    index, batch = ClaimIndex(), 10_000
    for claims in range(5, 70, 5):
        grow(index, 5 * batch, batch, first=claims - 5)
        estimate = sizing.table_bytes(claims * batch) + claims * sizing.ROW_BYTES
        assert index.size_bytes == pytest.approx(estimate, rel=WITHIN), claims


def test_payload_digests_have_their_documented_size() -> None:
    """Measures the table, a saved index and an entry."""
    index, batch = ClaimIndex(), 10_000
    work = sizing.Work(rate=1.0, horizon_s=1.0, filter_bytes=1.0, payload_digests=True)
    for claims in range(5, 70, 5):
        grow(index, 5 * batch, batch, first=claims - 5, payloads=True)
        found = sizing.sizes(replace(work, rate=claims * batch / (1 + sizing.LATE)))
        assert found.memory["payload digests"] == pytest.approx(4 * index.store.table.capacity, rel=WITHIN), claims
    saved = sum(len(data) for _, data in snapshot(index.store))
    assert saved == pytest.approx(sizing.saved_bytes(65 * batch, 65, work.digest_bytes), rel=WITHIN)
    entry = encode_entry(Claimed(bytes(16), bytes(16), 1, bytes(16), 1, 1, bytes(16 * batch), b"", bytes(4 * batch)))
    assert sizing.entry_bytes(batch, 1, work.digest_bytes) == pytest.approx(len(entry) / batch, rel=WITHIN)


def test_results_have_their_documented_size() -> None:
    """Measures the memory beside the rows, and an entry."""
    index, claims = ClaimIndex(), 500
    for call in range(claims):
        raw = call.to_bytes(16, "big")
        index.make_room(1, call)
        index.settle(index.apply(2 * call + 1, Claimed(raw, raw, call, raw, 30_000, call, raw, b""), call))
        index.settle(index.apply(2 * call + 2, Completed(raw, call, bytes(100)), call))
    work = sizing.Work(claims / (1 + sizing.LATE), 1.0, 1.0, batch=1, result_bytes=100)
    kept = sizing.sizes(work).memory["results"] - claims * sizing.ROW_BYTES
    assert kept == pytest.approx(index.rows.results.size_bytes, rel=0.01)
    entries = [encode_entry(Completed(bytes(16), 1, result)) for result in (b"", bytes(100))]
    assert len(entries[1]) - len(entries[0]) == sizing.RESULT_ENTRY_BYTES + 100
    saved = msgspec.msgpack.encode([(row, bytes(100)) for row in range(70_000, 70_000 + claims)])
    assert len(saved) / claims == pytest.approx(sizing.RESULT_SAVED_BYTES + 100, rel=0.05)


def test_ids_with_payloads_stay_in_memory() -> None:
    work = sizing.Work(rate=1_000.0, horizon_s=1e6, filter_bytes=2.0, hot_ids_max=1_000_000)
    assert sizing.sizes(work).cold_ids > 0
    found = sizing.sizes(replace(work, payload_digests=True))
    assert (found.cold_ids, found.memory["filters"]) == (0, 0)


def test_a_claim_that_can_be_named_has_its_documented_size() -> None:
    claims = 6_000
    grow(ClaimIndex(), 100, 1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    index = grow(ClaimIndex(), claims, 1)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    rows = index.size_bytes - index.store.table.size_bytes
    assert rows / claims == pytest.approx(sizing.ROW_BYTES, rel=WITHIN)
    assert held / claims == pytest.approx(sizing.NAMED_BYTES, rel=WITHIN)


def named(names: int) -> ShardIndex:
    """Returns the index of a stream that has committed `names` batches without rows."""
    index = ShardIndex()
    for number in range(1, names + 1):
        nonce, digest = number.to_bytes(16, "little"), number.to_bytes(32, "little")
        name = Name("7c1f5a36-7b5c-4f5c-9a58-0b2f7f0c4d11", str(number), "departures")
        index.apply(number, Committed(name, digest, nonce, (), digest, nonce, 10, (), number), 0)
    return index


def test_names_have_their_documented_size_and_64_bytes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    names = 30_000
    tracemalloc.start()
    index = named(names)
    held = tracemalloc.get_traced_memory()[0]
    last = len(index.batches.committed.last)
    tracemalloc.stop()
    saved = sum(len(piece.data) for piece in index.snapshot() if "names" in piece.what)
    monkeypatch.setattr(sizing, "LAST_NAMES_MAX", last)
    found = sizing.Work(rate=1.0, horizon_s=1.0, filter_bytes=1.0, names=names)
    assert held == pytest.approx(sizing.sizes(found).memory["names"], rel=WITHIN)
    assert saved == pytest.approx(sizing.kept_bytes(found), rel=WITHIN)
    assert sizing.NAME_BYTES <= 64


def test_ranges_have_their_documented_size() -> None:
    ranges, index, catalog = 30_000, TopicIndex(), Catalog()
    index.apply(1, TopicCreated("t", 1, b"", 0, 0, 0))
    tracemalloc.start()
    for number in range(ranges):
        range_id = number.to_bytes(16, "little")
        catalog.apply(Wrote(range_id, 1, Location(1, number, 0, 900, bytes(32))))
        catalog.apply(Published("t", 0, number, (range_id,)))
        index.apply(2 + number, Produced("t", 0, number, 1, 900, range_id, range_id, 1, bytes(16), 0, b"", b""))
    held = tracemalloc.get_traced_memory()[0]
    files = RangeCounts(catalog.locations())
    counted = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    assert held / ranges == pytest.approx(sizing.RANGE_BYTES, rel=WITHIN)
    assert counted / ranges == pytest.approx(sizing.RANGE_FILE_BYTES, rel=WITHIN)
    assert (1, 0) in files
    work = sizing.Work(rate=1.0, horizon_s=1.0, filter_bytes=1.0, ranges=ranges)
    saved = sum(map(len, catalog.pieces())) + sum(len(data) for step in snapshot_steps(index) for _, data in step)
    assert saved == pytest.approx(sizing.kept_bytes(work), rel=WITHIN)
    found = sizing.sizes(work)
    assert found.memory["ranges"] == ranges * (sizing.RANGE_BYTES + sizing.RANGE_FILE_BYTES)
    assert found.disk["snapshot"] >= 2 * saved * 0.8


@pytest.mark.parametrize("batch", [100, 10_000])
def test_a_saved_index_is_as_large_as_said(batch: int) -> None:
    ids = 200_000
    size_bytes = sum(len(data) for _, data in snapshot(grow(ClaimIndex(), ids, batch).store))
    assert size_bytes == pytest.approx(sizing.saved_bytes(ids, ids / batch), rel=WITHIN)


async def settled(gateway: Gateway, batch: int, tokens: "count[int]", times: int) -> None:
    """Acts as one client that claims new ids and completes each claim."""
    namespace, deadline = gateway.namespace("default"), Deadline(gateway.clock, None)
    for token in (next(tokens) for _ in range(times)):
        ids = np.random.default_rng(token).integers(0, 1 << 63, (batch, 2), dtype=np.uint64)
        answer = await namespace.claims.claim(ClaimRequest(token.to_bytes(16), 0, ids), deadline)
        assert answer.claim is not None
        await namespace.claims.settle(Verb.COMPLETE, answer.claim, deadline)


@pytest.mark.parametrize(("batch", "clients"), [(1, 1), (1, 16), (100, 1), (100, 16), (1_000, 4), (10_000, 1)])
async def test_entries_take_as_much_disk_as_said(tmp_path: Path, batch: int, clients: int) -> None:
    async with (
        open_ledgers(f"log:{tmp_path / 'data'}", create=True) as ledgers,
        open_gateway(ledgers, run_folders(f"log:{tmp_path / 'data'}"), SystemClock(), Silent()) as gateway,
    ):
        await gateway.create("default")
        segments = tmp_path / "data" / "default"
        before, tokens, times = used(segments), count(1), 20
        await asyncio.gather(*(settled(gateway, batch, tokens, times) for _ in range(clients)))
        measured = (used(segments) - before) / (batch * clients * times)
    assert measured == pytest.approx(sizing.entry_bytes(batch, clients), rel=WITHIN)


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.seg"))


async def test_ids_that_left_memory_take_as_much_memory_and_disk_as_said(tmp_path: Path) -> None:
    limits, clock, ids = Limits(hot_ids=10_000), FakeClock(), 200_000
    warm_up()
    async with (
        open_ledgers(f"log:{tmp_path / 'data'}", create=True) as ledgers,
        open_gateway(ledgers, run_folders(f"log:{tmp_path / 'data'}"), clock, Silent(), limits) as gateway,
    ):
        await gateway.create("default")
        namespace, tokens = gateway.namespace("default"), count(1)
        for _ in range(8):
            await settled(gateway, ids // 8, tokens, 1)
            clock.advance(3 * limits.lease_ms)
            namespace.home.eviction.step()
            await wait_until(lambda: not namespace.home.eviction.working)
        counts, cold = namespace.home.counters(), namespace.home.journal.index.claims.cold
        estimate = sizing.sizes(
            sizing.Work(1.0, ids / (1 + sizing.LATE), _filter_bytes(limits.cold_fpr), hot_ids_max=1)
        )
        assert counts["cold_ids"] > 0.9 * ids
        assert cold.size_bytes / counts["cold_ids"] == pytest.approx(
            estimate.memory["filters"] / estimate.cold_ids, rel=WITHIN
        )
        runs = sum(path.stat().st_size for path in (tmp_path / "data").rglob("runs/*"))
        assert runs / counts["cold_ids"] == pytest.approx(estimate.disk["runs"] / estimate.cold_ids, rel=WITHIN)
        outputs = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*.out"))
        assert outputs / counts["cold_ids"] == pytest.approx(estimate.disk["archives"] / estimate.cold_ids, rel=WITHIN)


def test_a_run_has_its_documented_size() -> None:
    records = np.zeros((100_000, 2), np.uint64)
    records[:, 0] = np.arange(len(records))
    size_bytes = sum(map(len, encode([records], {})))
    assert size_bytes / len(records) == pytest.approx(sizing.RUN_BYTES + sizing.FENCE_BYTES, rel=WITHIN)


def test_ids_beyond_those_that_fit_in_memory_cost_a_filter_and_disk() -> None:
    work = sizing.Work(rate=1_000.0, horizon_s=1e6, filter_bytes=2.0, hot_ids_max=1_000_000)
    found = sizing.sizes(work)
    assert (found.hot_ids, found.cold_ids) == (1_000_000, found.ids - 1_000_000)
    more = sizing.sizes(sizing.Work(rate=2_000.0, horizon_s=1e6, filter_bytes=2.0, hot_ids_max=1_000_000))
    rise = more.cold_ids - found.cold_ids
    assert (more.memory["filters"] - found.memory["filters"]) / rise == pytest.approx(2.03, rel=0.01)
    assert (more.disk_bytes - found.disk_bytes) / rise == pytest.approx(34.1, rel=0.01)


def test_ids_stay_in_memory_while_their_claims_can_be_named_however_few_may_stay_there() -> None:
    found = sizing.sizes(sizing.Work(rate=1_000.0, horizon_s=1e6, filter_bytes=2.0, hot_ids_max=10, lease_s=30.0))
    assert found.hot_ids == 60_000


@pytest.mark.parametrize("zero", ["rate", "horizon_s", "batch", "clients", "hot_ids_max"])
def test_values_that_are_not_above_zero_are_refused(zero: str) -> None:
    options = {"rate": 1.0, "horizon_s": 1.0, "filter_bytes": 1.0, zero: 0}
    with pytest.raises(ValueError, match="above zero"):
        sizing.sizes(sizing.Work(**options))  # type: ignore[arg-type]
