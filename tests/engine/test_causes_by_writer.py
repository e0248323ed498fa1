"""Causes of duplicates when callers name their writer: for each verb, also after a restart."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from oncegate.core.causes import Cause
from oncegate.core.claims import Verb as Settling
from oncegate.core.writers import WriterId, encode
from oncegate.engine.counts.counts import OTHER, VERSIONS_MAX, Clients
from oncegate.engine.requests import NO_SENDER, Sender
from tests.support.counted_causes import causes, produce
from tests.support.memory_gateway import SENDER, GatedLedgers, Served, rows_of, serving, wait_until, winner
from tests.support.producing_lanes import lanes
from tests.support.sealed import done, take

QUERY, RUN = "query", "run"
TASK = WriterId(QUERY, RUN, "7", stage=4, task=2, attempt=0, serial=10)


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    yield
    SENDER.set(NO_SENDER)


def write_as(writer: WriterId | None) -> None:
    SENDER.set(NO_SENDER if writer is None else Sender(encode(writer)))


async def compact(served: Served) -> None:
    served.shard.snapshotter.compact(served.shard.scheduler.save)
    await wait_until(lambda: not served.shard.snapshotter.compacting)
    assert served.shard.marks.compacted_to > 0


async def claimed(served: Served, token: int) -> None:
    await done(served, "a", "b", token=token)


async def claimed_again(served: Served, token: int) -> None:
    await served.claim("a", "b", token=token)


async def claimed_beside_others(served: Served, token: int) -> None:
    """Makes two small claims close together, so that one call of the index decides both."""
    await asyncio.gather(served.claim("a", "b", token=token), served.claim(f"z{token}", token=token + 50))


async def produced(served: Served, token: int) -> None:
    await produce(served, "a", "b", token=token)


async def taken(served: Served, token: int) -> None:
    await take(served, token, "a", "b")


Verb = Callable[[Served, int], Coroutine[Any, Any, None]]
VERBS: dict[str, tuple[Verb, Verb]] = {
    "claim": (claimed, claimed_again),
    "claims together": (claimed, claimed_beside_others),
    "produce": (produced, produced),
    "take": (taken, taken),
}
LATER = {
    Cause.TASK_RETRY: TASK._replace(attempt=1, serial=11),
    Cause.STAGE_RETRY: TASK._replace(serial=11),
    Cause.SPECULATION: TASK._replace(attempt=1, serial=11, speculation=True),
    Cause.BATCH_REPLAY: TASK._replace(run="run 2", stage=1, serial=3),
    Cause.ZOMBIE: TASK._replace(serial=9),
    Cause.OTHER_JOB: TASK._replace(job="another"),
    Cause.UPSTREAM: TASK._replace(batch="8", stage=5),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("cause", LATER, ids=lambda cause: cause.name)
async def test_each_verb_reports_each_cause(verb: str, cause: Cause) -> None:
    first, again = VERBS[verb]
    async with serving() as served:
        write_as(TASK)
        await first(served, 1)
        write_as(LATER[cause])
        await again(served, 2)
        assert causes(served) == {cause.name.lower(): 2}


@pytest.mark.parametrize("verb", VERBS)
async def test_causes_known_without_a_writer_stay_known(verb: str) -> None:
    """Ids of other owners belong to another job; the cause of the rest is unknown."""
    first, again = VERBS[verb]
    async with serving() as served:
        await first(served, 1)
        write_as(TASK)
        await again(served, 2)
        assert causes(served) == {"other_job" if verb == "take" else "unknown": 2}


async def test_a_repeat_of_a_call_is_a_clients_retry_whatever_the_writer() -> None:
    async with serving() as served:
        write_as(TASK)
        await produce(served, "a", token=1)
        write_as(LATER[Cause.OTHER_JOB])
        await produce(served, "a", token=1)
        await produce(served, "a", token=1, call=2)
        assert causes(served) == {"client_retry": 1, "upstream": 1}


async def test_a_batch_scope_means_a_task_retry_unless_a_writer_is_named() -> None:
    async with serving() as served:
        await produce(served, "a", token=1, batch=7)
        write_as(TASK)
        await produce(served, "b", token=1, call=2, batch=7)
        write_as(LATER[Cause.BATCH_REPLAY])
        await produce(served, "a", "b", token=2, batch=7)
        assert causes(served) == {"task_retry": 1, "batch_replay": 1}


async def test_each_id_of_a_request_has_the_cause_of_its_own_first_write() -> None:
    async with serving() as served:
        for token, writer in enumerate((TASK, None, LATER[Cause.OTHER_JOB]), 1):
            write_as(writer)
            await produce(served, *(f"{token}{n}" for n in range(3)), token=token)
        write_as(LATER[Cause.TASK_RETRY])
        await produce(served, "10", "30", "11", "new", "20", "12", token=9)
        assert causes(served) == {"task_retry": 3, "other_job": 1, "unknown": 1}


async def test_claims_that_are_decided_together_keep_their_writers() -> None:
    async with serving() as served:
        write_as(TASK)
        one, _ = await asyncio.gather(served.claim("a", token=1), served.claim("b", token=2))
        await served.settle(Settling.COMPLETE, one.claim)
        write_as(LATER[Cause.TASK_RETRY])
        await served.claim("a", token=3)
        assert causes(served) == {"task_retry": 1}


async def test_a_row_that_is_used_again_forgets_who_made_the_last_claim() -> None:
    async with serving() as served:
        write_as(TASK)
        claimed = await served.claim("a", token=1)
        rows = served.shard.journal.index.claims.rows
        used = rows.made
        await served.settle(Settling.RELEASE, claimed.claim)
        served.clock.advance(3_600_000)
        served.shard.journal.index.claims.sweep(served.clock.monotonic_ms())
        write_as(None)
        await done(served, "b", token=2)
        assert rows.made == used, "the row was used again"
        write_as(TASK)
        await served.claim("b", token=3)
        assert causes(served) == {"unknown": 1}


@pytest.mark.parametrize("compacted", [False, True])
async def test_the_cause_survives_a_restart(compacted: bool) -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        write_as(TASK._replace(run="run 0"))
        await produce(served, "x", token=8)
        write_as(TASK)
        await produced(served, 1)
        await done(served, "c", token=3)
        write_as(None)
        await done(served, "d", token=4)
        if compacted:
            await compact(served)
    async with serving(ledgers) as served:
        write_as(LATER[Cause.TASK_RETRY])
        await produce(served, "a", "b", token=5)
        await served.claim("c", "d", token=5, call=2)
        assert causes(served) == {"task_retry": 3, "unknown": 1}
        write_as(TASK._replace(run="run 0"))
        await produce(served, "a", token=6)
        assert causes(served) == {"task_retry": 3, "unknown": 1, "zombie": 1}, "the order of runs too"


async def test_sequences_have_the_cause_by_the_writer_of_the_previous_epoch() -> None:
    ledgers = GatedLedgers()
    async with lanes(ledgers) as lane:
        write_as(TASK)
        await lane.close()
        await lane.register(token=2)
        await lane.produce(0, [1, 2], token=2, epoch=2)
        await lane.close(token=2, epoch=2)
        write_as(LATER[Cause.BATCH_REPLAY])
        await lane.register(token=3)
        await lane.claim(0, [1, 2, 3], token=3, epoch=3)
        assert causes(lane.served) == {"batch_replay": 2}
        await compact(lane.served)
    async with lanes(ledgers) as lane:
        write_as(None)
        await lane.claim(1, [1, 2], token=3, epoch=3)
        assert causes(lane.served) == {"batch_replay": 2}, "as it registered"


async def test_rows_staged_beside_the_winners_have_the_cause_of_the_later_of_both_attempts() -> None:
    async with serving() as served:
        write_as(TASK)
        await served.stage(rows_of(1, 2, 3), token=1)
        write_as(LATER[Cause.SPECULATION])
        won = await served.stage(rows_of(1, 2, 3), token=2)
        write_as(TASK._replace(task=5))
        other = await served.stage(rows_of(4), token=3)
        write_as(TASK._replace(task=5, attempt=1, serial=12))
        await served.stage(rows_of(4), token=4)
        write_as(None)
        await served.stage(rows_of(5, 6), token=5)
        write_as(WriterId(QUERY, RUN, "7"))
        await served.commit(winner(won, token=2), winner(other, token=3), run=RUN)
        assert causes(served) == {"speculation": 3, "task_retry": 1 + 2}


async def test_a_commit_by_an_older_run_than_the_one_that_committed_is_a_zombies() -> None:
    async with serving() as served:
        write_as(TASK)
        await served.stage(rows_of(1, 2), token=1)
        write_as(LATER[Cause.BATCH_REPLAY])
        won = await served.stage(rows_of(1, 2), token=2)
        await served.commit(winner(won, token=2), run="run 2")
        assert causes(served) == {"batch_replay": 2}, "rows staged by the previous run"
        write_as(WriterId(QUERY, RUN, "7"))
        await served.commit(winner(won, token=1), run=RUN, nonce=2, digest=None)
        assert causes(served) == {"batch_replay": 2, "zombie": 2}
        write_as(WriterId(QUERY, "run 3", "7"))
        await served.commit(winner(won, token=3), run="run 3", nonce=3, digest=None)
        assert causes(served) == {"batch_replay": 4, "zombie": 2}


async def test_rows_of_a_client_are_counted_by_its_program_and_version() -> None:
    async with serving() as served:
        clients = served.gateway.clients
        SENDER.set(Sender(client=clients.of("oncegate-spark/1.0.0 (x)")))
        await produce(served, "a", "b", "b", token=1)
        SENDER.set(Sender(client=clients.of("curl/8.5.0")))
        await produce(served, "a", "c", token=2)
        counted = {name: (client.ids, sum(client.duplicates)) for name, client in clients.by_name.items()}
        assert counted == {("other", "other"): (0, 0), ("oncegate-spark", "1.0.0"): (3, 1), ("curl", "8.5.0"): (2, 1)}
        assert clients.of("curl/8.5.0").duplicates[Cause.UNKNOWN] == 1


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("oncegate-python/1.0.0rc1", ("oncegate-python", "1.0.0rc1")),
        ("grpc-python/1.60.0 grpc-c/37.0 (linux)", ("grpc-python", "1.60.0")),
        ("Java-http-client/17.0.9", ("Java-http-client", "17.0.9")),
        ("Mozilla/5.0 (X11)", (OTHER, OTHER)),
        ("curl", (OTHER, OTHER)),
        ("curl/x", (OTHER, OTHER)),
        ("curl/" + "1" * 33, (OTHER, OTHER)),
        ("", ("none", "none")),
        (None, ("none", "none")),
    ],
)
def test_a_client_is_a_program_that_is_known_or_other(user_agent: str | None, name: tuple[str, str]) -> None:
    clients = Clients()
    assert clients.of(user_agent) is clients.by_name[name]


def test_more_versions_than_there_is_room_for_are_other() -> None:
    clients = Clients()
    for number in range(VERSIONS_MAX - 1):
        clients.of(f"curl/{number}")
    assert len(clients.by_name) == VERSIONS_MAX
    assert clients.of("curl/99") is clients.by_name[OTHER, OTHER]
    assert clients.of("curl/0") is clients.by_name["curl", "0"]
    assert len(clients.by_name) == VERSIONS_MAX
