"""Payloads in the engine: as durable as their ids, undone with them, and compared after a restart."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.entries.kinds import Claimed, Produced
from oncegate.core.errors import LedgerFull, TokenReused
from oncegate.engine.requests import ClaimRequest, ProduceRequest, TopicRequest
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def beside(served: Served, texts: str | None) -> np.ndarray | None:
    return None if texts is None else served.namespace.payloads.of_columns([pa.array(list(texts))])


async def claim(served: Served, ids: str, payloads: str | None, token: int = 1, call: int = 1) -> Any:
    """Claims one-letter ids, with one letter per payload."""
    found = served.namespace.fingerprints().of_array(pa.array(list(ids)))
    ask = ClaimRequest(id16(token), call, found, digests=beside(served, payloads))
    return await served.shard.claims.claim(ask, served.deadline())


async def done(served: Served, ids: str, payloads: str | None, token: int = 1) -> None:
    answer = await claim(served, ids, payloads, token, call=77)
    await served.settle(Verb.COMPLETE, answer.claim)


async def produce(served: Served, ids: str, payloads: str | None, token: int = 1, keys: Any = None) -> Any:
    rows = rows_of(*map(ord, ids))
    found = served.namespace.fingerprints().of_array(pa.array(list(ids)))
    ask = ProduceRequest("topic", id16(token), 1, rows, found, keys, digests=beside(served, payloads))
    return await served.namespace.records.produce(ask, served.deadline())


async def test_another_payload_is_reported_and_counted_and_the_same_is_a_duplicate(served: Served) -> None:
    await done(served, "abc", "xyz")
    assert verdicts_of(await claim(served, "abcd", "xqzq", token=2)) == [
        "DUPLICATE",
        "CONFLICT",
        "DUPLICATE",
        "GRANTED",
    ]
    counters = served.shard.counters()
    assert (counters["conflicts"], counters["duplicates"]) == (1, 2)


async def test_only_what_is_granted_is_in_the_entry_with_its_payload(served: Served) -> None:
    await done(served, "a", "x")
    await claim(served, "abac", "qyqz", token=2)
    entry = served.disk.appends[-1][0]
    assert isinstance(entry, Claimed)
    assert len(entry.fresh) == 32
    assert entry.digests == served.namespace.payloads.of_columns([pa.array(["y", "z"])]).tobytes()


async def test_rows_with_another_payload_are_not_written(served: Served) -> None:
    first = await produce(served, "ab", "xy")
    assert (verdicts_of(first), first.rows) == (["GRANTED"] * 2, 2)
    second = await produce(served, "abcc", "qyzq", token=2)
    assert (verdicts_of(second), second.rows) == (["CONFLICT", "DUPLICATE", "GRANTED", "CONFLICT"], 1)
    assert await served.read() == [ord(letter) for letter in "abc"]


async def test_each_partition_has_the_payloads_of_its_own_rows(served: Served) -> None:
    await served.namespace.topics.create(TopicRequest("topic", partitions=2), served.deadline())
    await produce(served, "abcd", "wxyz", keys=np.array([0, 1, 0, 1], np.uint64))
    found = [entry.digests for entry in served.disk.appends[-1] if isinstance(entry, Produced)]
    assert found == [served.namespace.payloads.of_columns([pa.array(list(of))]).tobytes() for of in ("wy", "xz")]
    assert verdicts_of(await produce(served, "abcd", "wxyz", token=2)) == ["DUPLICATE"] * 4
    assert verdicts_of(await produce(served, "abcd", "zyxw", token=3)) == ["CONFLICT"] * 4


@pytest.mark.parametrize("verb", [claim, produce])
async def test_a_repeat_with_another_payload_is_another_request(served: Served, verb: Any) -> None:
    await verb(served, "a", "x")
    await verb(served, "a", "x")
    for other in ("y", None):
        with pytest.raises(TokenReused):
            await verb(served, "a", other)


async def test_a_conflict_waits_until_what_it_rests_on_is_durable(served: Served) -> None:
    served.disk.hold()
    first = await served.begin(produce(served, "a", "x"))
    second = await served.begin(produce(served, "a", "y", token=2))
    assert not second.done(), "nothing of it is durable yet"
    await served.disk.release()
    assert verdicts_of(await first) == ["GRANTED"]
    assert verdicts_of(await second) == ["CONFLICT"]


async def test_a_refused_append_takes_the_payload_back_too(served: Served) -> None:
    served.disk.faults = ["full"]
    with pytest.raises(LedgerFull):
        await claim(served, "a", "x")
    assert not contents(served.shard.journal.index.claims)


async def test_each_id_that_is_taken_over_has_the_payload_it_was_taken_over_with(served: Served) -> None:
    await claim(served, "abc", "xxx")
    served.clock.advance(60_000)
    taken = await claim(served, "cdab", "rstu", token=2)
    assert verdicts_of(taken) == ["GRANTED+TAKEOVER", "GRANTED", "GRANTED+TAKEOVER", "GRANTED+TAKEOVER"]
    await served.settle(Verb.COMPLETE, taken.claim)
    assert verdicts_of(await claim(served, "abcd", "turs", token=3)) == ["DUPLICATE"] * 4
    assert verdicts_of(await claim(served, "abcd", "utsr", token=3, call=2)) == ["CONFLICT"] * 4


async def test_payloads_are_known_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await done(served, "ab", "xy")
        await produce(served, "c", "z")
        await done(served, "d", None, token=5)
    async with serving(ledgers) as served:
        assert verdicts_of(await claim(served, "abcd", "xqqq", token=9)) == [
            "DUPLICATE",
            "CONFLICT",
            "CONFLICT",
            "DUPLICATE",
        ]
        found = served.namespace.fingerprints().of_array(pa.array(["a", "d"]))
        kept = [(await served.shard.claims.explain(one.tobytes())).digest_kept for one in found]
        assert kept == [True, False]


async def test_payloads_are_known_after_a_restart_from_a_collected_ledger() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        await done(served, "ab", "xy")
        index = served.shard.journal.index
        copy = type(index)()
        for position, piece in enumerate(index.snapshot(), 1):
            copy.replayed(position, piece)
        assert contents(copy.claims) == contents(index.claims)
        assert any(digest for *_, digest in contents(copy.claims).values())
