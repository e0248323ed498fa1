"""Claims that pass unchecked while the ledger is down (`on_ledger_down`): marked, counted, recorded, and only if
enabled."""

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
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
from oncegate.core.lifecycle import end_of
from oncegate.core.verdicts import Flag, Verdict
from oncegate.core.wall_time import text_of
from oncegate.engine.policies.unchecked import Unchecked, verdicts_alone
from oncegate.engine.recovery.owner import EVICTION_MS, REOPEN_MS
from oncegate.engine.requests import SettingsRequest
from oncegate.index.table.grants import NO_CLAIM
from oncegate.ports import Mark
from tests.support.memory_gateway import GatedLedgers, Served, run_ready_tasks, serving, verdicts_of, wait_until
from tests.support.outages import PASS, REJECT, UNCHECKED, ask, ask_of, come_back, go_down, noted

_PASSED = Verdict.GRANTED | Flag.UNCHECKED


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(ids_per_request=10) as served:
        await served.namespace.settings.configure(PASS, served.deadline())
        yield served


def counted(served: Served) -> int:
    return served.shard.counters()["unchecked_ids"]


async def test_known_and_new_ids_alike_are_granted_and_marked_and_nothing_is_held(served: Served) -> None:
    done = await served.claim("done")
    await served.settle(Verb.COMPLETE, done.claim)
    await served.claim("held", token=2)
    await go_down(served)
    answer = await ask(served, "done", "held", "new", token=3)
    assert verdicts_of(answer) == [UNCHECKED] * 3
    assert answer.claim == NO_CLAIM
    assert verdicts_of(await ask(served, "new", token=4)) == [UNCHECKED], "no caller gets another caller's answer"
    await come_back(served)
    assert verdicts_of(await served.claim("done", "held", "new", token=5)) == ["DUPLICATE", "BUSY", "GRANTED"]
    assert counted(served) == 4


async def test_ids_of_one_request_are_distinguished_without_a_ledger(served: Served) -> None:
    await go_down(served)
    digests = np.array([1, 2, 0, 1, 5], np.uint32)
    answer = await ask(served, "a", "b", "a", "a", "b", digests=digests)
    assert verdicts_of(answer) == [UNCHECKED, UNCHECKED, "SAME", "SAME", "CONFLICT"]
    assert answer.numbers.tolist() == [0, 0, 0, 0, 0]
    same = await ask(served, "c", "d", "d")
    assert (verdicts_of(same), same.numbers.tolist()) == ([UNCHECKED, UNCHECKED, "SAME"], [0, 0, 1])


async def test_by_default_nothing_passes(served: Served) -> None:
    await served.namespace.settings.configure(REJECT, served.deadline())
    await go_down(served)
    with pytest.raises(Recovering):
        await ask(served, "a")


async def test_a_setting_that_was_not_durable_when_the_ledger_failed_lets_nothing_pass() -> None:
    async with serving() as served:
        served.disk.faults = ["lost"]
        served.disk.refuse_to_open = OSError(5, "Input/output error")
        with pytest.raises(LedgerDown):
            await served.namespace.settings.configure(PASS, served.deadline())
        with pytest.raises(Recovering):
            await ask(served, "a")


async def test_a_gateway_that_never_had_the_ledger_lets_nothing_pass() -> None:
    """The gateway cannot know the setting, which is in the ledger."""
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(PASS, served.deadline())
    ledgers.disk.refuse_to_open = Recovering("its server is away")
    with pytest.raises(Recovering):
        async with serving(ledgers) as later:
            await ask(later, "a")


@pytest.mark.parametrize("why", [LedgerFenced("another owns it"), LedgerDamaged("cut")])
async def test_a_ledger_that_is_another_gateways_or_damaged_lets_nothing_pass(
    served: Served, why: OncegateError
) -> None:
    served.shard.group_commit.write_end(end_of(why), why)
    await run_ready_tasks()
    with pytest.raises(type(why)):
        await ask(served, "a")


async def test_a_full_ledger_is_no_ledger_that_is_down(served: Served) -> None:
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await ask(served, "a")
    with pytest.raises(LedgerFull):
        await ask(served, "b")


async def test_unchecked_grants_are_recorded_once_with_number_time_and_caller(served: Served) -> None:
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
    served.disk.faults = ["", "lost"]  # the epoch's entry, and the record
    await run_ready_tasks()
    served.clock.advance(60_000)
    await wait_until(lambda: not served.disk.faults)
    assert verdicts_of(await ask(served, "b")) == [UNCHECKED], "it is down again"
    await come_back(served)
    (record,) = await noted(served)
    assert record.changed == 2
    assert record.who == "callers without a key"


async def test_a_note_that_is_made_again_names_the_whole_time(served: Served) -> None:
    begun_ms = served.clock.wall_ms()
    await go_down(served)
    await ask(served, "a")
    served.clock.advance(REOPEN_MS // 2)
    await ask(served, "b")
    last_ms = served.clock.wall_ms()
    served.disk.refuse_to_open = None
    served.disk.faults = ["", "lost"]  # the epoch's entry, and the record
    await run_ready_tasks()
    served.clock.advance(60_000)
    await wait_until(lambda: not served.disk.faults)
    await run_ready_tasks()
    await come_back(served)
    (record,) = await noted(served)
    assert record.subject == f"ids of 2 claims from {text_of(begun_ms)} until {text_of(last_ms)}"


async def test_a_stop_before_the_ledger_is_back_reports_what_will_never_be_known() -> None:
    async with serving() as served:
        await served.namespace.settings.configure(PASS, served.deadline())
        await go_down(served)
        await ask(served, "a")
    (told,) = [fields for name, fields in served.events.seen if name == "unchecked_not_noted"]
    assert told["count"] == 1


async def test_a_request_that_came_while_it_was_down_is_not_passed_once_it_is_back(served: Served) -> None:
    await go_down(served)
    claims = served.gateway.claims("default")
    await come_back(served)
    with pytest.raises(Recovering):
        await ask_of(served, claims, "a")
    assert await noted(served) == []


async def test_only_the_claim_that_names_nothing_can_be_settled(served: Served) -> None:
    claimed = await served.claim("a")
    await go_down(served)
    claims = served.gateway.claims("default")
    assert (await claims.settle(Verb.COMPLETE, NO_CLAIM, served.deadline())).settled == 0
    with pytest.raises(Recovering, match="no claim can be settled"):
        await claims.settle(Verb.COMPLETE, claimed.claim or b"", served.deadline())


async def test_requests_refused_by_a_shard_are_refused(served: Served) -> None:
    mark = served.namespace.mark
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
        await served.namespace.settings.configure(PASS, served.deadline())
        await go_down(served)
        with pytest.raises(QuotaExceeded):
            await asyncio.gather(*(ask(served, *map(str, range(10))) for _ in range(100)))


async def test_every_other_call_is_refused(served: Served) -> None:
    await go_down(served)
    with pytest.raises(Recovering):
        served.gateway.namespace("default")


async def test_the_index_of_a_shard_that_is_lost_is_let_go_while_claims_pass(served: Served) -> None:
    """The index may be gigabytes, and the next one is built beside it."""
    index = weakref.ref(served.shard.journal.index)
    await go_down(served)
    await run_ready_tasks()
    gc.collect()
    assert verdicts_of(await ask(served, "a")) == [UNCHECKED]
    assert index() is None


async def test_in_shadow_mode_every_id_passes_and_gets_its_would_be_verdict() -> None:
    async with serving() as served:
        set_up = SettingsRequest(on_ledger_down=OnLedgerDown.PASS_MARKED, shadow=True)
        await served.namespace.settings.configure(set_up, served.deadline())
        await go_down(served)
        answer = await ask(served, "a", "a", "a", "b", digests=np.array([1, 2, 1, 0], np.uint32))
        assert verdicts_of(answer) == [UNCHECKED] * 4
        assert answer.numbers.tolist() == [0] * 4
        assert answer.shadow is not None
        assert verdicts_of(replace(answer, verdicts=answer.shadow)) == [UNCHECKED, "CONFLICT", "SAME", UNCHECKED]
        await come_back(served)
        counted = served.shard.counters()
        assert (counted["unchecked_ids"], counted["shadowed_ids"]) == (4, 2)


def test_ids_of_any_request_are_distinguished_as_by_a_dict() -> None:
    seed = 20_261_126
    print("seed", seed)
    random = np.random.default_rng(seed)
    for _ in range(300):
        ids = random.integers(0, 4, (random.integers(0, 30), 2), np.uint64)
        digests = random.integers(0, 3, len(ids), np.uint32)
        known: dict[bytes, int] = {}
        firsts = [known.setdefault(one.tobytes(), at) for at, one in enumerate(ids)]
        verdicts, numbers = verdicts_alone(ids, digests)
        for at, first in enumerate(firsts):
            differ = digests[at] != digests[first] and digests[at] and digests[first]
            expected = _PASSED if first == at else Verdict.CONFLICT if differ else Verdict.SAME
            assert (verdicts[at], numbers[at]) == (expected, first if expected == Verdict.SAME else 0)


def test_a_large_request_does_not_hold_the_loop_for_a_sort_of_its_rows() -> None:
    """Compares this thread's processor time, the least of three runs, with that of sorting whole rows."""
    ids = np.random.default_rng(1).integers(0, 2**63, (100_000, 2)).astype(np.uint64)
    ids[50_000] = ids[7]

    def least(work: Callable[[], object]) -> int:
        found = []
        for _ in range(3):
            began = time.thread_time_ns()
            work()
            found.append(time.thread_time_ns() - began)
        return min(found)

    assert 2 * least(lambda: verdicts_alone(ids, None)) < least(lambda: np.unique(ids, axis=0, return_inverse=True))
