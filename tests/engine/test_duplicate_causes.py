"""Causes of duplicates: derived from the ledger and the request, and unknown otherwise."""

import asyncio

import numpy as np
import pytest

from oncegate.core.causes import KNOWN_FROM, Cause
from oncegate.core.claims import Verb
from oncegate.core.errors import Fenced
from oncegate.engine.counts.counts import AGE_MS
from tests.support.counted_causes import causes, produce
from tests.support.memory_gateway import Served, rows_of, serving, winner
from tests.support.producing_lanes import lanes
from tests.support.sealed import done, eviction, seal, take

HOUR_MS = 3_600_000


def ages(served: Served) -> dict[int, int]:
    """Returns the number of duplicates per age bucket, by its bound in ms; 0 means older than all bounds."""
    counts = served.shard.journal.counts.ages.counts
    return {bound: count for bound, count in zip([*AGE_MS, 0], counts, strict=True) if count}


def test_every_cause_names_its_evidence() -> None:
    assert list(KNOWN_FROM) == list(Cause)


async def test_an_attempt_that_repeats_its_call_is_a_retry_of_the_client() -> None:
    async with serving() as served:
        await done(served, "a", "b")
        await served.claim("a", "b")
        assert causes(served) == {"client_retry": 2}
        await produce(served, "x", token=5)
        await produce(served, "x", token=5)
        assert causes(served) == {"client_retry": 3}


async def test_a_repeat_is_one_also_when_its_claim_is_forgotten() -> None:
    async with serving() as served:
        await done(served, "a")
        served.clock.advance(HOUR_MS)
        await served.claim("a")
        assert causes(served) == {"client_retry": 1}


async def test_an_id_twice_in_one_attempt_is_twice_in_its_source() -> None:
    async with serving() as served:
        await done(served, "a")
        await served.claim("b", "c", "b", "b", call=2)
        assert causes(served) == {"upstream": 2}, "in one request"
        await served.claim("a", call=3)
        assert causes(served) == {"upstream": 3}, "in two of its calls"


async def test_of_another_attempt_nothing_is_known() -> None:
    async with serving() as served:
        await done(served, "a", "b")
        await served.claim("a", "b", "c", token=2)
        assert causes(served) == {"unknown": 2}


async def test_another_attempt_under_one_batch_scope_is_a_task_that_ran_again() -> None:
    async with serving() as served:
        await produce(served, "a", "b", token=1, batch=7)
        await produce(served, "z", token=1, call=2)
        await produce(served, "a", "b", "z", token=2, batch=7)
        assert causes(served) == {"task_retry": 2, "unknown": 1}
        await produce(served, "a", token=3, batch=8)
        assert causes(served) == {"task_retry": 2, "unknown": 2}, "of another batch"


async def test_ids_taken_by_an_owner_are_another_jobs() -> None:
    async with serving() as served:
        await take(served, 1, "a")
        await take(served, 1, "a")
        assert causes(served) == {}, "its own again"
        await take(served, 2, "a")
        await served.claim("a", token=5)
        assert causes(served) == {"other_job": 2}
        await done(served, "b", token=7)
        await take(served, 1, "b")
        assert causes(served) == {"other_job": 3}


async def test_a_name_that_is_committed_again_is_a_replayed_batch() -> None:
    async with serving() as served:
        staged = await served.stage(rows_of(1, 2, 3))
        await served.stage(rows_of(1, 2, 3), token=2)
        await served.commit(winner(staged))
        assert causes(served) == {"task_retry": 3}, "what another attempt staged for the batch"
        await served.commit(winner(staged))
        assert causes(served) == {"task_retry": 3}, "the same commit repeated brings no rows"
        await served.commit(winner(staged), run="2", nonce=2, digest=None)
        assert causes(served) == {"task_retry": 3, "batch_replay": 3}


async def test_sequences_of_an_older_epoch_came_by_a_task_that_ran_again_and_a_fenced_ones_by_a_zombie() -> None:
    async with lanes() as lane:
        await lane.claim(0, [1, 2])
        await lane.complete(0)
        await lane.claim(0, [1, 2])
        assert causes(lane.served) == {"client_retry": 2}
        await lane.close()
        await lane.register(token=2)
        await lane.claim(0, [1, 2, 3], token=2, epoch=2)
        assert causes(lane.served) == {"client_retry": 2, "task_retry": 2}
        with pytest.raises(Fenced):
            await lane.claim(1, [1, 2, 3, 4])
        assert causes(lane.served) == {"client_retry": 2, "task_retry": 2, "zombie": 4}


async def test_every_duplicate_has_one_cause_whichever_way_it_was_decided() -> None:
    random = np.random.default_rng(7)
    async with serving() as served:
        for n in range(60):
            ids = [f"i{number}" for number in random.integers(0, 50, random.integers(1, 60))]
            answers = await asyncio.gather(*(served.claim(*ids[i::3], token=3 * n + i) for i in range(3) if ids[i::3]))
            for answer in answers:
                if answer.claim is not None:
                    await served.settle(Verb.COMPLETE, answer.claim)
        counters = served.shard.counters()
        answered = sum(counters[name] for name in ("duplicates", "own_duplicates", "same"))
        assert sum(causes(served).values()) == answered > 1_000
        assert sum(ages(served).values()) == counters["duplicates"] + counters["own_duplicates"]


@pytest.mark.parametrize("passed_ms", [0, 1_000, 1_001, HOUR_MS, HOUR_MS + 1, 86_400_001, 8_640_000_000])
async def test_a_duplicate_is_as_old_as_its_first(passed_ms: int) -> None:
    async with serving() as served:
        await done(served, "a")
        served.clock.advance(passed_ms)
        await served.claim("a", token=2)
        assert ages(served) == {next((bound for bound in AGE_MS if passed_ms <= bound), 0): 1}


async def test_an_id_that_left_memory_is_as_old_as_the_newest_that_left_with_it() -> None:
    async with eviction() as served:
        await done(served, *(f"i{n}" for n in range(40)))
        await seal(served)
        assert served.shard.counters()["cold_ids"] > 0
        served.clock.advance(30 * HOUR_MS)
        await served.claim(*(f"i{n}" for n in range(40)), token=2)
        assert ages(served) == {3 * 24 * HOUR_MS: 40}
        assert causes(served) == {"unknown": 40}
