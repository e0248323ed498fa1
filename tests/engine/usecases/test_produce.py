"""Rows written by id: claim, completion and output in one append; a repeat takes effect once."""

from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import ClaimState, IdState, Verb
from oncegate.core.errors import LedgerDown, LedgerFull, NotFound, SchemaMismatch, TokenReused
from oncegate.engine.requests import ProduceRequest, ProduceResult, SettingsRequest, TakeRequest, TopicRequest
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, run_ready_tasks, serving, verdicts_of


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def produce(
    served: Served, *numbers: int, token: int = 1, call: int = 1, topic: str = "topic", keys: bool = False
) -> ProduceResult:
    """Produces rows of one column, which is the id, and the key if `keys`."""
    rows = rows_of(*numbers)
    namespace = served.namespace
    ids = namespace.fingerprints().of_array(pa.array([str(number) for number in numbers], pa.string()))
    found = namespace.row_fingerprints.keys_of(rows.batches[0], ["n"]) if keys else None
    request = ProduceRequest(topic, id16(token), call, rows, ids, found)
    return await namespace.records.produce(request, served.deadline())


async def explained(served: Served, number: int) -> Any:
    fingerprint = served.namespace.fingerprints().of_array(pa.array([str(number)]))
    return await served.shard.claims.explain(fingerprint.tobytes())


async def test_new_rows_are_written_and_earlier_ones_are_not(served: Served) -> None:
    first = await produce(served, 1, 2, 1)
    assert (verdicts_of(first), first.rows) == (["GRANTED", "GRANTED", "SAME"], 2)
    second = await produce(served, 2, 3, token=2)
    assert (verdicts_of(second), second.rows, second.spans[0].first_offset) == (["DUPLICATE", "GRANTED"], 1, 2)
    assert await served.read() == [1, 2, 3]


async def test_claim_done_and_output_are_one_append(served: Served) -> None:
    await produce(served, 1, 2)
    assert served.disk.kinds() == [["TopicCreated", "Produced"]]
    assert (await explained(served, 1)).state is IdState.DONE


async def test_a_repeat_after_a_lost_reply_gets_own_and_writes_nothing(served: Served) -> None:
    await produce(served, 1, 2)
    again = await produce(served, 1, 2)
    assert (verdicts_of(again), again.rows) == (["DUPLICATE+OWN"] * 2, 0)
    assert await served.read() == [1, 2]
    assert served.shard.counters()["duplicates"] == 0
    assert served.shard.counters()["own_duplicates"] == 2


async def test_a_repeat_after_a_restart_gets_own_too() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await produce(served, 1, 2)
    async with serving(ledgers) as served:
        assert verdicts_of(await produce(served, 1, 2)) == ["DUPLICATE+OWN"] * 2


async def test_the_answer_and_later_answers_wait_until_the_rows_are_durable(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(produce(served, 1))
    second = await served.begin(produce(served, 1, token=2))
    assert not first.done()
    assert not second.done(), "DUPLICATE rests on an entry that may yet be lost"
    await served.disk.release()
    assert (verdicts_of(await first), verdicts_of(await second)) == (["GRANTED"], ["DUPLICATE"])


async def test_what_another_attempt_holds_is_left_out_and_can_be_asked_for_again(served: Served) -> None:
    claimed = await served.claim("1", token=9)
    answer = await produce(served, 1, 2)
    assert (verdicts_of(answer), await served.read()) == (["BUSY", "GRANTED"], [2])
    await served.settle(Verb.RELEASE, claimed.claim)
    again = await produce(served, 1, call=2)
    assert (verdicts_of(again), await served.read()) == (["GRANTED"], [2, 1])


async def test_a_late_copy_of_a_busy_answer_writes_a_row_once(served: Served) -> None:
    """The rows are in the request: a late copy may write rows that became free meanwhile, once."""
    claimed = await served.claim("1", token=9)
    assert verdicts_of(await produce(served, 1, 2)) == ["BUSY", "GRANTED"]
    await served.settle(Verb.RELEASE, claimed.claim)
    assert verdicts_of(await produce(served, 1, 2)) == ["GRANTED", "DUPLICATE+OWN"]
    assert verdicts_of(await produce(served, 1, call=2)) == ["DUPLICATE+OWN"]
    assert await served.read() == [2, 1]


async def test_an_expired_claim_is_taken_over_and_counted_and_its_holder_gets_an_error(served: Served) -> None:
    claimed = await served.claim("1", token=9)
    served.clock.advance(30_000)
    assert verdicts_of(await produce(served, 1)) == ["GRANTED+TAKEOVER"]
    assert served.shard.counters()["takeovers"] == 1
    late = await served.settle(Verb.COMPLETE, claimed.claim)
    assert (late.state, late.settled, late.taken_over) == (ClaimState.DONE, 0, 1)


async def test_produced_ids_are_duplicates_for_claims(served: Served) -> None:
    await produce(served, 1)
    assert verdicts_of(await served.claim("1", "2", token=9)) == ["DUPLICATE", "GRANTED"]


async def test_an_attempts_own_open_claim_is_not_written_for_it(served: Served) -> None:
    await served.claim("1", token=1, call=7)
    assert verdicts_of(await produce(served, 1, 2)) == ["SAME+OF_CALL", "GRANTED"]


async def test_one_call_is_one_request_whatever_its_verb(served: Served) -> None:
    await produce(served, 1)
    with pytest.raises(TokenReused):
        await produce(served, 2)
    with pytest.raises(TokenReused):
        await served.claim("1", call=1)


async def test_a_refused_append_leaves_nothing_behind(served: Served) -> None:
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await produce(served, 1)
    assert served.shard.journal.index.topics.names() == []
    await run_ready_tasks()
    served.clock.advance(1_000)
    await run_ready_tasks()
    assert verdicts_of(await produce(served, 1, call=2)) == ["GRANTED"]
    assert await served.read() == [1]


@pytest.mark.parametrize("fault", ["lost", "kept"])
async def test_after_an_unknown_end_the_same_request_again_writes_each_row_once(fault: str) -> None:
    async with serving() as served:
        served.disk.faults = [fault]
        with pytest.raises(LedgerDown):
            await produce(served, 1, 2)
        while served.gateway.readiness()["default"] != "SERVING":
            served.clock.advance(250)
            await run_ready_tasks()
        again = await produce(served, 1, 2)
        assert verdicts_of(again) == (["GRANTED"] * 2 if fault == "lost" else ["DUPLICATE+OWN"] * 2)
        assert await served.read() == [1, 2]


async def test_rows_of_one_key_are_in_one_partition_each_under_offsets_without_gaps(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("keyed", partitions=3), served.deadline())
    numbers = list(range(40))
    first = await produce(served, *numbers, topic="keyed", keys=True)
    assert {span.partition for span in first.spans} == {0, 1, 2}
    assert served.disk.kinds()[-1] == ["TopicSet", *["Produced"] * 3], "one append"
    second = await produce(served, *range(20, 60), token=2, topic="keyed", keys=True)
    assert second.rows == 20
    where: dict[int, int] = {}
    for partition in range(3):
        fetched = await served.namespace.topics.fetch("keyed", partition, 0, 1_000, 1 << 30)
        found = [n for chunk in fetched.chunks for n in pa.ipc.open_stream(chunk.data).read_all()["n"].to_pylist()]
        assert fetched.high_offset == len(found)
        where |= dict.fromkeys(found, partition)
    assert sorted(where) == list(range(60))
    again = await produce(served, 60, *range(10), token=3, topic="keyed", keys=True)
    assert [span.rows for span in again.spans] == [1]


async def test_without_a_key_requests_take_turns_among_the_partitions(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("turns", partitions=3), served.deadline())
    spans = [(await produce(served, n, token=n, topic="turns")).spans[0] for n in range(1, 7)]
    assert [(span.partition, span.first_offset) for span in spans] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


async def test_an_id_has_the_offset_of_its_row(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("turns", partitions=2), served.deadline())
    await produce(served, 1, 2, topic="turns")
    await produce(served, 3, token=2, topic="turns")
    assert (await explained(served, 2)).written_at == ("turns", 0, 0)
    assert (await explained(served, 3)).written_at == ("turns", 1, 0)


async def test_rows_of_another_schema_are_refused_before_their_ids_are_done(served: Served) -> None:
    await produce(served, 1)
    rows = rows_of(2, column="other")
    ids = served.namespace.fingerprints().of_array(pa.array(["2"]))
    with pytest.raises(SchemaMismatch):
        await served.namespace.records.produce(ProduceRequest("topic", id16(2), 1, rows, ids), served.deadline())
    assert (await explained(served, 2)).state is IdState.ABSENT


async def test_a_namespace_that_makes_no_topics_explains_how_to_make_one(served: Served) -> None:
    await served.namespace.settings.configure(SettingsRequest(auto_create_topics=False), served.deadline())
    with pytest.raises(NotFound, match=r"auto_create_topics=false.*PUT /v1/namespaces/default/topics/topic"):
        await produce(served, 1)
    await served.namespace.topics.create(TopicRequest("topic"), served.deadline())
    assert verdicts_of(await produce(served, 1)) == ["GRANTED"]


async def test_an_owner_keeps_its_taken_ids(served: Served) -> None:
    async def take(owner: int, *ids: str) -> list[str]:
        prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
        return verdicts_of(await served.shard.claims.take(TakeRequest(id16(100 + owner), prints), served.deadline()))

    assert await take(1, "1", "2", "1") == ["GRANTED", "GRANTED", "SAME"]
    assert await take(1, "1", "2") == ["GRANTED", "GRANTED"], "a re-run of the same job"
    assert await take(2, "1", "3") == ["DUPLICATE", "GRANTED"]
    assert verdicts_of(await served.claim("1", token=5)) == ["DUPLICATE"]
    assert verdicts_of(await produce(served, 1, 4)) == ["DUPLICATE", "GRANTED"]
    assert await take(2, "4") == ["DUPLICATE"]
    found = await explained(served, 1)
    assert (found.state, found.owner) == (IdState.TAKEN, id16(101))
    assert [kind for group in served.disk.kinds() for kind in group].count("Taken") == 2
