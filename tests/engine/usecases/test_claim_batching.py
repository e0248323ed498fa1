"""Small claims of one turn are decided together, with the same answers as alone."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import BadRequest, DeadlinePassed, LedgerFull, OncegateError, QuotaExceeded, TokenReused
from oncegate.engine.usecases import claims as claims_use_case
from oncegate.engine.usecases.claim_batching import FEWEST, IDS_MOST, MOST, WAIT_MS, ClaimBatcher
from oncegate.index.claims.decide import LEFT, ClaimBatch
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import GatedLedgers, Served, id16, run_ready_tasks, serving, verdicts_of, wait_until

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
Outcome = tuple[str, ...]
# Verb, token, call (or the index of an earlier claim), ids.
Step = tuple[str, int, int, Outcome]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the size of each group of claims that are granted together."""
    counts: list[int] = []
    answer = ClaimBatcher._answer

    def counted(self: ClaimBatcher, some: list[Any], together: ClaimBatch, position: int) -> None:
        counts.append(len(together.entries))
        answer(self, some, together, position)

    monkeypatch.setattr(ClaimBatcher, "_answer", counted)
    return counts


async def test_new_claims_of_one_turn_are_granted_together_each_with_an_entry_of_its_own(
    served: Served, together: list[int]
) -> None:
    answers = await asyncio.gather(*(served.claim(f"a{n}", f"b{n}", token=n) for n in range(1, 9)))
    assert [verdicts_of(answer) for answer in answers] == [["GRANTED", "GRANTED"]] * 8
    assert (together, served.disk.kinds()) == ([8], [["Claimed"] * 8])
    assert len({answer.claim for answer in answers}) == 8
    entries: list[Any] = served.disk.appends[0]
    assert [entry.claim for entry in entries] == [answer.claim for answer in answers]
    assert served.shard.counters()["granted"] == 16
    assert served.shard.counters()["open_claims"] == 8


async def _one_a_turn(served: Served, claims: int, ms_a_turn: int = 0) -> list[asyncio.Task[Any]]:
    tasks = []
    for n in range(1, claims + 1):
        tasks.append(served.start(served.claim(f"id {n}", token=n)))
        await run_ready_tasks(1)
        served.clock.advance(ms_a_turn)
    await run_ready_tasks()
    return tasks


async def test_claims_wait_as_long_as_each_turn_brings_another(served: Served, together: list[int]) -> None:
    await asyncio.gather(*await _one_a_turn(served, 9))
    assert together == [9]


async def test_no_claim_waits_longer_than_that(served: Served, together: list[int]) -> None:
    await asyncio.gather(*await _one_a_turn(served, 9, ms_a_turn=WAIT_MS))
    assert together
    assert max(together) <= WAIT_MS + 2, "the turn that is under way, and those of the time before"


async def test_claims_granted_together_are_settled_repeated_and_explained_like_any_other(served: Served) -> None:
    answers = await asyncio.gather(*(served.claim(f"id {n}", token=n, lease_ms=5_000) for n in range(1, 6)))
    again = await served.claim("id 3", token=3)
    assert (again.claim, again.lease_ms, verdicts_of(again)) == (answers[2].claim, 5_000, ["GRANTED"])
    assert (await served.settle(Verb.COMPLETE, answers[0].claim)).settled == 1
    assert (await served.settle(Verb.RELEASE, answers[1].claim)).settled == 1
    assert [verdicts_of(await served.claim(f"id {n}", token=99, call=n))[0] for n in (1, 2, 3)] == [
        "DUPLICATE",
        "GRANTED",
        "BUSY",
    ]
    with pytest.raises(TokenReused):
        await served.claim("other", token=3)


async def test_nothing_is_answered_before_it_is_durable(served: Served) -> None:
    served.disk.hold()
    tasks = [served.start(served.claim(f"id {n}", token=n)) for n in range(1, 6)]
    await run_ready_tasks()
    assert not any(task.done() for task in tasks)
    await served.disk.release()
    assert all(task.done() for task in tasks)


async def test_a_full_ledger_takes_all_of_them_back(served: Served, together: list[int]) -> None:
    await served.claim("before")
    served.disk.faults = ["full"]
    told = await asyncio.gather(
        served.claim("before", token=50),  # the first of the turn writes nothing
        *(served.claim(f"id {n}", token=n) for n in range(2, 8)),
        return_exceptions=True,
    )
    assert together == [6]
    assert all(isinstance(error, LedgerFull) for error in told[1:])
    counters = served.shard.counters()
    assert (counters["open_claims"], counters["ids"], counters["granted"]) == (1, 1, 1)
    served.clock.advance(2_000)
    await run_ready_tasks()
    answers = await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in range(2, 8)))
    assert [verdicts_of(answer) for answer in answers] == [["GRANTED"]] * 6


@pytest.mark.parametrize("kept", ["lost", "kept"])
async def test_an_unknown_end_is_cured_by_repeating_the_same_calls(kept: str, served: Served) -> None:
    served.disk.faults = [kept]
    told = await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in range(1, 6)), return_exceptions=True)
    assert all(isinstance(error, Exception) for error in told)
    await run_ready_tasks()
    served.clock.advance(1_000)
    await wait_until(lambda: served.gateway.readiness()["default"] == "SERVING")
    answers = await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in range(1, 6)))
    assert [verdicts_of(answer) for answer in answers] == [["GRANTED"]] * 5


async def test_an_id_that_two_of_them_name_goes_to_the_first(served: Served, together: list[int]) -> None:
    asked = [("a",), ("b",), ("f",), ("b", "c"), ("d",), ("c",), ("e",)]
    answers = await asyncio.gather(*(served.claim(*ids, token=n) for n, ids in enumerate(asked, 1)))
    assert [verdicts_of(answer) for answer in answers] == [
        ["GRANTED"],
        ["GRANTED"],
        ["GRANTED"],
        ["BUSY", "GRANTED"],
        ["GRANTED"],
        ["BUSY"],
        ["GRANTED"],
    ]
    assert together == [6]


async def test_a_call_that_is_there_twice_is_granted_once(served: Served, together: list[int]) -> None:
    answers = await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in (1, 2, 3, 4, 5, 2)))
    assert [verdicts_of(answer) for answer in answers] == [["GRANTED"]] * 6
    assert answers[1].claim == answers[5].claim
    assert together == [5]
    told = await asyncio.gather(
        *(served.claim(f"new {n}", token=n, call=9) for n in range(1, 7)),
        served.claim("another", token=2, call=9),
        return_exceptions=True,
    )
    assert isinstance(told[-1], TokenReused)
    assert together == [5, 6]


async def test_few_large_or_refused_claims_go_their_own_way(served: Served, together: list[int]) -> None:
    await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in range(1, FEWEST)))
    large = [f"large {n}" for n in range(IDS_MOST + 1)]
    await asyncio.gather(
        served.claim(*large, token=50), *(served.claim(f"more {n}", token=n, call=2) for n in range(1, FEWEST))
    )
    assert together == []
    told = await asyncio.gather(
        served.claim(*large, token=51),
        served.claim("short", lease_ms=1),
        served.claim("late", token=60, timeout_ms=0),
        served.claim(token=7, call=7),
        *(served.claim(f"last {n}", token=n, call=3) for n in range(1, FEWEST + 1)),
        return_exceptions=True,
    )
    assert isinstance(told[1], BadRequest)
    assert isinstance(told[2], DeadlinePassed)
    assert [verdicts_of(answer) for answer in told[3:] if not isinstance(answer, BaseException)] == [[]] + [
        ["GRANTED"]
    ] * FEWEST
    assert together == [FEWEST]


@pytest.mark.parametrize(("claims", "granted_together"), [(6, [6]), (7, []), (8, [])])
async def test_no_more_are_granted_together_than_may_be_open(
    together: list[int], claims: int, granted_together: list[int]
) -> None:
    async with serving(open_claims=6) as served:
        told = await asyncio.gather(
            *(served.claim(f"id {n}", token=n) for n in range(1, claims + 1)), return_exceptions=True
        )
        assert [isinstance(answer, QuotaExceeded) for answer in told] == [False] * 6 + [True] * (claims - 6)
        assert together == granted_together


async def test_many_are_granted_a_bounded_number_at_a_time(served: Served, together: list[int]) -> None:
    answers = await asyncio.gather(*(served.claim(f"id {n}", token=n) for n in range(2 * MOST + 2)))
    assert [verdicts_of(answer) for answer in answers] == [["GRANTED"]] * (2 * MOST + 2)
    assert together == [MOST, MOST, 2]


async def test_a_caller_that_goes_away_before_the_decision_asks_for_nothing(served: Served) -> None:
    tasks = [served.start(served.claim(f"id {n}", token=n)) for n in range(1, 7)]
    await run_ready_tasks(1)
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served.shard.counters()["open_claims"] == 5
    assert verdicts_of(await served.claim("id 3", token=99)) == ["GRANTED"]


# The calls that were decided together, of each turn.
Decided = list[set[tuple[bytes, int]]]


async def outcomes(
    steps: list[list[Step]], orders: list[list[int]], decided: Decided
) -> tuple[list[list[Outcome]], list[Any]]:
    """Returns the answers of each turn's requests, sent in that order, and the final index without claim names."""
    async with serving(GatedLedgers()) as served:
        found: list[list[Outcome]] = []
        claims: list[bytes | None] = [None]
        for turn, order in zip(steps, orders, strict=True):
            decided.append(set())
            told = await asyncio.gather(*(_step(served, claims, *turn[place]) for place in order))
            in_place = [one for _, one in sorted(zip(order, told, strict=True), key=lambda pair: pair[0])]
            found.append([outcome for outcome, _ in in_place])
            claims += [claim for _, claim in in_place]
            served.clock.advance(7_000)
        held = contents(served.shard.journal.index.claims)
        return found, sorted((state, *rest) for state, _, *rest in held.values())


async def _step(
    served: Served, claims: list[bytes | None], verb: str, token: int, call: int, ids: Outcome
) -> tuple[Outcome, bytes | None]:
    """Runs a step. Returns its answer and its claim."""
    try:
        if verb == "claim":
            answer = await served.claim(*ids, token=token, call=call, lease_ms=10_000)
            return tuple(verdicts_of(answer)), answer.claim
        claim = claims[call % len(claims)]
        if claim is None:
            return (), None
        done = await served.settle(Verb.COMPLETE if token % 2 else Verb.RELEASE, claim)
    except OncegateError as error:
        return (error.code,), None
    return (str(done.state), str(done.settled), str(done.taken_over)), None


def a_turn(rng: random.Random, number: int) -> list[Step]:
    """Returns the requests of one turn: mostly new calls for few of many ids, some repeats, some ids again and
    again."""
    if number % 3 == 2:
        return [("settle", rng.randrange(2), rng.randrange(1_000), ()) for _ in range(3)]
    many = rng.choice((5, 40, 4_000))
    turn = []
    for _ in range(rng.randrange(1, 20)):
        ids = tuple(f"id {rng.randrange(many)}" for _ in range(rng.choice((1, 1, 1, 3))))
        turn.append(("claim", rng.randrange(1, 60), rng.choice((number, number, number - 1)), ids))
    return turn


def in_order(turn: list[Step], decided: set[tuple[bytes, int]]) -> list[int]:
    """Returns the order of a turn's requests: those that were decided together first, then the others."""
    calls = [(id16(token), call) if verb == "claim" else None for verb, token, call, _ in turn]
    first = [place for place, call in enumerate(calls) if call in decided and calls.index(call) == place]
    return first + [place for place in range(len(turn)) if place not in first]


@pytest.mark.parametrize("walk", range(4))
async def test_claims_of_one_turn_are_answered_like_claims_one_after_the_other(
    walk: int, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    rng = random.Random(SEED + walk)
    steps = [a_turn(rng, number) for number in range(1, 40)]
    decided: Decided = []
    answer = ClaimBatcher._answer

    def noted(self: ClaimBatcher, some: list[Any], told: ClaimBatch, position: int) -> None:
        decided[-1].update(
            (one.request.token, one.request.call) for one, on in zip(some, told.rests_on, strict=True) if on != LEFT
        )
        answer(self, some, told, position)

    monkeypatch.setattr(ClaimBatcher, "_answer", noted)
    shared = await outcomes(steps, [list(range(len(turn))) for turn in steps], decided)
    assert sum(together) > 50, "many were granted together"
    monkeypatch.setattr(claims_use_case, "IDS_MOST", 0)
    together.clear()
    orders = [in_order(turn, calls) for turn, calls in zip(steps, decided, strict=True)]
    assert await outcomes(steps, orders, []) == shared
    assert together == []
