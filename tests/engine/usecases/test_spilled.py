"""Rows that had waited on a client's disk: counted and recorded by the append that writes them."""

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from oncegate.core.errors import LedgerDown, LedgerFull
from oncegate.engine.requests import ProduceRequest, ProduceResult, Spilled
from oncegate.index.audit_trail import AuditRecord
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of

WAITED_MS = 90_000


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def produce(
    served: Served, *numbers: int, token: int = 1, waited_ms: int | None = WAITED_MS, who: str = "loader"
) -> ProduceResult:
    namespace = served.namespace
    ids = namespace.fingerprints().of_array(pa.array([str(number) for number in numbers], pa.string()))
    spilled = None if waited_ms is None else Spilled(served.clock.wall_ms() - waited_ms, who)
    request = ProduceRequest("topic", id16(token), 1, rows_of(*numbers), ids, spilled=spilled)
    return await namespace.records.produce(request, served.deadline())


async def trail(served: Served) -> list[AuditRecord]:
    found: list[AuditRecord] = await served.namespace.operations.actions.trail(None, 100)
    return found


def counted(served: Served) -> int:
    return int(served.shard.counters()["spilled_rows"])


async def test_rows_that_had_waited_are_counted_and_logged_by_the_append_that_writes_them(served: Served) -> None:
    await produce(served, 1, token=9, waited_ms=None)
    assert (counted(served), await trail(served)) == (0, [])
    served.disk.appends.clear()
    assert verdicts_of(await produce(served, 1, 2, 3)) == ["DUPLICATE", "GRANTED", "GRANTED"]
    assert served.disk.kinds() == [["Produced"]]
    (entry,) = await trail(served)
    assert (entry.action, entry.changed, entry.who) == ("write spilled rows", 2, "loader")
    assert entry.subject == "topic topic: rows spilled from 2023-11-14T22:11:50.000Z until 2023-11-14T22:11:50.000Z"
    assert entry.why == "the gateway was down, and the client's on_down is spill"
    assert counted(served) == 2


async def test_rows_that_come_again_are_not_counted_again_whatever_the_sender(served: Served) -> None:
    await produce(served, 1, 2)
    assert verdicts_of(await produce(served, 1, 2)) == ["DUPLICATE+OWN"] * 2, "its reply was lost"
    assert verdicts_of(await produce(served, 1, 2, token=2)) == ["DUPLICATE"] * 2, (
        "its process died before it removed them"
    )
    (entry,) = await trail(served)
    assert (entry.changed, counted(served)) == (2, 2)


async def test_rows_refused_by_a_full_disk_are_neither_counted_nor_logged(served: Served) -> None:
    await produce(served, 1)
    before = await trail(served)
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await produce(served, 2, token=2)
    assert (await trail(served), counted(served)) == (before, 1)


async def test_rows_whose_append_was_lost_to_view_are_counted_once_when_they_are_sent_again() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        served.disk.faults = ["kept"]
        with pytest.raises(LedgerDown):
            await produce(served, 1, 2)
    async with serving(ledgers) as served:
        assert verdicts_of(await produce(served, 1, 2)) == ["DUPLICATE+OWN"] * 2
        (entry,) = await trail(served)
        assert (entry.changed, entry.who, counted(served)) == (2, "loader", 2)


async def test_a_clients_clock_that_is_ahead_counts_as_now_and_a_long_name_is_cut(served: Served) -> None:
    await produce(served, 1, waited_ms=-60_000, who="x" * 600)
    (entry,) = await trail(served)
    assert entry.subject.endswith("from 2023-11-14T22:13:20.000Z until 2023-11-14T22:13:20.000Z")
    assert entry.who == "x" * 512


async def test_a_sender_without_a_credential_is_recorded_as_such_and_a_clock_that_was_never_set_is_accepted(
    served: Served,
) -> None:
    await produce(served, 1, waited_ms=served.clock.wall_ms(), who="")
    (entry,) = await trail(served)
    assert (entry.who, entry.subject.split()[5]) == ("callers without a key", "1970-01-01T00:00:00.001Z")
