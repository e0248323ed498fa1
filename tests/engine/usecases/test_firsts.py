"""The first write of a duplicate: offsets of an own write, the row offset of an id, the result of a completion."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.entries.kinds import Completed, Produced
from oncegate.core.errors import BadRequest, LedgerFull, TokenReused, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import ClaimRequest, ProduceRequest, Scope, TakeRequest, TopicRequest
from tests.support.located import ids_of, places, results
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of, wait_until

FLIGHT = b"departed 18:05"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def produce(served: Served, *numbers: int, token: int = 1, keys: bool = False, **more: Any) -> Any:
    rows = rows_of(*numbers)
    found = served.namespace.row_fingerprints.keys_of(rows.batches[0], ["n"]) if keys else None
    ask = ProduceRequest("topic", id16(token), 1, rows, ids_of(served, numbers), found, **more)
    return await served.namespace.records.produce(ask, served.deadline())


async def claim(served: Served, *numbers: int, token: int = 5, call: int = 1, locate: bool = True) -> Any:
    ask = ClaimRequest(id16(token), call, ids_of(served, numbers), locate=locate)
    return await served.shard.claims.claim(ask, served.deadline())


async def complete(served: Served, claimed: bytes, result: bytes | None = None) -> Any:
    return await served.shard.claims.settle(Verb.COMPLETE, claimed, served.deadline(), result)


async def done(served: Served, *numbers: int, result: bytes | None, token: int = 1) -> Any:
    answer = await claim(served, *numbers, token=token, locate=False)
    return await complete(served, answer.claim, result)


def spans(told: Any) -> list[tuple[int, int, int]]:
    return [(span.partition, span.first_offset, span.rows) for span in told]


async def compact(served: Served) -> None:
    served.shard.scheduler.compact()
    await wait_until(lambda: not served.shard.snapshotter.compacting)
    assert "compaction" in served.events.names()


async def read(served: Served, partition: int) -> list[int]:
    fetched = await served.namespace.topics.fetch("topic", partition, 0, 1_000, 1 << 40)
    return [n for chunk in fetched.chunks for n in pa.ipc.open_stream(chunk.data).read_all()["n"].to_pylist()]


async def where(served: Served, number: int, partitions: int = 1) -> tuple[str, int, int]:
    """Returns the location of a row by reading the topic."""
    for partition in range(partitions):
        values = await read(served, partition)
        if number in values:
            return "topic", partition, values.index(number)
    raise AssertionError(number)


async def test_a_retry_gets_its_offsets_again(served: Served) -> None:
    first = await produce(served, 1, 2, 3)
    await produce(served, 9, token=2)
    again = await produce(served, 1, 2, 3)
    assert (first.before, again.rows, again.spans) == ((), 0, ())
    assert spans(again.before) == spans(first.spans) == [(0, 0, 3)]


async def test_a_retry_of_rows_in_several_partitions_gets_the_offsets_of_each(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", 4), served.deadline())
    first = await produce(served, *range(20), keys=True)
    assert len(first.spans) == 4
    assert spans((await produce(served, *range(20), keys=True)).before) == sorted(spans(first.spans))


async def test_a_retry_that_writes_more_adds_both_to_the_next_answer(served: Served) -> None:
    claimed = await claim(served, 1, token=9, locate=False)
    assert verdicts_of(await produce(served, 1, 2)) == ["BUSY", "GRANTED"]
    await served.shard.claims.settle(Verb.RELEASE, claimed.claim, served.deadline())
    second = await produce(served, 1, 2)
    assert (verdicts_of(second), spans(second.spans), spans(second.before)) == (
        ["GRANTED", "DUPLICATE+OWN"],
        [(0, 1, 1)],
        [(0, 0, 1)],
    )
    assert spans((await produce(served, 1, 2)).before) == [(0, 0, 2)]


async def test_a_retry_after_a_takeover_among_new_rows_gets_one_range(served: Served) -> None:
    await claim(served, 2, token=9, locate=False)
    served.clock.advance(10**6)
    first = await produce(served, 1, 2, 3)
    assert verdicts_of(first) == ["GRANTED", "GRANTED+TAKEOVER", "GRANTED"]
    assert spans((await produce(served, 1, 2, 3)).before) == [(0, 0, 3)]


@asynccontextmanager
async def with_three_rows(ledgers: GatedLedgers, compacted: bool) -> AsyncIterator[Served]:
    """Yields a gateway with ids 7, of one call, and 1 and 2, of another, compacted on request."""
    async with serving(ledgers, collect_bytes=1) as served:
        await produce(served, 7, token=2)
        await produce(served, 1, 2)
        if compacted:
            await compact(served)
        yield served


@pytest.mark.parametrize("compacted", [False, True])
async def test_offsets_are_returned_after_a_restart_and_after_a_compaction(compacted: bool) -> None:
    ledgers = GatedLedgers()
    async with with_three_rows(ledgers, compacted):
        pass
    async with serving(ledgers, collect_bytes=1) as served:
        assert spans((await produce(served, 1, 2)).before) == [(0, 1, 2)]


async def test_offsets_are_forgotten_with_the_call(served: Served) -> None:
    await produce(served, 1, 2)
    served.clock.advance(Limits().settled_claim_ms + 1)
    again = await produce(served, 1, 2)
    assert (verdicts_of(again), again.before) == (["DUPLICATE+OWN"] * 2, ()), "its rows still contain the token"


async def test_a_retry_in_another_batch_is_another_request(served: Served) -> None:
    await produce(served, 1, scope=Scope("job", 1))
    with pytest.raises(TokenReused):
        await produce(served, 1, scope=Scope("job", 2))


async def test_a_duplicate_names_the_place_of_its_first(served: Served) -> None:
    await produce(served, 7, token=2)
    await produce(served, 1, 2, 3)
    answer = await claim(served, 3, 4, 1, 3, 7)
    assert verdicts_of(answer) == ["DUPLICATE", "GRANTED", "DUPLICATE", "SAME", "DUPLICATE"]
    assert places(answer) == [("topic", 0, 3), None, ("topic", 0, 1), None, ("topic", 0, 0)]


async def test_takes_and_produces_return_row_offsets_too(served: Served) -> None:
    await produce(served, 1, 2)
    taken = await served.shard.claims.take(TakeRequest(id16(3), ids_of(served, [2, 8]), locate=True), served.deadline())
    assert places(taken) == [("topic", 0, 1), None]
    produced = await produce(served, 5, 2, token=4, locate=True)
    assert places(produced) == [("topic", 0, 2), ("topic", 0, 1)]


async def test_places_are_those_that_reading_finds_in_all_partitions(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", 4), served.deadline())
    await produce(served, *range(40), keys=True)
    await produce(served, *range(40, 60), token=2, keys=True)
    asked = [59, 3, 17, 41, 0, 22]
    assert places(await claim(served, *asked)) == [await where(served, number, 4) for number in asked]


async def test_places_among_rows_that_were_taken_over_are_exact(served: Served) -> None:
    for order in ((11, 12, 13, 14, 15), (21, 22), (32, 31)):
        await claim(
            served, *(number for number in order if number % 10 in (2, 4, 5)), token=90 + order[0], locate=False
        )
    served.clock.advance(10**6)
    for token, order in enumerate(((11, 12, 13, 14, 15), (21, 22), (32, 31)), 20):
        assert (await produce(served, *order, token=token)).rows == len(order)
    asked = [13, 12, 15, 21, 22, 31, 32, 11, 14]
    assert places(await claim(served, *asked)) == [await where(served, number) for number in asked]


async def test_nothing_is_known_of_ids_that_were_written_elsewhere(served: Served) -> None:
    await done(served, 1, 2, result=None)
    answer = await claim(served, 1, 2)
    assert (verdicts_of(answer), places(answer), results(answer)) == (["DUPLICATE"] * 2, [None] * 2, [None] * 2)


@pytest.mark.parametrize("compacted", [False, True])
async def test_after_a_compaction_a_row_alone_has_its_place_and_others_are_unknown(compacted: bool) -> None:
    ledgers = GatedLedgers()
    async with with_three_rows(ledgers, compacted) as served:
        expected = [("topic", 0, 0), None if compacted else ("topic", 0, 2)]
        assert places(await claim(served, 7, 2)) == expected
    async with serving(ledgers, collect_bytes=1) as served:
        assert places(await claim(served, 7, 2)) == expected


async def test_rows_of_another_request_at_that_position_are_no_place(served: Served) -> None:
    """A row with the position of an entry that is not its own, which no gateway writes, has an unknown offset."""
    await produce(served, 1, 2)
    await produce(served, 3, 4, token=2)
    index = served.shard.journal.index.claims
    rows = index.table.rows_of(ids_of(served, [1, 3]))
    index.rows.holders.position[rows[0]] = index.rows.holders.position[rows[1]]
    assert places(await claim(served, 1, 2)) == [None, None]


async def test_an_entry_of_another_claim_is_no_place(served: Served) -> None:
    """The ids alone do not decide: forgotten and rewritten ids may be in both entries."""
    await produce(served, 1, 2)
    store = served.shard.journal.index.claims
    store.rows.claim[store.table.rows_of(ids_of(served, [1]))[0]] += np.uint64(1)
    assert places(await claim(served, 1, 2)) == [None, None]


async def test_the_number_of_entries_read_is_limited() -> None:
    async with serving(located_entries=2) as served:
        for token in range(1, 5):
            await produce(served, 10 * token, 10 * token + 1, token=token)
        answer = await claim(served, 10, 20, 30, 11, 40)
        assert places(answer) == [("topic", 0, 0), ("topic", 0, 2), None, ("topic", 0, 1), None]


async def test_places_are_read_once_they_are_durable(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(produce(served, 1, 2))
    pending = await served.begin(claim(served, 2))
    assert not pending.done()
    await served.disk.release()
    await first
    assert places(await pending) == [("topic", 0, 1)]


async def test_without_ids_there_is_nothing_to_locate(served: Served) -> None:
    ask = ProduceRequest("topic", id16(1), 1, rows_of(1), locate=True)
    with pytest.raises(BadRequest, match="locate"):
        await served.namespace.records.produce(ask, served.deadline())


async def test_a_duplicate_gets_the_result_of_the_first(served: Served) -> None:
    settled = await done(served, 1, 2, result=FLIGHT)
    assert (settled.state, settled.result, settled.other_result) == (ClaimState.DONE, FLIGHT, False)
    await done(served, 3, result=b"another", token=2)
    answer = await claim(served, 2, 4, 3, 1)
    assert results(answer) == [FLIGHT, None, b"another", FLIGHT]
    assert sorted(answer.located.results) == [b"another", FLIGHT]


async def test_the_first_result_is_kept_and_the_answer_shows_it(served: Served) -> None:
    answer = await claim(served, 1, token=1, locate=False)
    await complete(served, answer.claim, FLIGHT)
    again = await complete(served, answer.claim, b"other")
    assert (again.state, again.result, again.other_result) == (ClaimState.DONE, FLIGHT, True)
    same, none = await complete(served, answer.claim, FLIGHT), await complete(served, answer.claim)
    assert [(one.result, one.other_result) for one in (same, none)] == [(FLIGHT, False)] * 2
    assert results(await claim(served, 1)) == [FLIGHT]


async def test_a_result_that_comes_after_a_completion_without_one_is_left(served: Served) -> None:
    answer = await claim(served, 1, token=1, locate=False)
    await complete(served, answer.claim)
    late = await complete(served, answer.claim, FLIGHT)
    assert (late.result, late.other_result) == (None, True)
    assert results(await claim(served, 1)) == [None]


@pytest.mark.parametrize(("result", "kind"), [(b"", BadRequest), (bytes(257), TooLarge)])
async def test_a_result_that_does_not_fit_is_refused_before_anything_is_done(
    served: Served, result: bytes, kind: type[Exception]
) -> None:
    answer = await claim(served, 1, token=1, locate=False)
    with pytest.raises(kind, match="nothing was written"):
        await complete(served, answer.claim, result)
    assert verdicts_of(await claim(served, 1)) == ["BUSY"]
    assert (await complete(served, answer.claim, bytes(256))).result == bytes(256)


@pytest.mark.parametrize("verb", [Verb.RENEW, Verb.RELEASE])
async def test_other_ends_take_no_result(served: Served, verb: Verb) -> None:
    answer = await claim(served, 1, token=1, locate=False)
    with pytest.raises(BadRequest, match="takes no result"):
        await served.shard.claims.settle(verb, answer.claim, served.deadline(), FLIGHT)


async def test_ids_that_were_taken_over_have_the_result_of_who_wrote_them(served: Served) -> None:
    slow = await claim(served, 1, 2, token=1, locate=False)
    served.clock.advance(10**6)
    await done(served, 2, result=b"taken over", token=2)
    settled = await complete(served, slow.claim, FLIGHT)
    assert settled.taken_over == 1
    assert results(await claim(served, 1, 2)) == [FLIGHT, b"taken over"]


@pytest.mark.parametrize("compacted", [False, True])
async def test_results_are_returned_after_a_restart(compacted: bool) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers, collect_bytes=1) as served:
        await done(served, 7, result=b"seven", token=3)
        await done(served, 1, 2, result=FLIGHT)
        await claim(served, 4, token=8, locate=False)
        if compacted:
            await compact(served)
    async with serving(ledgers, collect_bytes=1) as served:
        assert results(await claim(served, 7, 2, 1, 4)) == [b"seven", FLIGHT, FLIGHT, None]


async def test_a_result_refused_by_the_disk_is_not_returned(served: Served) -> None:
    answer = await claim(served, 1, token=1, locate=False)
    served.disk.faults.append("full")
    with pytest.raises(LedgerFull):
        await complete(served, answer.claim, FLIGHT)
    assert served.shard.counters()["results_bytes"] == 0
    assert (await complete(served, answer.claim, b"then")).result == b"then"
    assert results(await claim(served, 1)) == [b"then"]


async def test_the_oldest_results_are_forgotten_for_memory_and_counted() -> None:
    async with serving(results_bytes=600) as served:
        for number in range(1, 5):
            await done(served, number, result=b"%d" % number, token=number)
        assert results(await claim(served, 1, 2, 3, 4)) == [None, b"2", b"3", b"4"]
        counters = served.shard.counters()
        assert (counters["results_forgotten"], counters["results_bytes"] <= 600) == (1, True)


async def test_only_an_entry_with_a_result_has_one_and_only_a_mixed_one_has_an_order(served: Served) -> None:
    await done(served, 1, result=None)
    await done(served, 2, result=FLIGHT, token=2)
    await produce(served, 3, 4, token=3)
    entries = [entry for group in served.disk.appends for entry in group]
    assert [entry.result for entry in entries if isinstance(entry, Completed)] == [b"", FLIGHT]
    assert [entry.taken_at for entry in entries if isinstance(entry, Produced)] == [b""]
