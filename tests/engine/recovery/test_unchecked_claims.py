"""Claims pass unchecked only while the ledger itself is down and no other gateway may own or configure it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncegate.core.errors import LedgerDown, LedgerFenced, Recovering
from oncegate.core.lifecycle import Event
from oncegate.engine.gateway import open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.policies.unchecked import CALLERS_KNOWN_MAX
from oncegate.engine.recovery.owner import EVICTION_MS
from oncegate.engine.recovery.unchecked_claims import TOLD_MS
from oncegate.ports import Followed, OpenLedger
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock
from tests.support.followed import followed
from tests.support.memory_gateway import (
    Events,
    GatedLedgers,
    Served,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
)
from tests.support.outages import PASS, REJECT, UNCHECKED, ask, ask_of, come_back, go_down, noted


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        await served.namespace.settings.configure(PASS, served.deadline())
        yield served


class Followable(GatedLedgers):
    """Ledgers owned by this gateway until `other` is set; then it is a standby until `broken` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.other, self.broken = False, asyncio.Event()
        self.first: OpenLedger | None = None
        self.refuse_to_take_over: Exception | None = None

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`."""
        if self.disk.refuse_to_open is not None:
            raise self.disk.refuse_to_open
        async with followed(self, namespace, self.first, self._turn, self._standing) as found:
            yield found

    async def _turn(self) -> None:
        if self.other:
            await self.broken.wait()
            raise LedgerDown("it is followed anew")
        if self.refuse_to_take_over is not None:
            raise self.refuse_to_take_over

    def _standing(self) -> str:
        return "another owns it" if self.other else ""


@pytest.fixture
async def standby() -> AsyncIterator[tuple[Followable, Served]]:
    """A gateway that may become a standby, and owns the ledger at first."""
    ledgers, clock, events = Followable(), FakeClock(), Events()
    await ledgers.create("default")
    async with ledgers.open("default") as ledgers.first:
        pass
    async with open_gateway(ledgers, MemoryRunFolders(), clock, events, standby=True) as gateway:
        await wait_until(lambda: gateway.readiness()["default"] == "SERVING")
        served = Served(gateway, ledgers, clock, events)
        await served.namespace.settings.configure(PASS, served.deadline())
        yield ledgers, served


async def test_a_gateway_that_was_a_standby_lets_nothing_pass_when_following_breaks(
    standby: tuple[Followable, Served],
) -> None:
    """The owner has served in between, and an operator may have changed the setting."""
    ledgers, served = standby
    await go_down(served)
    assert verdicts_of(await ask(served, "a")) == [UNCHECKED]
    ledgers.other, ledgers.disk.refuse_to_open = True, None
    await run_ready_tasks()
    served.clock.advance(60_000)
    await wait_until(lambda: served.gateway.readiness()["default"] == "STANDBY")
    with pytest.raises(Recovering):
        await ask(served, "a")
    ledgers.disk.refuse_to_open = LedgerDown("its server is away")
    ledgers.broken.set()
    await wait_until(lambda: served.gateway.readiness()["default"] == "RECOVERING")
    for _ in range(3):
        with pytest.raises(Recovering):
            await ask(served, "a")
        await run_ready_tasks()
        served.clock.advance(60_000)


async def test_who_meets_another_owner_while_opening_lets_nothing_pass_any_more(
    standby: tuple[Followable, Served],
) -> None:
    ledgers, served = standby
    await go_down(served)
    assert verdicts_of(await ask(served, "a")) == [UNCHECKED]
    ledgers.disk.refuse_to_open = None
    ledgers.refuse_to_take_over = LedgerFenced("another gateway owns it")
    await run_ready_tasks()
    served.clock.advance(60_000)
    await wait_until(lambda: served.events.seen[-1][1].get("error") == "another gateway owns it")
    with pytest.raises(Recovering):
        await ask(served, "a")


async def test_a_request_of_one_outage_is_not_passed_in_the_next_which_is_set_otherwise(served: Served) -> None:
    await go_down(served)
    old = served.gateway.claims("default", "slow")
    await come_back(served)
    await served.namespace.settings.configure(REJECT, served.deadline())
    await go_down(served)
    with pytest.raises(Recovering):
        await ask_of(served, old, "a")


async def test_a_request_of_one_outage_is_not_passed_in_the_next_by_what_was_known_before(served: Served) -> None:
    """Its ledger position is older than the gateway's recovery."""
    await go_down(served)
    old = served.gateway.claims("default", "slow")
    await come_back(served)
    await go_down(served)
    assert verdicts_of(await ask(served, "a")) == [UNCHECKED]
    with pytest.raises(Recovering):
        await ask_of(served, old, "a")


class BrokenWork:
    """Background work with a bug."""

    def due_ms(self) -> int:
        return 0

    async def turn(self) -> None:
        raise AssertionError("a bug of the snapshotter")

    async def stop(self) -> None:
        return None


async def test_a_bug_of_the_gateways_own_lets_nothing_pass_while_the_ledger_can_be_opened(served: Served) -> None:
    namespace = served.namespace
    namespace.home.group_commit.between = BrokenWork()
    namespace.home.group_commit.wake()
    await wait_until(lambda: namespace.home.group_commit.ending() is not None)
    with pytest.raises(Recovering):
        await ask(served, "a")
    assert "passing_unchecked" not in served.events.names()
    await come_back(served)
    assert verdicts_of(await ask(served, "a")) == ["GRANTED"]


async def test_claims_pass_once_the_ledger_cannot_be_opened_whatever_ended_it_before(served: Served) -> None:
    served.disk.refuse_to_open = LedgerDown("its server is away")
    served.shard.group_commit.write_end(Event.FAILED, LedgerDown("a compaction failed; unknown whether it was made"))
    with pytest.raises(Recovering):
        await ask(served, "a")
    await run_ready_tasks()
    served.clock.advance(60_000)
    await run_ready_tasks()
    assert verdicts_of(await ask(served, "a")) == [UNCHECKED]
    assert served.events.names().count("passing_unchecked") == 1
    await come_back(served)
    assert [one.changed for one in await noted(served)] == [1]


async def test_a_ledger_that_cannot_be_opened_for_a_bug_or_for_want_of_memory_lets_nothing_pass(
    served: Served,
) -> None:
    served.disk.refuse_to_open = ZeroDivisionError("a bug of the replay")
    served.shard.group_commit.write_end(Event.FAILED, LedgerDown("a compaction failed; unknown whether it was made"))
    for refused in (ZeroDivisionError("a bug of the replay"), MemoryError()):
        served.disk.refuse_to_open = refused
        await run_ready_tasks()
        served.clock.advance(60_000)
        await run_ready_tasks()
        with pytest.raises(Recovering):
            await ask(served, "a")


async def test_a_ledger_ended_by_its_upkeep_lets_nothing_pass_after_the_append_that_gets_the_error() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(PASS, served.deadline())
        served.disk.hold()
        under_way = await served.begin(served.claim("a"))
        ledgers.ends["default"].write_beside(LedgerDown("its upkeep has failed; open it anew"))
        served.disk.faults = ["lost"]
        await served.disk.release()
        with pytest.raises(LedgerDown):
            await under_way
        with pytest.raises(Recovering):
            await ask(served, "a")


@pytest.mark.parametrize(
    "callers",
    [
        [f"system:serviceaccount:team-{number}:{'x' * 90}" for number in range(7)],
        [f"{'ü' * 300}-{number}" for number in range(3)],
        ["job-\ud800"],
    ],
)
async def test_unchecked_grants_are_recorded_whatever_callers_are_named(served: Served, callers: list[str]) -> None:
    await go_down(served)
    for caller in callers:
        await ask(served, "a", caller=caller)
    await come_back(served)
    (record,) = await noted(served)
    assert record.changed == len(callers)
    assert len(record.who.encode()) <= Limits().name_bytes
    assert record.who.startswith(callers[0].encode("utf-8", "replace").decode()[:100])
    assert record.who.endswith(" and 2 others") == (len(callers) == 7)


async def test_the_log_has_the_count_at_once_and_each_minute_while_it_grows(served: Served) -> None:
    """If the gateway dies before the ledger is back, its log has the only record."""

    async def told_after(ms: int) -> list[object]:
        await run_ready_tasks()
        served.clock.advance(ms)
        await run_ready_tasks()
        return [fields["count"] for name, fields in served.events.seen if name == "unchecked_so_far"]

    await go_down(served)
    assert await told_after(EVICTION_MS) == []
    await ask(served, "a", "b")
    assert await told_after(EVICTION_MS) == [2]
    await ask(served, "a")
    assert await told_after(EVICTION_MS) == [2]
    assert await told_after(TOLD_MS) == [2, 3]
    assert await told_after(TOLD_MS) == [2, 3]
    subject = next(fields["subject"] for name, fields in served.events.seen if name == "unchecked_so_far")
    assert str(subject).startswith("ids of 1 claims from ")
    await come_back(served)
    assert [one.changed for one in await noted(served)] == [3]
    await go_down(served)
    await ask(served, "d")
    assert await told_after(EVICTION_MS) == [2, 3, 1], "the next outage has a count of its own"


async def test_no_more_names_are_kept_than_may_be_reported(served: Served) -> None:
    await go_down(served)
    for number in range(CALLERS_KNOWN_MAX + 20):
        await ask(served, "a", caller=f"token-{number:03}")
    await come_back(served)
    (record,) = await noted(served)
    assert record.changed == CALLERS_KNOWN_MAX + 20
    assert record.who.startswith("token-000, token-001, ")
    assert record.who.endswith(f" and {CALLERS_KNOWN_MAX - 5} others or more")


async def test_a_record_that_fails_unexpectedly_is_logged_once_and_written_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    await go_down(served)
    await ask(served, "a", "b")
    with monkeypatch.context() as patched:
        patched.setattr("oncegate.engine.usecases.operations.actions.Actions.note", broken)
        await come_back(served)
        for number in range(3):
            await served.claim(f"w{number}", token=50 + number)
            served.clock.advance(EVICTION_MS)
            await run_ready_tasks()
    assert served.events.names().count("unchecked_note_failed") == 1
    await served.claim("w", token=60)
    served.clock.advance(EVICTION_MS)
    assert [one.changed for one in await noted(served)] == [2]
