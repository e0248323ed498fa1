"""scope = retry: ids that count until their batch is acked; claims without a batch are not affected."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import BadRequest, LedgerFull, TooLarge
from oncegate.engine.requests import ProduceRequest, Scope, TakeRequest
from oncegate.index.claims import batch_scopes
from oncegate.index.claims.batch_scopes import BatchScopes
from oncegate.index.claims.lookup import explain
from oncegate.index.shard import ShardIndex
from tests.support.memory_gateway import GatedLedgers, id16, rows_of, verdicts_of
from tests.support.producing_lanes import Lanes, lanes


@pytest.fixture
async def lane() -> AsyncIterator[Lanes]:
    async with lanes() as found:
        yield found


def prints(lane: Lanes, *ids: str) -> Any:
    return lane.namespace.fingerprints().of_array(pa.array(ids, pa.string()))


async def take(lane: Lanes, *ids: str, batch: int) -> Any:
    ask = TakeRequest(id16(70), prints(lane, *ids), Scope("d", batch))
    return await lane.shard.claims.take(ask, lane.served.deadline())


async def produce(lane: Lanes, *ids: str, batch: int, call: int = 1, token: int = 60) -> Any:
    rows = rows_of(*range(len(ids)))
    keys = np.arange(len(ids), dtype=np.uint64)
    ask = ProduceRequest("topic", id16(token), call, rows, prints(lane, *ids), keys, Scope("d", batch))
    return await lane.namespace.records.produce(ask, lane.served.deadline())


async def done(lane: Lanes, *ids: str, batch: int, call: int = 1) -> None:
    claimed = await lane.claim_ids(*ids, batch=batch, call=call)
    await lane.served.settle(Verb.COMPLETE, claimed.claim)


def states(lane: Lanes, *ids: str) -> list[IdState]:
    claims = lane.shard.journal.index.claims
    return [explain(claims, one.tobytes(), lane.served.clock.monotonic_ms()).state for one in prints(lane, *ids)]


async def test_within_its_batch_an_id_is_written_once(lane: Lanes) -> None:
    await done(lane, "a", batch=3)
    assert verdicts_of(await lane.claim_ids("a", batch=3, token=2)) == ["DUPLICATE"]
    assert verdicts_of(await lane.claim_ids("a", batch=4, token=2, call=2)) == ["DUPLICATE"]


async def test_an_acked_batch_is_stale_for_every_verb_and_its_ids_are_forgotten(lane: Lanes) -> None:
    await done(lane, "a", "b", batch=3)
    await take(lane, "t", batch=3)
    await produce(lane, "p", "q", batch=3)
    assert lane.shard.counters()["ids"] == 5
    await lane.ack(batch=3)
    assert lane.shard.counters()["ids"] == 0
    assert verdicts_of(await lane.claim_ids("a", "new", batch=3, token=2)) == ["STALE", "STALE"]
    assert verdicts_of(await take(lane, "t", batch=2)) == ["STALE"]
    produced = await produce(lane, "p", "n", batch=1, call=2)
    assert (verdicts_of(produced), produced.rows, produced.spans) == (["STALE", "STALE"], 0, ())
    assert verdicts_of(await lane.claim_ids("a", "t", "p", batch=4, token=2)) == ["GRANTED"] * 3


async def test_a_stale_batch_needs_no_look_at_the_call(lane: Lanes) -> None:
    await done(lane, "a", batch=3)
    await lane.ack(batch=3)
    assert verdicts_of(await lane.claim_ids("other", "ids", batch=3)) == ["STALE", "STALE"]


async def test_only_what_was_claimed_in_those_batches_is_forgotten(lane: Lanes) -> None:
    await done(lane, "a", batch=3)
    await done(lane, "b", batch=4, call=2)
    kept = await lane.served.claim("u", token=5)
    await lane.served.settle(Verb.COMPLETE, kept.claim)
    await lane.driver(token=95, name="e")
    await lane.ack(batch=3)
    assert states(lane, "a", "b", "u") == [IdState.ABSENT, IdState.DONE, IdState.DONE]
    await lane.ack(batch=4)
    assert states(lane, "b", "u") == [IdState.ABSENT, IdState.DONE]


async def test_a_batch_whose_claim_is_open_is_held_back_and_it_alone(lane: Lanes) -> None:
    """A dead task's leftover: later batches are acked, and each later ack checks it again."""
    await done(lane, "a", batch=2)
    await done(lane, "d", batch=3, call=3)
    held = await lane.claim_ids("b", "c", batch=3, call=2)
    await done(lane, "e", batch=4, call=4)
    for batch in (4, 4, 5):
        answer = await lane.ack(batch=batch)
        assert answer.batch == batch
        assert [(error.code, error.extra) for error in answer.refused] == [
            ("NOT_DONE", {"batch": 3, "open_ids": 2, "claims": (held.claim,)})
        ]
        assert states(lane, "a", "d", "e") == [IdState.ABSENT, IdState.DONE, IdState.ABSENT]
        assert verdicts_of(await lane.claim_ids("x", batch=4, token=2)) == ["STALE"]
        assert verdicts_of(await lane.claim_ids("d", batch=3, token=2, call=batch)) == ["DUPLICATE"]
    await lane.served.settle(Verb.RELEASE, held.claim)
    assert (await lane.ack(batch=5)).refused == ()
    assert states(lane, "b", "d") == [IdState.ABSENT] * 2
    assert verdicts_of(await lane.claim_ids("d", batch=3, token=2)) == ["STALE"]
    assert lane.served.disk.kinds().count(["Acked"]) == 3, "what changes nothing is not written"


async def test_a_batch_that_is_held_back_is_so_after_a_restart_a_collection_and_a_refused_ack() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        held = await lane.claim_ids("a", batch=3)
        assert len((await lane.ack(batch=4)).refused) == 1
        await lane.served.settle(Verb.COMPLETE, held.claim)
        lane.served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await lane.ack(batch=4)
        index, loaded = lane.shard.journal.index, ShardIndex()
        assert not index.producers.drivers["d"].is_over(3)
        for position, saved in enumerate(index.snapshot(), 1):
            loaded.replayed(position, saved)
        assert loaded.producers.drivers["d"] == index.producers.drivers["d"]
    async with lanes(ledgers) as lane:
        assert verdicts_of(await lane.claim_ids("a", batch=3, token=2)) == ["DUPLICATE"]
        assert verdicts_of(await lane.claim_ids("a", batch=4, token=2, call=2)) == ["STALE"]
        assert (await lane.ack(batch=4)).refused == ()
        assert verdicts_of(await lane.claim_ids("a", batch=3, token=2)) == ["STALE"]


async def test_ids_taken_over_by_a_later_batch_belong_to_it(lane: Lanes) -> None:
    await lane.claim_ids("a", batch=3)
    lane.served.clock.advance(30_000)
    taken = await lane.claim_ids("a", batch=4, token=2)
    assert verdicts_of(taken) == ["GRANTED+TAKEOVER"]
    await lane.served.settle(Verb.COMPLETE, taken.claim)
    await lane.ack(batch=3)
    assert states(lane, "a") == [IdState.DONE]


async def test_acked_ids_are_swept_and_their_rows_are_used_again(lane: Lanes) -> None:
    await done(lane, "a", batch=1)
    await lane.ack(batch=1)
    claims = lane.shard.journal.index.claims
    lane.served.clock.advance(100_000)
    claims.sweep(lane.served.clock.monotonic_ms())
    used = int(claims.rows.column("used").sum())
    await done(lane, "b", batch=2, call=2)
    assert int(claims.rows.column("used").sum()) == used + 1


async def test_a_row_that_was_given_to_another_claim_is_left_alone(lane: Lanes) -> None:
    """The claim of batch 1 is released and forgotten; its row belongs to another, completed without a batch, when batch
    1 is acked."""
    held = await lane.claim_ids("a", batch=1)
    await lane.served.settle(Verb.RELEASE, held.claim)
    claims = lane.shard.journal.index.claims
    lane.served.clock.advance(lane.served.gateway.limits.settled_claim_ms)
    claims.sweep(lane.served.clock.monotonic_ms())
    other = await lane.served.claim("u", token=5)
    await lane.served.settle(Verb.COMPLETE, other.claim)
    batch = claims.scopes._drivers["d"][1]
    assert list(batch.rows) == np.flatnonzero(claims.rows.column("used")).tolist(), "the row was not assigned again"
    await lane.ack(batch=1)
    assert states(lane, "u") == [IdState.DONE]


async def test_a_restart_knows_which_batch_ids_are_of() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        await done(lane, "a", batch=1)
        await take(lane, "t", batch=1)
        await produce(lane, "p", batch=2)
        await lane.claim_ids("open", batch=3, call=9)
    async with lanes(ledgers) as lane:
        await lane.ack(batch=1)
        assert states(lane, "a", "t", "p") == [IdState.ABSENT, IdState.ABSENT, IdState.DONE]
    async with lanes(ledgers) as lane:
        assert states(lane, "a", "t", "p", "open") == [
            IdState.ABSENT,
            IdState.ABSENT,
            IdState.DONE,
            IdState.CLAIMED_LIVE,
        ]


async def test_a_collected_ledger_knows_which_batch_ids_are_of(lane: Lanes) -> None:
    await done(lane, "a", "b", batch=1)
    await take(lane, "t", "s", batch=1)
    await produce(lane, "p", batch=2)
    await lane.claim_ids("open", batch=3, call=9)
    await done(lane, "later", batch=7, call=10)
    index = lane.shard.journal.index
    loaded = ShardIndex()
    for position, saved in enumerate(index.snapshot(), 1):
        loaded.replayed(position, saved)
    assert {batch: found.ids for batch, found in loaded.claims.scopes.open_claims("d", 4).items()} == {3: 1}
    assert _ids_of(loaded, 2) == _ids_of(index, 2) == 4
    assert _ids_of(loaded, 3) == _ids_of(index, 3) == 5
    assert _ids_of(loaded, 8) == _ids_of(index, 8) == 7


async def test_batches_are_saved_as_they_were_when_their_snapshot_began(
    lane: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_scopes, "_ROWS_PER_PART", 3)
    for call in range(4):
        await lane.claim_ids(f"first {call}", batch=1, call=call)
    await lane.claim_ids("other", batch=2, call=8)
    scopes = lane.shard.journal.index.claims.scopes
    at_once = sorted(one for part in scopes.snapshot() for one in part)
    parts = scopes.snapshot()
    for call in range(4):
        await lane.claim_ids(f"later {call}", batch=1, call=10 + call)
    scopes.acked("d", 3)
    assert sorted(one for part in parts for one in part) == at_once
    assert sum(len(makers) for _, _, makers in at_once) == 8 * 5


def _ids_of(index: ShardIndex, batches: int) -> int:
    """Returns the number of ids in rows of batches below `batches`."""
    scopes: BatchScopes = index.claims.scopes
    held = [batch for number, batch in scopes._drivers["d"].items() if number < batches]
    return int(index.claims.rows.holders.named[scopes._rows_of(held)].sum())


async def test_a_driver_that_never_registered_has_nothing_acked(lane: Lanes) -> None:
    ask = TakeRequest(id16(70), prints(lane, "a"), Scope("nobody", 0))
    assert verdicts_of(await lane.shard.claims.take(ask, lane.served.deadline())) == ["GRANTED"]


@pytest.mark.parametrize(
    ("scope", "error"),
    [(Scope("", 0), BadRequest), (Scope("x" * 513, 0), TooLarge), (Scope("d", 2**64 - 1), BadRequest)],
    ids=["no name", "long name", "batch"],
)
async def test_a_batch_that_can_never_be_acked_is_refused_before_any_effect(
    lane: Lanes, scope: Scope, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await lane.shard.claims.take(TakeRequest(id16(70), prints(lane, "a"), scope), lane.served.deadline())
    assert lane.served.disk.appends == []
