"""The state of a namespace, as its owner derives it from the tables of `core.lifecycle`."""

import errno

import pytest

from oncegate.core.errors import LedgerDown, LedgerFull, Recovering
from oncegate.core.lifecycle import State
from oncegate.engine.deadline import Deadline
from oncegate.engine.producer_requests import Note
from tests.support.memory_gateway import GatedLedgers, Served, serving


class Away(GatedLedgers):
    """Ledgers whose server may be unavailable."""

    unreached: LedgerDown | None = None

    def away(self) -> LedgerDown | None:
        return self.unreached


async def _drain(served: Served, draining: bool) -> None:
    await served.gateway.drain(Note("ops", "an upgrade"), draining, Deadline(served.clock, None))


def _life(served: Served) -> State:
    (owner,) = served.gateway.owners()
    return owner.life


async def test_a_condition_changes_the_state_while_it_lasts_and_no_longer() -> None:
    ledgers = Away()
    async with serving(ledgers) as served:
        assert _life(served) is State.SERVING
        await _drain(served, True)
        assert (_life(served), served.gateway.readiness()) == (State.LEAVING, {"default": "SERVING"})
        served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await served.claim("a")
        assert (_life(served), served.gateway.readiness()) == (State.FULL, {"default": "FULL"})
        ledgers.unreached = LedgerDown("its server cannot be reached")
        assert (_life(served), served.gateway.readiness()) == (State.AWAY, {"default": "RECOVERING"})
        ledgers.unreached = None
        assert _life(served) is State.FULL
        served.shard.group_commit.room.end_full()
        assert _life(served) is State.LEAVING
        await _drain(served, False)
        assert _life(served) is State.SERVING


async def test_a_lost_ledger_leaves_no_condition_in_force() -> None:
    async with serving(Away()) as served:
        await _drain(served, True)
        served.disk.faults = ["lost"]
        with pytest.raises(LedgerDown):
            await served.claim("a")
        assert (_life(served), served.gateway.readiness()) == (State.LOST, {"default": "RECOVERING"})
        served.clock.advance(1_000)


async def test_an_end_that_is_found_while_a_stopped_ledger_is_let_go_of_is_its_callers_error() -> None:
    async with serving() as served:
        namespace, end = served.namespace, served.ledgers.ends["default"]

        async def fails() -> None:
            end.write_beside(LedgerDown("the witness cannot be synced"))

        namespace.home.eviction.close = fails  # type: ignore[method-assign]
        await served.gateway.close()
        assert "owner_failed" not in served.events.names()
        with pytest.raises(LedgerDown, match="the witness cannot be synced"):
            await namespace.home.group_commit.durable(namespace.mark.position + 1)


async def test_a_namespace_that_the_system_keeps_from_opening_is_refused_as_down_when_the_gateway_stops() -> None:
    async with serving() as served:
        served.disk.refuse_to_open = OSError(errno.EACCES, "Permission denied")
        with pytest.raises(OSError, match="Permission denied"):
            await served.gateway.create("other")
        with pytest.raises(Recovering, match=r"is down, .* nothing was written"):
            served.gateway.namespace("other")
        await served.gateway.close()
        with pytest.raises(Recovering, match=r"is down, .* nothing was written"):
            served.gateway.namespace("other")
