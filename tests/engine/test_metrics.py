"""The metrics of a gateway while namespaces are added, recover, are refused and are removed."""

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import LedgerDown, LedgerFull, TokenReused
from oncegate.engine.counters import COUNTERS
from oncegate.engine.counts.counts import Histogram
from oncegate.engine.metrics.families import METRICS
from oncegate.engine.metrics.reader import NAMESPACES_AT_ONCE, OTHERS, MetricsReader
from oncegate.engine.recovery.owner import REOPEN_MS
from oncegate.engine.requests import ClaimRequest, SettingsRequest
from tests.support.http_app import open_http
from tests.support.memory_gateway import GatedLedgers, Served, id16, run_ready_tasks, serving, wait_until


async def read(served: Served, reader: MetricsReader | None = None) -> dict[str, dict[tuple[str, ...], Any]]:
    families = await (reader or MetricsReader()).read(served.gateway)
    return {family.metric.name: dict(family.values) for family in families}


def state_of(found: dict[str, dict[tuple[str, ...], Any]], namespace: str) -> list[str]:
    return [state for (name, state), is_now in found["namespace_state"].items() if name == namespace and is_now]


async def test_a_namespace_that_recovers_shows_its_state_and_what_was_answered() -> None:
    async with serving() as served:
        await served.claim("a")
        served.disk.faults = ["lost"]
        served.ledgers.disk.refuse_to_open = OSError(5, "Input/output error")
        with pytest.raises(LedgerDown):
            await served.claim("b", token=2)
        await run_ready_tasks()
        samples = await read(served)
        assert state_of(samples, "default") == ["RECOVERING"]
        assert samples["answered_ids"]["default", "granted"] == 1
        assert samples["ledger_position"] == samples["ids"] == samples["takeovers"] == {}, "nobody knows now"
        served.clock.advance(REOPEN_MS - 1)
        assert (await read(served))["recovery_seconds"]["default",] == REOPEN_MS - 1
        served.disk.refuse_to_open = None
        served.clock.advance(60_000)
        await wait_until(lambda: served.gateway.readiness() == {"default": "SERVING"})
        samples = await read(served)
        assert state_of(samples, "default") == ["SERVING"]
        assert samples["answered_ids"]["default", "granted"] == 1, "counted by the process, which went on"
        assert samples["ownerships"]["default",] == 2


async def test_a_restart_begins_at_zero_what_the_process_counts_and_knows_what_the_ledger_does() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("a", lease_ms=1_000)
        served.clock.advance(2_000)
        await served.claim("a", token=2)
        samples = await read(served)
        assert (samples["answered_ids"]["default", "granted"], samples["takeovers"]["default",]) == (2, 1)
    async with serving(ledgers) as served:
        samples = await read(served)
        assert (samples["answered_ids"]["default", "granted"], samples["takeovers"]["default",]) == (0, 1)


async def test_a_counter_is_not_less_after_a_full_disk_took_back_what_it_counted() -> None:
    async with serving() as served:
        await served.claim("a", lease_ms=1_000)
        served.clock.advance(2_000)
        served.disk.hold()
        served.disk.faults = ["full"]
        pending = await served.begin(served.claim("a", token=2))
        assert (await read(served))["takeovers"]["default",] == 1
        await served.disk.release()
        with pytest.raises(LedgerFull):
            await pending
        assert served.shard.counters()["takeovers"] == 0
        samples = await read(served)
        assert samples["takeovers"]["default",] == 1, "a rate would take less for a restart, and add all of it again"
        assert (samples["failing"]["default", "room"], samples["failing"]["default", "eviction"]) == (1, 0)
        assert state_of(samples, "default") == ["FULL"]


async def test_waiting_changes_and_the_duration_of_an_append_are_exported() -> None:
    async with serving() as served:
        before = (await read(served))["append_seconds"]["default",]
        served.disk.hold()
        pending = await served.begin(served.claim("a"))
        served.start(served.claim("b", token=2))
        await run_ready_tasks()
        samples = await read(served)
        assert (samples["group_commit_changes"]["default",], samples["group_commit_answers"]["default",]) == (1, 2)
        served.clock.advance(300)
        await served.disk.release()
        await pending
        samples = await read(served)
        assert samples["group_commit_answers"]["default",] == 0
        took = samples["append_seconds"]["default",]
        assert (sum(took.counts) - sum(before.counts), took.total) == (2, 300)


async def test_namespaces_beyond_the_limit_are_exported_together() -> None:
    async with serving(namespaces_in_metrics=2) as served:
        reader = MetricsReader()
        for name in ("a", "b", "c", "d"):
            await served.gateway.create(name)
        samples = await read(served, reader)
        assert {name for name, _ in samples["namespace_state"]} == {"a", "b", OTHERS}
        assert samples["namespace_state"][OTHERS, "SERVING"] == 3, "three are: c, d and default"
        assert samples["namespaces"][()] == 5


async def test_a_namespace_exported_with_others_stays_there_and_its_counts_stay_when_it_is_deleted() -> None:
    async with serving(namespaces_in_metrics=1) as served:
        reader = MetricsReader()
        for name in ("a", "z"):
            await served.gateway.create(name)
        served.gateway.namespace("z").home.journal.counts.add(row("completed"), 5)
        assert (await read(served, reader))["completed_claims"][OTHERS,] == 5
        await served.gateway.delete("a", None, [], served.deadline())
        assert (await read(served, reader))["completed_claims"] == {(OTHERS,): 5}, "it does not jump to a name"
        await served.gateway.delete("z", None, [], served.deadline())
        await served.gateway.create("c")
        assert (await read(served, reader))["completed_claims"] == {("c",): 0, (OTHERS,): 5}
        assert (await read(served, reader))["namespace_state"][OTHERS, "SERVING"] == 1, "only default is left"


async def test_a_namespace_made_again_under_its_name_starts_from_zero() -> None:
    async with serving() as served:
        reader = MetricsReader()
        await served.gateway.create("a")
        served.gateway.namespace("a").home.journal.counts.add(row("completed"), 5)
        assert (await read(served, reader))["completed_claims"]["a",] == 5
        await served.gateway.delete("a", None, [], served.deadline())
        await served.gateway.create("a")
        assert (await read(served, reader))["completed_claims"]["a",] == 0


async def test_many_namespaces_are_read_a_few_at_a_time() -> None:
    async with open_http() as http:
        for n in range(2 * NAMESPACES_AT_ONCE):
            await http.gateway.create(f"n{n}")
        reading = asyncio.create_task(MetricsReader().read(http.gateway))
        await run_ready_tasks(2)
        assert not reading.done(), "others have had their turn"
        assert len({family.metric.name for family in await reading}) == len(METRICS)


async def test_a_batch_that_is_not_acked_grows_old() -> None:
    async with serving() as served:
        assert (await read(served))["unacked_batch_age_seconds"]["default",] == 0
        answer = await served.claim("a")
        await served.settle(Verb.COMPLETE, answer.claim)
        served.shard.journal.index.claims.scopes.add("driver", 7, [0])
        served.clock.advance(5_000)
        assert (await read(served))["unacked_batch_age_seconds"]["default",] == 5_000


@pytest.mark.parametrize(("value", "at"), [(0, 0), (1, 0), (2, 1), (10, 1), (11, 2)])
def test_a_histogram_counts_a_value_by_the_first_bound_that_is_not_below_it(value: int, at: int) -> None:
    one, many = Histogram((1, 10)), Histogram((1, 10))
    one.observe(value)
    many.add(many.tally(np.array([value], np.int64)))
    assert one.counts == many.counts == [int(n == at) for n in range(3)]
    assert one.total == many.total == value
    assert one.cumulative()[-1] == 1


def row(name: str) -> Any:
    return next(one for one in COUNTERS if one.name == name)


async def test_every_answered_claim_is_timed_once_whatever_way_it_went() -> None:
    async with serving() as served:
        assert sum((await read(served))["claim_seconds"]["default",].counts) == 0
        served.disk.hold()
        pending = await served.begin(served.claim("a", "b", "c"))
        served.clock.advance(30)
        await served.disk.release()
        await pending
        prints = served.namespace.fingerprints().of_array(pa.array(["a"], pa.string()))
        await served.shard.claims.claim(ClaimRequest(id16(2), 1, prints, None, locate=True), served.deadline(None))
        took = (await read(served))["claim_seconds"]["default",]
        assert (sum(took.counts), took.total) == (2, 30)
        assert took.counts[took.bounds.index(50)] == 1
        with pytest.raises(TokenReused):
            await served.claim("another")
        assert sum((await read(served))["claim_seconds"]["default",].counts) == 2, "it was refused, not answered"


async def test_the_retention_of_ids_is_exported() -> None:
    async with serving() as served:
        assert (await read(served))["horizon_seconds"]["default",] == 0
        await served.namespace.settings.configure(SettingsRequest(86_400_000), served.deadline(None))
        assert (await read(served))["horizon_seconds"]["default",] == 86_400_000


@pytest.mark.parametrize(("fault", "end", "error"), [("full", "refused", LedgerFull), ("lost", "lost", LedgerDown)])
async def test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took(
    fault: str, end: str, error: type[Exception]
) -> None:
    async with serving() as served:
        served.disk.hold()
        claims = [await served.begin(served.claim(f"a {n}", token=n)) for n in (1, 2, 3, 4)]
        await served.disk.release()
        await asyncio.gather(*claims)
        served.disk.faults = [fault]
        with pytest.raises(error):
            await served.claim("b", token=5)
        samples = await read(served)
    ended = {one: samples["appends"]["default", one] for one in ("durable", "refused", "lost")}
    assert ended == {"durable": 2, "refused": 0, "lost": 0} | {end: 1}, "of one claim, and of three"
    changes = samples["append_changes"]["default",]
    assert (changes.cumulative()[-1], changes.total) == (2, 1 + 3)
