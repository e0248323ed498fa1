"""Commit: all winners' rows at once, or none with the reason; once per name, however often it is repeated."""

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import (
    BadRequest,
    BatchConflict,
    BatchForgotten,
    LedgerFull,
    MissingStage,
    SchemaMismatch,
    SecondWrite,
)
from oncegate.engine.requests import Winner
from oncegate.index import committed_names
from oncegate.index.batches import totals
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, winner

INPUT, OTHER_INPUT = b"i" * 32, b"o" * 32
LATER = Name("query", "6", "topic")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def staged(served: Served, *numbers: int, token: int = 1, name: Name | None = None) -> Winner:
    return winner(await served.stage(rows_of(*numbers), name, token), token)


async def test_all_winners_are_published_in_the_order_named_and_losers_are_not(served: Served) -> None:
    first, loser, second = [await staged(served, *n, token=t) for t, n in ((1, (1, 2)), (2, (9,)), (3, (3,)))]
    assert loser.rows == 1
    answer = await served.commit(second, first)
    assert (answer.outcome, answer.rows, answer.spans[0].first_offset, answer.suppressed_rows) == ("COMMITTED", 3, 0, 1)
    assert await served.read() == [3, 1, 2]
    assert served.shard.counters()["suppressed_rows"] == 1


async def test_chunks_are_published_in_their_order_however_they_came(served: Served) -> None:
    late, early = await served.stage(rows_of(3, 4), chunk=1), await served.stage(rows_of(1, 2), chunk=0)
    both = Winner(id16(1), 2, 4, totals([winner(late), winner(early)])[1])
    await served.commit(both)
    assert await served.read() == [1, 2, 3, 4]


async def test_offsets_go_on_without_holes(served: Served) -> None:
    await served.commit(await staged(served, 1, 2))
    later = await served.commit(await staged(served, 3, name=LATER), name=LATER, nonce=2)
    assert (later.spans[0].first_offset, (await served.namespace.topics.view("topic")).high_offsets[0]) == (2, 3)


async def test_the_first_commit_of_an_app_to_a_topic_is_marked_and_so_is_its_repeat(served: Served) -> None:
    """Regardless of version and write_id: rows already in the topic belong to another query."""
    named = Name("query", "5", "topic", "named")
    first = await served.commit(await staged(served, 1, name=named), name=named)
    unnamed = await staged(served, 2)
    assert first.first_of_app
    assert (await served.commit(await staged(served, 1, name=named), name=named)).first_of_app, "its reply was lost"
    assert not (await served.commit(unnamed, nonce=2)).first_of_app
    for name in (Name("query", "5", "other"), Name("another", "5", "topic")):
        assert (await served.commit(await staged(served, 3, name=name), name=name, nonce=3)).first_of_app
    assert not (await served.commit(await staged(served, 1, name=named), name=named, run="2", nonce=4)).first_of_app


async def test_a_batch_without_rows_is_committed_once_too(served: Served) -> None:
    assert (await served.commit()).outcome == "COMMITTED"
    assert (await served.commit(run="2", nonce=2)).outcome == "DUPLICATE"
    assert served.shard.journal.index.topics.names() == []


async def test_a_missing_stage_publishes_nothing_and_keeps_the_others(served: Served) -> None:
    there = await staged(served, 1)
    with pytest.raises(MissingStage, match="batch 5 of query"):
        await served.commit(there, Winner(id16(2), 1, 1, bytes(16)))
    assert served.shard.journal.index.topics.names() == []
    assert (await served.commit(there)).outcome == "COMMITTED"


async def test_one_token_twice_among_the_winners_is_refused_and_the_shard_continues(served: Served) -> None:
    once = await staged(served, 1)
    with pytest.raises(BadRequest, match="twice"):
        await served.commit(once, once)
    assert (await served.commit(once)).rows == 1


async def test_winners_of_different_schemas_are_refused_before_any_effect(served: Served) -> None:
    first = await staged(served, 1)
    other = winner(await served.stage(rows_of("x", kind=pa.string()), token=2), 2)
    with pytest.raises(SchemaMismatch):
        await served.commit(first, other)
    assert served.shard.journal.index.topics.names() == []
    assert (await served.commit(first)).outcome == "COMMITTED"


async def test_a_topic_that_got_another_schema_meanwhile_refuses_the_commit(served: Served) -> None:
    first = await staged(served, 1)
    await served.produce(rows_of(7, column="m"))
    with pytest.raises(SchemaMismatch):
        await served.commit(first)


async def test_a_lost_reply_is_repeated_and_publishes_nothing_more(served: Served) -> None:
    first = await staged(served, 1, 2)
    answer = await served.commit(first, nonce=3)
    assert await served.commit(first, nonce=3) == answer
    assert await served.read() == [1, 2]


async def test_a_replay_is_a_duplicate_and_counted(served: Served) -> None:
    first = await staged(served, 1, 2)
    await served.commit(first, digest=INPUT)
    replay = await served.commit(await staged(served, 1, 2, token=2), run="2", nonce=2, digest=INPUT)
    assert (replay.outcome, replay.rows, replay.suppressed_rows, replay.warning) == ("DUPLICATE", 2, 2, None)
    counters = served.shard.counters()
    assert (counters["duplicate_commits"], counters["suppressed_rows"], counters["committed_rows"]) == (1, 2, 2)


async def test_a_replay_with_other_rows_keeps_the_first_and_warns(served: Served) -> None:
    await served.commit(await staged(served, 1, 2), digest=INPUT)
    replay = await served.commit(await staged(served, 8, 9, 10, token=2), run="2", nonce=2, digest=INPUT)
    assert replay.outcome == "DUPLICATE"
    assert "3 other rows than the 2 committed" in replay.warning
    assert "replay_differs" in served.events.names()
    assert await served.read() == [1, 2]


async def test_every_ask_for_a_committed_name_is_an_entry_also_when_it_is_refused(served: Served) -> None:
    await served.commit(await staged(served, 1), digest=INPUT)
    with pytest.raises(BatchConflict):
        await served.commit(await staged(served, 1, token=2), run="2", nonce=2, digest=OTHER_INPUT)
    await served.commit(await staged(served, 1, token=3), run="3", nonce=3, digest=INPUT)
    asks = [entry for group in served.disk.appends for entry in group if type(entry).__name__ == "Asked"]
    assert [(ask.run, ask.outcome) for ask in asks] == [(b"2", "BATCH_CONFLICT"), (b"3", "DUPLICATE")]  # type: ignore[union-attr]


async def test_a_second_write_of_one_run_is_known_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await served.commit(await staged(served, 1), digest=INPUT)
        await served.commit(await staged(served, 1, token=2), run="2", nonce=2, digest=INPUT)
    async with serving(ledgers) as served:
        with pytest.raises(SecondWrite, match="write_id"):
            await served.commit(await staged(served, 1, token=3), run="2", nonce=3, digest=INPUT)
        assert (await served.commit(await staged(served, 1, token=4), run="3", nonce=4, digest=INPUT)).outcome == (
            "DUPLICATE"
        )


async def test_jobs_without_a_run_are_never_second_writes(served: Served) -> None:
    await served.commit(await staged(served, 1), run=None)
    assert (await served.commit(await staged(served, 1, token=2), run=None, nonce=2)).outcome == "DUPLICATE"


async def test_other_input_is_a_conflict_that_shows_the_existing_input_and_the_one_way_to_continue(
    served: Served,
) -> None:
    await served.commit(await staged(served, 1, 2), digest=INPUT)
    for first_wins in (False, True):
        with pytest.raises(
            BatchConflict, match=r"batch 5 of query to topic topic .* with 2 rows at offset 0"
        ) as refused:
            await served.commit(
                await staged(served, 3, token=2),
                run=f"{first_wins}",
                nonce=2,
                digest=OTHER_INPUT,
                first_wins=first_wins,
            )
        assert "new `app`" in refused.value.detail
        assert "first_wins" not in refused.value.detail, "it would not help"
        assert refused.value.extra["committed_rows"] == 2
        assert str(refused.value.extra["committed_at"]).startswith("2023-11-14T22:13")


async def test_other_rows_of_unknown_input_are_a_conflict_that_first_wins_settles(served: Served) -> None:
    await served.commit(await staged(served, 1), digest=INPUT)
    other = await staged(served, 2, token=2)
    with pytest.raises(BatchConflict, match=r"first_wins.* or a new `app`"):
        await served.commit(other, run="2", nonce=2)
    settled = await served.commit(other, run="3", nonce=3, first_wins=True)
    assert settled.outcome == "DUPLICATE"
    assert await served.read() == [1]


async def test_a_batch_that_follows_another_history_is_a_conflict(served: Served) -> None:
    await served.commit(await staged(served, 1), digest=INPUT)
    later = await staged(served, 2, name=LATER)
    with pytest.raises(BatchConflict, match="follows a batch that was committed with other input") as refused:
        await served.commit(later, name=LATER, nonce=2, digest=b"n" * 32, previous=OTHER_INPUT)
    assert "first_wins" not in refused.value.detail
    assert (await served.commit(later, name=LATER, nonce=3, digest=b"n" * 32, previous=INPUT)).outcome == "COMMITTED"


async def test_a_forgotten_batch_is_reported_as_forgotten(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 1)
    await served.commit(await staged(served, 1))
    await served.commit(await staged(served, 2, name=LATER), name=LATER, nonce=2)
    with pytest.raises(BatchForgotten, match="too long ago"):
        await served.commit(await staged(served, 1, token=3), run="2", nonce=3, first_wins=True)


async def test_an_older_name_never_commits_again_and_its_replay_is_judged_by_its_input(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 1)
    await served.commit(await staged(served, 1), run="1", digest=INPUT)
    await served.commit(await staged(served, 2, name=LATER), name=LATER, nonce=2)
    again = await staged(served, 1, token=3)
    found = await served.commit(again, run="2", nonce=3, digest=INPUT)
    assert (found.outcome, found.rows, found.spans) == ("DUPLICATE", 1, ())
    assert (await served.commit(again, run="1", digest=INPUT)).outcome == "COMMITTED", "the reply was lost"
    with pytest.raises(SecondWrite):
        await served.commit(again, run="2", nonce=4, digest=INPUT)
    with pytest.raises(BatchConflict, match="committed at"):
        await served.commit(again, run="3", nonce=5, digest=OTHER_INPUT)
    assert await served.read() == [1, 2]


async def test_two_commits_of_one_name_at_once_publish_one(served: Served) -> None:
    first, second = await staged(served, 1), await staged(served, 2, token=2)
    served.disk.hold()
    tasks = [
        await served.begin(served.commit(one, run=f"{n}", nonce=n, digest=INPUT))
        for n, one in ((1, first), (2, second))
    ]
    await served.disk.release()
    assert [task.result().outcome for task in tasks] == ["COMMITTED", "DUPLICATE"]
    assert await served.read() == [1]


async def test_a_lower_version_of_a_job_is_skipped_with_all_that_it_staged(served: Served) -> None:
    low, high = Name("load", "9", "topic"), Name("load", "10", "topic")
    await served.commit(await staged(served, 1, 2, name=high), name=high, run=None)
    brought = [await staged(served, 3, token=2, name=low), await staged(served, 4, 5, token=3, name=low)]
    skipped = await served.commit(*brought, name=low, run=None, nonce=2)
    assert (skipped.outcome, skipped.rows, skipped.suppressed_rows, skipped.spans) == ("DUPLICATE", 0, 3, ())
    assert skipped.higher_version == "10"
    assert "version 9 of load to topic topic is skipped" in skipped.warning
    assert await served.read() == [1, 2]
    counters = served.shard.counters()
    assert (counters["lower_versions"], counters["duplicate_commits"]) == (1, 0)
    assert served.shard.counters()["stage_bytes"] == 0, "its staged rows are gone"
    again = await served.commit(*brought, name=low, run=None, nonce=2)
    assert (again.outcome, again.higher_version) == ("DUPLICATE", "10"), "its stages are not missed"


async def test_a_lower_version_of_another_job_topic_or_write_is_published(served: Served) -> None:
    await served.commit(await staged(served, 1, name=LATER), name=LATER, run=None)
    others = [Name("other", "5", "topic"), Name("query", "5", "elsewhere"), Name("query", "5", "topic", "second")]
    for number, name in enumerate(others):
        done = await served.commit(await staged(served, 2, name=name), name=name, run=None, nonce=2 + number)
        assert (done.outcome, done.higher_version) == ("COMMITTED", None)


async def test_a_skipped_version_is_reported_once_the_higher_one_is_durable() -> None:
    async with serving() as served:
        low, high = Name("load", "9", "topic"), Name("load", "10", "topic")
        brought = await staged(served, 1, name=high)
        served.disk.hold()
        first = await served.begin(served.commit(brought, name=high, run=None))
        second = await served.begin(served.commit(name=low, run=None, nonce=2))
        assert not second.done()
        served.disk.faults.append("full")
        await served.disk.release()
        with pytest.raises(LedgerFull):
            await first
        with pytest.raises(LedgerFull):
            await second


async def test_a_restored_checkpoint_continues_if_it_reads_the_same(served: Served) -> None:
    """Batch 5 is read again under another entry of the offset log, which batch 6 names as its predecessor."""
    read, entry, later_entry = b"r" * 32, b"a" * 32, b"b" * 32
    await served.commit(await staged(served, 1), digest=entry, reads=read)
    replay = await served.commit(await staged(served, 1, token=2), run="2", nonce=2, digest=later_entry, reads=read)
    assert (replay.outcome, replay.suppressed_rows) == ("DUPLICATE", 1)
    follows = await staged(served, 2, token=3, name=LATER)
    done = await served.commit(follows, name=LATER, run="2", nonce=3, digest=b"c" * 32, previous=later_entry)
    assert done.outcome == "COMMITTED"
    assert await served.read() == [1, 2]


async def test_a_restored_checkpoint_that_reads_something_else_stops_and_writes_nothing(served: Served) -> None:
    await served.commit(await staged(served, 1), digest=b"a" * 32, reads=b"r" * 32)
    other = await staged(served, 2, token=2)
    with pytest.raises(BatchConflict):
        await served.commit(other, run="2", nonce=2, digest=b"b" * 32, reads=b"s" * 32, first_wins=True)
    assert await served.read() == [1]
