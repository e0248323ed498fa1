"""On a ledger where only an append reveals a newer owner, answers from memory wait for an append."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import LedgerFenced, LedgerFull, UnknownClaim
from oncegate.engine.commit.room import PROBE_MS
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, run_ready_tasks, serving, verdicts_of

Ask = Callable[[Served, bytes], Awaitable[object]]


def held_ledgers() -> GatedLedgers:
    ledgers = GatedLedgers()
    ledgers.fenced_by_appends = True
    return ledgers


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(held_ledgers()) as served:
        yield served


async def claimed_a(served: Served) -> bytes:
    """Claims `a` and returns the claim, with the log of appends cleared."""
    claim = (await served.claim("a")).claim
    assert claim is not None
    served.disk.appends.clear()
    return claim


FROM_MEMORY: dict[str, Ask] = {
    "granted again": lambda served, claim: served.claim("a"),
    "held under an earlier call": lambda served, claim: served.claim("a", call=2),
    "renewed": lambda served, claim: served.settle(Verb.RENEW, claim),
    "an unknown claim": lambda served, claim: served.settle(Verb.RENEW, id16(9)),
    "an unknown id": lambda served, claim: served.shard.claims.explain(id16(9)),
    "an unknown topic": lambda served, claim: served.namespace.topics.view("nowhere"),
    "an unknown producer": lambda served, claim: served.shard.producers.explain("nobody"),
    "an unknown batch": lambda served, claim: served.namespace.batches.source_offsets("app", "topic", ""),
}


@pytest.mark.parametrize("ask", FROM_MEMORY.values(), ids=FROM_MEMORY)
async def test_a_superseded_owner_answers_nothing_that_may_be_outdated(served: Served, ask: Ask) -> None:
    claim = await claimed_a(served)
    served.disk.faults = ["fenced"]
    with pytest.raises(LedgerFenced):
        await ask(served, claim)
    assert served.disk.kinds() == [["Probe"]]


async def test_permanent_facts_are_answered_without_an_append(served: Served) -> None:
    claim = await claimed_a(served)
    assert verdicts_of(await served.claim("a", token=2)) == ["BUSY"]
    await served.settle(Verb.COMPLETE, claim)
    served.disk.appends.clear()
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
    assert served.disk.kinds() == []


async def test_what_writes_is_proved_by_its_own_append(served: Served) -> None:
    claim = await claimed_a(served)
    assert verdicts_of(await served.claim("b", "a", token=2)) == ["GRANTED", "BUSY"]
    await served.settle(Verb.COMPLETE, claim)
    await served.produce(rows_of(1))
    assert not [kinds for kinds in served.disk.kinds() if "Probe" in kinds]


async def test_a_writes_own_questions_about_its_topic_are_proved_by_the_write_alone(served: Served) -> None:
    await served.produce(rows_of(1))
    served.disk.appends.clear()
    assert (await served.namespace.topics.remembered("topic")).schema.names == ["n"]
    assert served.disk.kinds() == []


async def test_an_append_that_began_before_the_request_proves_nothing(served: Served) -> None:
    claim = await claimed_a(served)
    served.disk.hold()
    written = await served.begin(served.claim("b", token=2))
    renewed = await served.begin(served.settle(Verb.RENEW, claim))
    served.disk.faults = ["", "fenced"]
    await served.disk.release()
    assert verdicts_of(written.result()) == ["GRANTED"]
    assert isinstance(renewed.exception(), LedgerFenced)


async def test_all_who_wait_share_one_probe(served: Served) -> None:
    claim = await claimed_a(served)
    served.disk.hold()
    await served.begin(served.claim("b", token=2))
    renewals = [await served.begin(served.settle(Verb.RENEW, claim)) for _ in range(3)]
    assert not any(renewal.done() for renewal in renewals)
    await served.disk.release()
    assert {renewal.result().state for renewal in renewals} == {ClaimState.OPEN}
    assert served.disk.kinds() == [["Claimed"], ["Probe"]]


async def test_a_refused_probe_is_reported_as_unknown_and_the_next_one_may_succeed(served: Served) -> None:
    claim = await claimed_a(served)
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await served.settle(Verb.RENEW, claim)
    with pytest.raises(LedgerFull):
        await served.settle(Verb.RENEW, id16(9))
    await run_ready_tasks()
    served.clock.advance(PROBE_MS)
    await run_ready_tasks()
    assert (await served.settle(Verb.RENEW, claim)).state is ClaimState.OPEN
    with pytest.raises(UnknownClaim):
        await served.settle(Verb.RENEW, id16(9))


async def test_who_asked_while_an_append_was_refused_waits_for_a_later_one(served: Served) -> None:
    claim = await claimed_a(served)
    served.disk.hold()
    refused = await served.begin(served.claim("b", token=2))
    renewed = await served.begin(served.settle(Verb.RENEW, claim))
    served.disk.faults = ["full"]
    await served.disk.release()
    assert isinstance(refused.exception(), LedgerFull)
    assert isinstance(renewed.exception(), LedgerFull)


async def test_a_ledger_that_a_lock_owns_is_asked_for_nothing() -> None:
    async with serving() as served:
        claim = await claimed_a(served)
        await served.settle(Verb.RENEW, claim)
        with pytest.raises(UnknownClaim):
            await served.settle(Verb.RENEW, id16(9))
        assert served.disk.kinds() == []
