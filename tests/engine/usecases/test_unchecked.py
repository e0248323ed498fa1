"""Claims that pass unchecked while the ledger is down (`on_ledger_down`): told, counted, noted, and never by itself."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import OnLedgerDown, Verb
from oncegate.core.errors import (
    BadRequest,
    LedgerBehind,
    LedgerDamaged,
    LedgerDown,
    LedgerFenced,
    LedgerFull,
    OncegateError,
    QuotaExceeded,
    Recovering,
    TooLarge,
)
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.recovery.owner import EVICTION_MS, REOPEN_MS
from oncegate.engine.requests import ClaimRequest, ClaimResult, SettingsRequest
from oncegate.index.audit_trail import AuditRecord
from oncegate.index.table.grants import NO_CLAIM
from oncegate.ports import Mark
from tests.support.held import HeldLedgers, Served, id16, said, serving, turns, until

PASS, REJECT = (SettingsRequest(on_ledger_down=way) for way in (OnLedgerDown.PASS_MARKED, OnLedgerDown.REJECT))
UNCHECKED = "GRANTED+UNCHECKED"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(ids_per_request=10) as served:
        await served.shard.configure(PASS, served.deadline())
        yield served


async def go_down(served: Served) -> None:
    """The ledger fails, and cannot be opened any more."""
    served.disk.faults = ["lost"]
    served.disk.refuse_to_open = OSError(5, "Input/output error")
    with pytest.raises(LedgerDown):
        await served.claim("whoever is under way", token=99)


async def come_back(served: Served, after_ms: int = 60_000) -> None:
    served.disk.refuse_to_open = None
    await turns()
    served.clock.advance(after_ms)
    await until(lambda: served.gateway.readiness()["default"] == "SERVING")


async def ask(served: Served, *ids: str, caller: str = "", token: int = 1, **more: object) -> ClaimResult:
    claims = served.gateway.claims("default", caller)
    prints = claims.fingerprints().of_array(pa.array(ids, pa.string()))
    return await claims.claim(ClaimRequest(id16(token), 7, prints, **more), served.deadline())  # type: ignore[arg-type]


async def noted(served: Served) -> list[AuditRecord]:
    await turns()
    trail: list[AuditRecord] = await served.shard.operations.actions.trail(None, 10)
    return [one for one in trail if one.action == "pass unchecked"]


def counted(served: Served) -> int:
    return served.shard.counters()["unchecked_ids"]


async def test_what_is_known_and_what_is_new_alike_is_granted_and_marked_and_nothing_is_held(served: Served) -> None:
    done = await served.claim("done")
    await served.settle(Verb.COMPLETE, done.claim)
    await served.claim("held", token=2)
    await go_down(served)
    answer = await ask(served, "done", "held", "new", token=3)
    assert said(answer) == [UNCHECKED] * 3
    assert answer.claim == NO_CLAIM
    assert said(await ask(served, "new", token=4)) == [UNCHECKED], "nobody is told what another was told"
    await come_back(served)
    assert said(await served.claim("done", "held", "new", token=5)) == ["DUPLICATE", "BUSY", "GRANTED"]
    assert counted(served) == 4


async def test_ids_of_one_request_are_told_apart_without_a_ledger(served: Served) -> None:
    await go_down(served)
    digests = np.array([1, 2, 0, 1, 5], np.uint32)
    answer = await ask(served, "a", "b", "a", "a", "b", digests=digests)
    assert said(answer) == [UNCHECKED, UNCHECKED, "SAME", "SAME", "CONFLICT"]
    assert answer.numbers.tolist() == [0, 0, 0, 0, 0]
    same = await ask(served, "c", "d", "d")
    assert (said(same), same.numbers.tolist()) == ([UNCHECKED, UNCHECKED, "SAME"], [0, 0, 1])


async def test_by_default_nothing_passes(served: Served) -> None:
    await served.shard.configure(REJECT, served.deadline())
    await go_down(served)
    with pytest.raises(Recovering):
        await ask(served, "a")


async def test_a_setting_that_was_not_durable_when_the_ledger_failed_lets_nothing_pass() -> None:
    async with serving() as served:
        served.disk.faults = ["lost"]
        served.disk.refuse_to_open = OSError(5, "Input/output error")
        with pytest.raises(LedgerDown):
            await served.shard.configure(PASS, served.deadline())
        with pytest.raises(Recovering):
            await ask(served, "a")


async def test_a_gateway_that_never_had_the_ledger_lets_nothing_pass() -> None:
    """It cannot know the setting: what an operator chose is in the ledger."""
    ledgers = HeldLedgers()
    async with serving(ledgers) as served:
        await served.shard.configure(PASS, served.deadline())
    ledgers.disk.refuse_to_open = Recovering("its server is away")
    with pytest.raises(LedgerDown):
        async with serving(ledgers) as later:
            await ask(later, "a")


@pytest.mark.parametrize("why", [LedgerFenced("another owns it"), LedgerDamaged("cut")])
async def test_a_ledger_that_is_another_gateways_or_damaged_lets_nothing_pass(
    served: Served, why: OncegateError
) -> None:
    served.shard.group_commit.die(why)
    await turns()
    with pytest.raises(type(why)):
        await ask(served, "a")


async def test_a_full_ledger_is_no_ledger_that_is_down(served: Served) -> None:
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await ask(served, "a")
    with pytest.raises(LedgerFull):
        await ask(served, "b")


async def test_what_was_passed_is_noted_once_with_how_many_when_and_whose(served: Served) -> None:
    await go_down(served)
    await ask(served, "a", "b", caller="job-2")
    served.clock.advance(REOPEN_MS // 2)
    await ask(served, "c", caller="job-1")
    await come_back(served)
    (record,) = await noted(served)
    assert (record.changed, record.who) == (3, "job-1, job-2")
    assert record.subject.startswith("ids of 2 claims from ")
    began, ended = record.subject.removeprefix("ids of 2 claims from ").split(" until ")
    assert began < ended
    assert record.why == "the ledger was down, and on_ledger_down is pass_marked"
    served.clock.advance(EVICTION_MS)
    assert len(await noted(served)) == 1


async def test_a_note_that_the_ledger_loses_is_made_again(served: Served) -> None:
    await go_down(served)
    await ask(served, "a")
    served.disk.refuse_to_open = None
    served.disk.faults = ["", "lost"]  # the epoch's entry, and the note
    await turns()
    served.clock.advance(60_000)
    await until(lambda: not served.disk.faults)
    assert said(await ask(served, "b")) == [UNCHECKED], "it is down again"
    await come_back(served)
    (record,) = await noted(served)
    assert record.changed == 2
    assert record.who == "callers without a key"


async def test_a_stop_before_the_ledger_is_back_tells_what_it_will_never_know() -> None:
    async with serving() as served:
        await served.shard.configure(PASS, served.deadline())
        await go_down(served)
        await ask(served, "a")
    (told,) = [fields for name, fields in served.events.seen if name == "unchecked_not_noted"]
    assert told["count"] == 1


async def test_a_request_that_came_while_it_was_down_is_not_passed_once_it_is_back(served: Served) -> None:
    await go_down(served)
    claims = served.gateway.claims("default")
    await come_back(served)
    prints = claims.fingerprints().of_array(pa.array(["a"], pa.string()))
    with pytest.raises(Recovering):
        await claims.claim(ClaimRequest(id16(1), 1, prints), served.deadline())
    assert await noted(served) == []


async def test_only_the_claim_that_names_nothing_can_be_settled(served: Served) -> None:
    held = await served.claim("a")
    await go_down(served)
    claims = served.gateway.claims("default")
    assert (await claims.settle(Verb.COMPLETE, NO_CLAIM, served.deadline())).settled == 0
    with pytest.raises(Recovering, match="no claim can be settled"):
        await claims.settle(Verb.COMPLETE, held.claim or b"", served.deadline())


async def test_what_a_shard_refuses_is_refused(served: Served) -> None:
    mark = served.shard.mark
    await go_down(served)
    with pytest.raises(TooLarge):
        await ask(served, *map(str, range(11)))
    with pytest.raises(BadRequest, match="a lease of 1 ms"):
        await ask(served, "a", lease_ms=1)
    with pytest.raises(Recovering, match="nobody can tell of firsts"):
        await ask(served, "a", locate=True)
    claims = served.gateway.claims("default")
    assert isinstance(claims, Unchecked)
    claims.require(mark)
    with pytest.raises(LedgerBehind):
        claims.require(Mark(mark.ledger, mark.position + 1, mark.chain))


async def test_the_quota_of_ids_holds_while_it_is_down() -> None:
    async with serving(ids_per_second=10) as served:
        await served.shard.configure(PASS, served.deadline())
        await go_down(served)
        with pytest.raises(QuotaExceeded):
            await asyncio.gather(*(ask(served, *map(str, range(10))) for _ in range(100)))


async def test_every_other_call_is_refused(served: Served) -> None:
    await go_down(served)
    with pytest.raises(Recovering):
        served.gateway.shard("default")


async def test_the_index_of_a_shard_that_is_lost_is_let_go_while_claims_pass(served: Served) -> None:
    """It may be gigabytes, and the next one is built beside it."""
    index = weakref.ref(served.shard.journal.index)
    await go_down(served)
    await turns()
    gc.collect()
    assert said(await ask(served, "a")) == [UNCHECKED]
    assert index() is None
