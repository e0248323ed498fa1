"""Shadow mode: decisions, records and counters are the usual ones, but every caller is granted everything."""

from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import Gap, UnknownClaim
from oncegate.core.verdicts import BY_BYTE
from oncegate.engine.requests import ProduceRequest, SettingsRequest, TakeRequest
from oncegate.index.table.grants import NO_CLAIM
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of
from tests.support.producing_lanes import lanes

LEASE_MS = 10_000
ON, OFF = SettingsRequest(shadow=True), SettingsRequest(shadow=False)


def would(answer: Any) -> list[str]:
    return [BY_BYTE[byte].verdict.name for byte in answer.shadow.tolist()]


async def shadow(served: Served, wanted: SettingsRequest = ON) -> None:
    await served.namespace.settings.configure(wanted, served.deadline())


async def produce(served: Served, *ids: str, token: int, call: int = 1) -> Any:
    prints = served.namespace.fingerprints().of_array(pa.array(ids))
    ask = ProduceRequest("topic", id16(token), call, rows_of(*range(len(ids))), prints)
    return await served.namespace.records.produce(ask, served.deadline())


async def test_the_ledger_and_the_counters_are_those_of_a_namespace_without_it() -> None:
    kinds, counters = [], []
    for wanted in (ON, OFF):
        async with serving(lease_ms=LEASE_MS) as served:
            await shadow(served, wanted)
            served.disk.appends.clear()
            before = served.shard.counters()["appends_durable"]  # the setting is an append if it changes something
            first = await served.claim("a", "b")
            await served.claim("a", "c", token=2)
            served.clock.advance(LEASE_MS)
            await served.claim("a", token=3)
            await served.settle(Verb.COMPLETE, first.claim)
            await served.claim("a", "b", "b", token=4)
            kinds.append(served.disk.kinds())
            counts = served.shard.counters()
            counts["appends_durable"] -= before
            del counts["shadowed_ids"]
            counters.append(counts)
    assert kinds[0] == kinds[1]
    assert counters[0] == counters[1]


async def test_ids_taken_over_are_reported_as_settled_because_they_were_written() -> None:
    async with serving(lease_ms=LEASE_MS) as served:
        await shadow(served)
        claimed = await served.claim("a", "b")
        served.clock.advance(LEASE_MS)
        taken = await served.claim("a", token=2)
        assert (verdicts_of(taken), would(taken)) == (["GRANTED"], ["GRANTED"])
        done = await served.settle(Verb.COMPLETE, claimed.claim)
        assert (done.settled, done.taken_over, done.shadow_taken_over) == (2, 0, 1)


async def test_what_holds_nothing_is_named_and_settled_in_shadow_mode_and_after_it() -> None:
    async with serving(lease_ms=LEASE_MS) as served:
        await served.claim("a")
        await shadow(served)
        answer = await served.claim("a", token=2)
        assert (verdicts_of(answer), would(answer), answer.claim) == (["GRANTED"], ["BUSY"], NO_CLAIM)
        served.disk.appends.clear()
        for wanted in (ON, OFF):
            await shadow(served, wanted)
            states = [(await served.settle(verb, NO_CLAIM)).state for verb in Verb]
            assert states == [ClaimState.OPEN, ClaimState.DONE, ClaimState.RELEASED]
        with pytest.raises(UnknownClaim):
            await served.settle(Verb.COMPLETE, id16(77))
        assert served.disk.kinds() == [["NamespaceSet"]]


async def test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known() -> None:
    async with serving() as served:
        await produce(served, "a", token=1)
        await shadow(served)
        served.disk.appends.clear()
        answer = await produce(served, "b", "a", "b", token=2)
        assert (answer.rows, verdicts_of(answer), would(answer)) == (
            3,
            ["GRANTED"] * 3,
            ["GRANTED", "DUPLICATE", "SAME"],
        )
        assert served.disk.kinds() == [["Produced", "Produced"]]
        assert await served.read() == [0, 0, 1, 2]
        assert served.shard.journal.index.claims.known_ids == 2
        again = await produce(served, "b", "a", "b", token=2)
        assert (again.rows, verdicts_of(again)) == (0, ["GRANTED"] * 3), "its first try has written them all"
        assert await served.read() == [0, 0, 1, 2]
        await shadow(served, OFF)
        assert verdicts_of(await produce(served, "a", "b", token=3)) == ["DUPLICATE", "DUPLICATE"]


async def test_rows_of_which_all_are_known_are_written_too() -> None:
    async with serving() as served:
        await produce(served, "a", token=1)
        await shadow(served)
        answer = await produce(served, "a", token=2)
        assert (answer.rows, would(answer)) == (1, ["DUPLICATE"])
        assert await served.read() == [0, 0]


async def test_an_owner_gets_all_ids_as_its_own_and_takes_the_free_ones() -> None:
    async with serving() as served:
        await served.claim("a")
        await shadow(served)
        prints = served.namespace.fingerprints().of_array(pa.array(["a", "b"]))
        told = await served.shard.claims.take(TakeRequest(id16(7), prints), served.deadline())
        assert (verdicts_of(told), would(told), told.claim) == (["GRANTED", "GRANTED"], ["BUSY", "GRANTED"], None)


async def test_sequences_are_granted_and_settled_and_what_is_no_verdict_is_refused_as_ever() -> None:
    async with lanes(lease_ms=LEASE_MS) as lane:
        await lane.claim(0, [1, 2])
        await lane.complete(0)
        await shadow(lane.served)
        answer = await lane.claim(1, [1, 2])
        assert (verdicts_of(answer), would(answer)) == (["GRANTED"] * 2, ["DUPLICATE"] * 2)
        assert (await lane.complete(1)).state is ClaimState.DONE, "though nothing was granted"
        written = await lane.produce(2, [2, 3])
        assert (written.rows, verdicts_of(written), would(written)) == (2, ["GRANTED"] * 2, ["DUPLICATE", "GRANTED"])
        assert await lane.served.read() == [2, 3]
        with pytest.raises(Gap):
            await lane.claim(4, [9], prev=8)


async def test_it_outlives_the_process() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await shadow(served)
    async with serving(ledgers) as served:
        assert served.namespace.settings.shadow
        assert (
            "policies",
            {"namespace": "default", "shadow": "every verdict is told as GRANTED"},
        ) in served.events.seen
        await served.claim("a")
        assert verdicts_of(await served.claim("a", token=2)) == ["GRANTED"]
