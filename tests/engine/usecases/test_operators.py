"""Actions of operators: forgetting ids, fencing producers, and the trail with name and reason."""

from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import BadRequest, Fenced, LeaseLive, LedgerFull, OncegateError, Overloaded, UnknownProducer
from oncegate.engine.producer_requests import Note, ResolveRequest
from oncegate.engine.requests import TakeRequest
from oncegate.index import audit_trail
from oncegate.index.shard import ShardIndex
from tests.support.memory_gateway import GatedLedgers, Served, id16, verdicts_of
from tests.support.producing_lanes import Lanes, lanes
from tests.support.sealed import eviction, filled, names

LEASE_MS = 30_000
NOTE = Note("ada", "its rows were lost")


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


async def forget(served: Served, *ids: str, note: Note = NOTE) -> int:
    prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    forgotten: int = await served.namespace.operations.actions.forget(prints, "", note, served.deadline())
    return forgotten


async def done(served: Served, *ids: str, token: int = 1, call: int = 1) -> None:
    claimed = await served.claim(*ids, token=token, call=call)
    await served.settle(Verb.COMPLETE, claimed.claim)


async def trail(served: Served, before: int | None = None, count: int = 100) -> list[tuple[str, str, int, str]]:
    found = await served.namespace.operations.actions.trail(before, count)
    return [(one.action, one.subject, one.changed, one.who) for one in found]


def restored(index: ShardIndex) -> ShardIndex:
    loaded = ShardIndex()
    for position, piece in enumerate(index.snapshot(), 1):
        loaded.replayed(position, piece)
    return loaded


async def test_forgotten_ids_are_granted_to_the_next_caller_and_no_others_are() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await done(lane.served, "a", "b", "c")
        assert await forget(lane.served, "a", "b", "a", "never seen") == 2
        assert await forget(lane.served, "a") == 0, "a repeat finds nothing"
        assert verdicts_of(await lane.served.claim("a", "c", token=2)) == ["GRANTED", "DUPLICATE"]
        counted = lane.shard.counters()
        assert (counted["takeovers"], counted["ids"], counted["open_claims"]) == (0, 2, 1)
    async with lanes(ledgers) as lane:
        assert verdicts_of(await lane.served.claim("a", "b", "c", token=3)) == ["BUSY", "GRANTED", "DUPLICATE"]


async def test_taken_ids_are_forgotten_too(lane: Lanes) -> None:
    prints = lane.namespace.fingerprints().of_array(pa.array(["a"], pa.string()))
    await lane.shard.claims.take(TakeRequest(id16(7), prints), lane.served.deadline())
    assert await forget(lane.served, "a") == 1
    taken = await lane.shard.claims.take(TakeRequest(id16(8), prints), lane.served.deadline())
    assert verdicts_of(taken) == ["GRANTED"]


async def test_an_id_that_a_claim_holds_keeps_all_of_them_and_the_ledger_has_no_word_of_it(lane: Lanes) -> None:
    await done(lane.served, "a")
    await lane.served.claim("b", token=2)
    lane.served.disk.appends.clear()
    with pytest.raises(LeaseLive, match="1 of these ids are held by live claims"):
        await forget(lane.served, "a", "b")
    lane.served.clock.advance(LEASE_MS)
    with pytest.raises(BadRequest, match="1 of these ids are held by claims whose lease is over"):
        await forget(lane.served, "a", "b")
    assert (lane.served.disk.appends, await trail(lane.served)) == ([], [])
    assert verdicts_of(await lane.served.claim("a", token=3)) == ["DUPLICATE"]


async def test_ids_on_their_way_out_of_memory_are_asked_for_again(lane: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    await done(lane.served, "a")
    monkeypatch.setattr(type(lane.shard.eviction), "busy", property(lambda eviction: True))
    with pytest.raises(Overloaded, match="ask again"):
        await forget(lane.served, "a")
    assert await trail(lane.served) == []


async def test_a_full_disk_forgets_nothing(lane: Lanes) -> None:
    await done(lane.served, "a")
    lane.served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await forget(lane.served, "a")
    assert await trail(lane.served) == []
    assert verdicts_of(await lane.served.claim("a", token=3)) == ["DUPLICATE"]


async def test_a_fenced_attempt_gets_the_error_and_the_next_attempt_waits_for_no_lease(lane: Lanes) -> None:
    await lane.claim(0, [1, 2])
    assert await lane.namespace.operations.actions.fence("p", NOTE, lane.served.deadline()) == 2
    for asked in (lane.complete(0), lane.claim(1, [3]), lane.register()):
        with pytest.raises(Fenced):
            await asked
    assert (await lane.register(token=2)).epoch == 3
    assert verdicts_of(await lane.claim(0, [1, 2, 3], token=2, epoch=3)) == [
        "GRANTED+TAKEOVER",
        "GRANTED+TAKEOVER",
        "GRANTED",
    ]
    with pytest.raises(UnknownProducer):
        await lane.namespace.operations.actions.fence("nobody", NOTE, lane.served.deadline())
    assert await trail(lane.served) == [("fence", "producer p", 2, "ada")]


async def test_a_claim_whose_holder_is_known_to_be_gone_is_released_under_its_lease(lane: Lanes) -> None:
    claimed = await lane.served.claim("a")
    gone = ResolveRequest(False, "ada", "its pod was evicted", holder_gone=True)
    assert await lane.namespace.operations.leftovers.of_claim(claimed.claim, gone, lane.served.deadline()) == 1
    assert verdicts_of(await lane.served.claim("a", token=2)) == ["GRANTED"]


async def every_action(lane: Lanes) -> None:
    await done(lane.served, "a")
    await forget(lane.served, "a")
    await lane.namespace.operations.actions.fence("p", NOTE, lane.served.deadline())
    await lane.namespace.operations.actions.note("drain", "", 0, Note("bob", "to upgrade"), lane.served.deadline())
    claimed = await lane.served.claim("b", token=2)
    gone = ResolveRequest(True, "cy", "it was written", holder_gone=True)
    await lane.namespace.operations.leftovers.of_claim(claimed.claim, gone, lane.served.deadline())


EVERY = [
    ("resolve done", "", 1, "cy"),
    ("drain", "", 0, "bob"),
    ("fence", "producer p", 2, "ada"),
    ("forget", "ids of set ''", 1, "ada"),
]


async def test_the_trail_lists_the_newest_first_page_by_page_also_after_a_restart_and_a_compaction() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await every_action(lane)
        index = lane.shard.journal.index
        saved = restored(index).audit_trail.before(None, 100)
        assert saved == index.audit_trail.before(None, 100)
    async with lanes(ledgers) as lane:
        assert await trail(lane.served) == EVERY
        newest = await lane.namespace.operations.actions.trail(None, 2)
        assert await trail(lane.served, newest[-1].position) == EVERY[2:]
        assert newest[0].claim != b""


async def test_the_oldest_actions_go_when_there_are_too_many_and_come_back_where_the_last_was_refused(
    lane: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "RECORDS_MAX", 4)
    await every_action(lane)
    before = await trail(lane.served)
    lane.served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await lane.namespace.operations.actions.note("drain", "", 0, NOTE, lane.served.deadline())
    assert await trail(lane.served) == before == EVERY
    lane.served.clock.advance(10_000)
    await lane.namespace.operations.actions.note("drain --undo", "", 0, NOTE, lane.served.deadline())
    assert await trail(lane.served) == [("drain --undo", "", 0, "ada"), *EVERY[:3]]


@pytest.mark.parametrize("note", [Note("", "why"), Note("ada", ""), Note("ada", "x" * 513)])
async def test_no_action_is_possible_without_a_name_and_a_reason(lane: Lanes, note: Note) -> None:
    await done(lane.served, "a")
    lane.served.disk.appends.clear()
    actions, deadline = lane.namespace.operations.actions, lane.served.deadline()
    asked: list[Any] = [forget(lane.served, "a", note=note), actions.fence("p", note, deadline)]
    for one in [*asked, actions.note("drain", "", 0, note, deadline)]:
        with pytest.raises(OncegateError, match=r"who|why"):
            await one
    assert (lane.served.disk.appends, await trail(lane.served)) == ([], [])


async def test_a_claim_is_in_doubt_from_the_millisecond_its_lease_is_over() -> None:
    async with lanes() as lane:
        await lane.served.claim("a", lease_ms=LEASE_MS)
        for passed_ms, in_doubt in ((LEASE_MS - 1, 0), (1, 1)):
            lane.served.clock.advance(passed_ms)
            assert (await lane.namespace.operations.overview.left_claims(9))[1] == in_doubt


async def test_ids_that_left_memory_are_refused_and_what_stayed_is_forgotten() -> None:
    async with eviction() as served:
        await filled(served)
        left, stayed = names(0, 1)[0], "newest"
        everything, in_memory = served.shard.counters()["ids"], served.shard.journal.index.claims.ids
        with pytest.raises(BadRequest, match=f"{everything - in_memory} of these ids have left memory"):
            await forget(served, *names(0, 20), "taken")
        await done(served, stayed, token=9)
        assert await forget(served, stayed) == 1
        assert verdicts_of(await served.claim(left, stayed, token=10)) == ["DUPLICATE", "GRANTED"]
