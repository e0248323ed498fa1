"""Ids with a time: STALE once they are older than the retention of ids, and never granted again once completed."""

import os
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import ID_TIME_SKEW_MS, IdTime, Verb
from oncegate.core.errors import BadRequest, OncegateError
from oncegate.engine.requests import ClaimRequest, LookUpRequest, ProduceRequest, SettingsRequest, TakeRequest
from oncegate.index.claims.lookup import view_of
from tests.support.memory_gateway import (
    GatedLedgers,
    Served,
    id16,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
)

SEED = int(os.environ.get("ONCEGATE_SEED", "20261126"))
HOUR_MS = 3_600_000
HORIZON_MS = 48 * HOUR_MS
TIMED = SettingsRequest(HORIZON_MS, id_time=IdTime.EVENT_ID)


def made(served: Served, ago_ms: int, name: int = 1) -> str:
    return f"{served.clock.wall_ms() - ago_ms:012x}-{name:04x}-1@host"


def claim_request(served: Served, ids: Sequence[str], token: int, call: int = 1) -> ClaimRequest:
    printer = served.namespace.fingerprints()
    return ClaimRequest(id16(token), call, printer.of_array(pa.array(ids)), made_ms=printer.made_ms)


async def claim(served: Served, *ids: str, token: int = 1, call: int = 1) -> Any:
    return await served.shard.claims.claim(claim_request(served, ids, token, call), served.deadline())


async def test_an_id_is_past_to_the_millisecond_a_minute_before_the_horizon() -> None:
    async with serving() as served:
        await served.namespace.settings.configure(TIMED, served.deadline())
        edge = HORIZON_MS - ID_TIME_SKEW_MS
        answer = await claim(served, made(served, edge, 1), made(served, edge - 1, 2), made(served, 0, 3))
        assert verdicts_of(answer) == ["STALE", "GRANTED", "GRANTED"]
        assert served.shard.counters()["past_horizon"] == 1


async def test_every_verb_reports_stale_ids_and_writes_none() -> None:
    async with serving() as served:
        await served.namespace.settings.configure(TIMED, served.deadline())
        old = pa.array([made(served, HORIZON_MS)])
        printer = served.namespace.fingerprints()
        prints, deadline = printer.of_array(old), served.deadline()
        told = [
            await served.shard.claims.take(TakeRequest(id16(7), prints, made_ms=printer.made_ms), deadline),
            await served.shard.claims.look_up(LookUpRequest(prints, made_ms=printer.made_ms), deadline),
            await served.namespace.records.produce(
                ProduceRequest("t", id16(1), 1, rows_of(1), prints, made_ms=printer.made_ms), deadline
            ),
        ]
        together = [served.start(claim(served, old[0].as_py(), made(served, 0, n), token=n)) for n in range(2, 6)]
        assert [verdicts_of(one) for one in told] == [["STALE"]] * 3
        assert [verdicts_of(await one) for one in together] == [["STALE", "GRANTED"]] * 4
        assert served.shard.journal.index.claims.known_ids == 4


async def test_known_ids_are_answered_by_their_state_however_old() -> None:
    async with serving(lease_ms=10_000) as served:
        await served.namespace.settings.configure(SettingsRequest(id_time=IdTime.EVENT_ID), served.deadline())
        done, held = made(served, HORIZON_MS, 1), made(served, HORIZON_MS, 2)
        claimed = await claim(served, done)
        await served.settle(Verb.COMPLETE, claimed.claim)
        await claim(served, held, token=2)
        await served.namespace.settings.configure(TIMED, served.deadline())
        assert verdicts_of(await claim(served, done, held, token=3)) == ["DUPLICATE", "BUSY"]


async def test_ids_that_do_not_carry_their_time_are_refused_and_nothing_is_written() -> None:
    async with serving() as served:
        await served.namespace.settings.configure(TIMED, served.deadline())
        served.disk.appends.clear()
        with pytest.raises(BadRequest, match="do not carry their time"):
            await served.claim("order-17")
        assert served.disk.appends == []


@pytest.mark.parametrize("then", ["a longer horizon", "none", "a clock that was set back"])
async def test_forgotten_ids_are_never_new_whatever_the_settings(then: str) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await served.namespace.settings.configure(TIMED, served.deadline())
        one = made(served, 0)
        await served.settle(Verb.COMPLETE, (await claim(served, one)).claim)
        if then == "a clock that was set back":
            served.clock.step_wall_ms(-3 * HORIZON_MS)
        for _ in range(30 * 2):
            served.clock.advance(HOUR_MS)
            served.shard.scheduler.retire()
            await run_ready_tasks()
        assert served.shard.journal.index.claims.known_ids == 0, "it is forgotten"
        if then != "a clock that was set back":
            horizon_ms = 4 * HORIZON_MS if then == "a longer horizon" else 0
            await served.namespace.settings.configure(SettingsRequest(horizon_ms), served.deadline())
        assert verdicts_of(await claim(served, one, token=2)) == ["STALE"]
        served.shard.scheduler.compact()
        await wait_until(lambda: not served.shard.snapshotter.compacting)
        assert served.shard.marks.compacted_to > 0
    async with serving(ledgers) as served:
        assert verdicts_of(await claim(served, one, token=3)) == ["STALE"]


async def test_none_brings_back_what_was_and_a_wall_clock_that_is_set_back_makes_nothing_new() -> None:
    async with serving() as served:
        await served.namespace.settings.configure(TIMED, served.deadline())
        young, old = made(served, 0, 2), made(served, HORIZON_MS)
        await claim(served, young)
        served.clock.step_wall_ms(-HOUR_MS)
        assert verdicts_of(await claim(served, old, token=2)) == ["STALE"]
        await served.namespace.settings.configure(SettingsRequest(id_time=IdTime.NONE), served.deadline())
        assert verdicts_of(await served.claim(old, token=3)) == ["GRANTED"]


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
async def test_in_any_order_of_events_nothing_done_is_granted_again_and_nothing_young_is_stale(seed: int) -> None:
    """Walks of claims, completions, retirements, restarts and refusals; the test's name has the seed."""
    rng, ledgers = random.Random(seed), GatedLedgers()
    ids: dict[str, int] = {}
    done: set[str] = set()
    wall_ms, told = 0, set[str]()
    for start in range(3):
        async with serving(ledgers, lease_ms=10_000) as served:
            served.clock.step_wall_ms(max(0, wall_ms - served.clock.wall_ms()))
            if not start:
                await served.namespace.settings.configure(TIMED, served.deadline())
            for step in range(60):
                served.clock.advance(rng.choice((1_000, HOUR_MS, 5 * HOUR_MS)))
                served.shard.scheduler.retire()
                one = made(served, rng.choice((0, HOUR_MS, HORIZON_MS - HOUR_MS)), len(ids))
                ids[one] = int(one[:12], 16)
                asks = rng.sample(sorted(ids), min(len(ids), 4))
                served.disk.faults = ["full"] if rng.random() < 0.05 else []
                try:
                    answer = await claim(served, *asks, token=1_000 * start + step, call=2)
                    served.disk.faults = []
                    if answer.claim is not None and rng.random() < 0.7:
                        await served.settle(Verb.COMPLETE, answer.claim)
                except OncegateError:
                    continue
                for name, verdict in zip(asks, verdicts_of(answer), strict=True):
                    told.add(verdict)
                    age_ms = served.clock.wall_ms() - ids[name]
                    assert not (verdict.startswith("GRANTED") and name in done), (seed, name)
                    assert verdict != "STALE" or age_ms >= HORIZON_MS - ID_TIME_SKEW_MS, (seed, name)
                if answer.claim is not None and (await _state(served, answer.claim)) == "DONE":
                    done |= {
                        n for n, verdict in zip(asks, verdicts_of(answer), strict=True) if verdict.startswith("GRANTED")
                    }
            wall_ms = served.clock.wall_ms()
            await wait_until(lambda group=served.shard.group_commit: group.next_position - 1 <= group.mark.position)
    assert {"STALE", "DUPLICATE", "GRANTED"} <= told


async def _state(served: Served, claim: bytes) -> str:
    return view_of(served.shard.journal.index.claims, claim, served.clock.monotonic_ms()).state.name
