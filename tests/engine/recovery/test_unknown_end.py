"""An append with an unknown outcome poisons the shard: no answers, then an index rebuilt from the ledger."""

from collections.abc import AsyncIterator

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import LedgerBusy, LedgerDamaged, LedgerDown, LedgerFenced, Recovering
from oncegate.engine.recovery.owner import EVICTION_MS, REOPEN_MS
from tests.support.memory_gateway import (
    GatedLedgers,
    Served,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
    winner,
)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def serve_again(served: Served, after_ms: int = REOPEN_MS) -> None:
    await run_ready_tasks()
    served.clock.advance(after_ms)
    await wait_until(lambda: served.gateway.readiness()["default"] != "RECOVERING")


async def test_all_waiting_callers_get_an_unknown_outcome(served: Served) -> None:
    served.disk.hold()
    tasks = [await served.begin(served.claim(name, token=token)) for token, name in enumerate(["a", "b"], 1)]
    served.disk.faults = ["lost"]
    await served.disk.release()
    for task in tasks:
        assert isinstance(task.exception(), LedgerDown)
        assert "unknown" in str(task.exception())


async def test_nothing_is_answered_until_the_index_is_rebuilt(served: Served) -> None:
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    assert served.gateway.readiness() == {"default": "RECOVERING"}
    with pytest.raises(Recovering):
        await served.claim("a")
    await serve_again(served)
    assert served.gateway.readiness() == {"default": "SERVING"}
    assert "ledger_lost" in served.events.names()


async def test_a_request_that_held_the_poisoned_shard_is_not_answered_by_it(served: Served) -> None:
    """Durable entries do not allow an answer either: the next owner may have granted the ids to others."""
    claimed = await served.claim("a")
    done = await served.claim("b", token=2)
    await served.settle(Verb.COMPLETE, done.claim)
    namespace = served.namespace
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("c", token=3)
    for verb, claim in ((Verb.RENEW, claimed.claim), (Verb.COMPLETE, done.claim)):
        with pytest.raises(LedgerDown):
            await namespace.claims.settle(verb, claim or b"", served.deadline())


async def test_unwritten_ids_are_free_after_the_rebuild(served: Served) -> None:
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await serve_again(served)
    assert verdicts_of(await served.claim("a", token=2)) == ["GRANTED"]


async def test_ids_written_nevertheless_are_held_after_the_rebuild(served: Served) -> None:
    served.disk.faults = ["kept"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await serve_again(served)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    repeated = await served.claim("a")
    assert (verdicts_of(repeated), repeated.claim is not None) == (["GRANTED"], True)


async def test_a_commit_of_unknown_end_is_repeated_with_its_nonce(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1, 2)))
    served.disk.faults = ["kept"]
    with pytest.raises(LedgerDown):
        await served.commit(staged, nonce=4)
    await serve_again(served)
    assert (await served.commit(staged, nonce=4)).outcome == "COMMITTED"
    assert await served.read() == [1, 2]


async def test_an_open_claim_has_a_full_lease_after_the_rebuild(served: Served) -> None:
    claimed = await served.claim("a", lease_ms=10_000)
    served.clock.advance(9_000)
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("b", token=2)
    await serve_again(served)
    served.clock.advance(9_000)
    assert verdicts_of(await served.claim("a", token=3)) == ["BUSY"]
    assert (await served.settle(Verb.COMPLETE, claimed.claim)).settled == 1


async def test_leases_count_from_when_the_shard_serves_however_long_its_start_took(served: Served) -> None:
    await served.claim("a", lease_ms=10_000)
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("b", token=2)
    served.disk.hold()
    await run_ready_tasks()
    served.clock.advance(REOPEN_MS)
    await wait_until(lambda: served.disk.under_way == 1)
    served.clock.advance(60_000)
    assert served.gateway.readiness() == {"default": "RECOVERING"}, "its epoch is not durable yet"
    await served.disk.release()
    served.clock.advance(9_999)
    assert verdicts_of(await served.claim("a", token=3)) == ["BUSY"]
    served.clock.advance(1)
    assert verdicts_of(await served.claim("a", token=3, call=2)) == ["GRANTED+TAKEOVER"]


async def test_the_first_entry_of_a_rebuilt_shard_is_its_epochs(served: Served) -> None:
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await serve_again(served)
    assert served.disk.kinds()[-1] == ["Opened"]
    assert served.disk.opened == 2


async def test_a_ledger_that_cannot_be_opened_yet_is_tried_again_ever_more_slowly(served: Served) -> None:
    served.disk.refuse_to_open = OSError(5, "Input/output error")
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    for pause_ms in (REOPEN_MS, 2 * REOPEN_MS, 4 * REOPEN_MS):
        await served.check_next_opening_after(pause_ms)
        assert served.gateway.readiness() == {"default": "RECOVERING"}
    served.disk.refuse_to_open = None
    await serve_again(served, 8 * REOPEN_MS)
    assert verdicts_of(await served.claim("a")) == ["GRANTED"]


async def test_after_serving_again_the_next_failure_waits_no_longer_than_the_first(served: Served) -> None:
    for round_ in range(5):
        served.disk.faults = ["lost"]
        with pytest.raises(LedgerDown):
            await served.claim("a", token=round_)
        await serve_again(served, REOPEN_MS)
        assert served.gateway.readiness() == {"default": "SERVING"}


@pytest.mark.parametrize("error", [LedgerDamaged("a byte is not what it was"), LedgerBusy("owned by 4711")])
async def test_a_ledger_that_must_not_serve_stays_down(served: Served, error: Exception) -> None:
    served.disk.refuse_to_open = error
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    await serve_again(served)
    assert served.gateway.readiness() == {"default": "DOWN"}
    with pytest.raises(type(error), match="is down"):
        await served.claim("a")


async def test_a_fenced_owner_stays_down_and_writes_nothing(served: Served) -> None:
    async with serving(served.ledgers) as newer:
        with pytest.raises(LedgerFenced):
            await served.claim("a")
        await run_ready_tasks()
        assert served.gateway.readiness() == {"default": "DOWN"}
        with pytest.raises(LedgerFenced, match="is down"):
            await served.claim("a")
        await serve_again(served)
        assert served.gateway.readiness() == {"default": "DOWN"}, "it takes nothing back from its successor"
        assert verdicts_of(await newer.claim("a", token=2)) == ["GRANTED"]


async def test_an_append_under_way_is_unknown_where_another_gateway_is_found_to_own_the_ledger() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        served.disk.hold()
        under_way = await served.begin(served.claim("a"))
        behind = await served.begin(served.claim("b", token=2))
        followed = LedgerFenced("another gateway owns the ledgers now; nothing was written")
        ledgers.ends["default"].write_beside(followed)
        served.clock.advance(EVICTION_MS)
        await run_ready_tasks()
        assert isinstance(under_way.exception(), LedgerDown)
        assert "unknown" in str(under_way.exception())
        assert isinstance(behind.exception(), LedgerFenced)
        await served.disk.release()


async def test_other_namespaces_go_on(served: Served) -> None:
    await served.gateway.create("other")
    served.disk.faults = ["lost"]
    with pytest.raises(LedgerDown):
        await served.claim("a")
    assert served.gateway.readiness() == {"default": "RECOVERING", "other": "SERVING"}
