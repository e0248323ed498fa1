"""Shutdown completes begun work; a start serves only a rebuilt ledger that it owns."""

import asyncio

import pytest

from oncegate.core.errors import KeyMismatch, LedgerBusy, LedgerDamaged, LedgerDown, NotFound, OncegateError
from oncegate.engine.gateway import open_gateway
from oncegate.engine.usecases.claim_batching import IDS_MOST
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import Events, GatedLedgers, rows_of, run_ready_tasks, serving, verdicts_of


async def test_accepted_requests_are_written_and_answered_before_the_ledger_closes() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        served.disk.hold()
        first = await served.begin(served.claim("a"))
        second = await served.begin(served.claim("b", token=2))
        close = asyncio.create_task(served.gateway.close())
        await run_ready_tasks()
        assert not close.done()
        await served.disk.release()
        await close
        assert verdicts_of(first.result()) == verdicts_of(second.result()) == ["GRANTED"]
    async with serving(ledgers) as served:
        assert verdicts_of(await served.claim("a", "b", token=3)) == ["BUSY", "BUSY"]


async def test_requests_accepted_at_the_moment_of_closing_are_written() -> None:
    async with serving() as served:
        # Too many ids to wait for another claim: decided in this turn.
        claim = served.start(served.claim(*map(str, range(IDS_MOST + 1))))
        close = asyncio.create_task(served.gateway.close())
        assert set(verdicts_of(await claim)) == {"GRANTED"}
        await close


async def test_nothing_more_is_taken_while_it_closes() -> None:
    async with serving() as served:
        namespace = served.namespace
        served.disk.hold()
        await served.begin(served.claim("a"))
        close = asyncio.create_task(served.gateway.close())
        await run_ready_tasks()
        with pytest.raises(LedgerDown, match="nothing was written"):
            await served.claim("b", token=2)
        await served.disk.release()
        await close
        assert namespace.mark.position == 2


async def test_a_gateway_that_is_recovering_closes_at_once() -> None:
    async with serving() as served:
        served.disk.faults = ["lost"]
        with pytest.raises(LedgerDown):
            await served.claim("a")
        async with asyncio.timeout(20):
            await served.gateway.close()


@pytest.mark.parametrize("error", [LedgerBusy("owned by 4711"), LedgerDamaged("a flipped byte"), OSError(13, "denied")])
async def test_a_ledger_that_cannot_be_opened_ends_the_start(error: Exception) -> None:
    ledgers = GatedLedgers()
    ledgers.disk.refuse_to_open = error
    with pytest.raises(type(error)):
        async with open_gateway(ledgers, MemoryRunFolders(), FakeClock(), Events()):
            pytest.fail("it served")
    assert ledgers.disk.appends == []


async def test_another_key_refuses_to_serve() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("a")
    store = ledgers._stores["default"]
    store.key, entries = bytes(32), len(store.entries)
    with pytest.raises(KeyMismatch):
        async with serving(ledgers):
            pytest.fail("it served")
    assert len(store.entries) == entries


@pytest.mark.parametrize("body", [b"", b"\x02", b"\xff\x01", b"\x03\x01short"])
async def test_an_entry_that_makes_no_sense_refuses_to_serve(body: bytes) -> None:
    ledgers = GatedLedgers()
    async with ledgers.open("default") as opened:
        await ledgers_append(opened.ledger, body)
    with pytest.raises(LedgerDamaged, match="entry 1"):
        async with serving(ledgers):
            pytest.fail("it served")


async def ledgers_append(ledger: object, body: bytes) -> None:
    await ledger._good.append([body], [])  # type: ignore[attr-defined]


async def test_everything_is_as_it_was_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.claim("a", "b")
        await served.produce(rows_of(1, 2))
        before, index = served.shard.counters(), served.shard.journal.index
        snapshot, stages, topics = contents(index.claims), index.batches.stages, index.topics._topics
    async with serving(ledgers) as served:
        again = served.shard.journal.index
        assert (contents(again.claims), again.batches.stages, again.topics._topics) == (snapshot, stages, topics)
        assert {name: served.shard.counters()[name] for name in ("ids", "open_claims", "takeovers")} == {
            name: before[name] for name in ("ids", "open_claims", "takeovers")
        }
        assert await served.read() == [1, 2]


async def test_namespaces_are_made_once_and_kept() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        assert await served.gateway.create("mail") is True
        assert await served.gateway.create("mail") is False
    async with serving(ledgers) as served:
        assert served.gateway.namespaces() == ["default", "mail"]
        assert served.gateway.readiness() == {"default": "SERVING", "mail": "SERVING"}


async def test_two_makers_of_one_namespace_make_it_once() -> None:
    async with serving() as served:
        made = await asyncio.gather(*(served.gateway.create("mail") for _ in range(3)))
        assert sorted(made) == [False, False, True]
        assert served.gateway.readiness()["mail"] == "SERVING"


async def test_an_unknown_namespace_is_refused_with_the_line_that_makes_it() -> None:
    async with serving() as served:
        with pytest.raises(NotFound, match=r"curl -X PUT .*/v1/namespaces/mail"):
            served.gateway.namespace("mail")


@pytest.mark.parametrize("name", ["", "A", "../up", ".", "-", "a/b", "x" * 64, "a b", "ä", "default\n"])
async def test_a_namespace_that_cannot_be_a_folder_is_refused(name: str) -> None:
    async with serving() as served:
        with pytest.raises(OncegateError):
            await served.gateway.create(name)
        assert served.gateway.namespaces() == ["default"]
