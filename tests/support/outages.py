"""A ledger that goes down and comes back under a gateway that may grant claims unchecked in between."""

import pyarrow as pa
import pytest

from oncegate.core.claims import OnLedgerDown
from oncegate.core.errors import LedgerDown
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.requests import ClaimRequest, ClaimResult, SettingsRequest
from oncegate.index.audit_trail import AuditRecord
from tests.support.memory_gateway import Served, id16, run_ready_tasks, wait_until

PASS, REJECT = (SettingsRequest(on_ledger_down=way) for way in (OnLedgerDown.PASS_MARKED, OnLedgerDown.REJECT))
UNCHECKED = "GRANTED+UNCHECKED"


async def go_down(served: Served) -> None:
    """Fails the ledger and prevents it from being opened again."""
    served.disk.faults = ["lost"]
    served.disk.refuse_to_open = LedgerDown("its server is away")
    with pytest.raises(LedgerDown):
        await served.claim("a request in flight", token=99)


async def come_back(served: Served, after_ms: int = 60_000) -> None:
    served.disk.refuse_to_open = None
    await run_ready_tasks()
    served.clock.advance(after_ms)
    await wait_until(lambda: served.gateway.readiness()["default"] == "SERVING")


async def ask(served: Served, *ids: str, caller: str = "", token: int = 1, **more: object) -> ClaimResult:
    return await ask_of(served, served.gateway.claims("default", caller), *ids, token=token, **more)


async def ask_of(
    served: Served, claims: Namespace | Unchecked, *ids: str, token: int = 1, **more: object
) -> ClaimResult:
    """Claims ids at the handler that a request would have found."""
    prints = claims.fingerprints().of_array(pa.array(ids, pa.string()))
    return await claims.claims.claim(ClaimRequest(id16(token), 7, prints, **more), served.deadline())  # type: ignore[arg-type]


async def noted(served: Served) -> list[AuditRecord]:
    await run_ready_tasks()
    trail: list[AuditRecord] = await served.namespace.operations.actions.trail(None, 10)
    return [one for one in trail if one.action == "pass unchecked"]
