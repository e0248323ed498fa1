"""A gateway that seals early, its clock, and what is asked of it."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import pyarrow as pa

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import LedgerFull
from oncegate.engine.requests import ProduceRequest, TakeRequest
from tests.support.held import HeldLedgers, Served, id16, rows_of, said, serving, until

HOT = 8
LEASE_MS = 30_000
FORGOTTEN_MS = 3 * LEASE_MS
HOUR_MS = 3_600_000
_TOKENS = count(1_000)


@asynccontextmanager
async def eviction(ledgers: HeldLedgers | None = None, **limits: Any) -> AsyncIterator[Served]:
    """`HOT` ids stay in memory; an append of sealed ids has some 4 ids at most."""
    async with serving(ledgers, **{"hot_ids": HOT, "seal_bytes": 64} | limits) as served:
        yield served


async def done(served: Served, *ids: str, token: int = 1) -> None:
    answer = await served.claim(*ids, token=token)
    await served.settle(Verb.COMPLETE, answer.claim)


async def take(served: Served, owner: int, *ids: str) -> list[str]:
    prints = served.shard.fingerprints().of_array(pa.array(ids, pa.string()))
    return said(await served.shard.claims.take(TakeRequest(id16(owner), prints), served.deadline()))


async def produce(served: Served, *ids: str, token: int = 1, call: int = 9) -> list[str]:
    prints = served.shard.fingerprints().of_array(pa.array(ids, pa.string()))
    ask = ProduceRequest("topic", id16(token), call, rows_of(*range(len(ids))), prints)
    return said(await served.shard.records.produce(ask, served.deadline()))  # type: ignore[arg-type]


async def state(served: Served, name: str) -> IdState:
    prints = served.shard.fingerprints().of_array(pa.array([name], pa.string()))
    return (await served.shard.claims.explain(prints[0].tobytes())).state


async def seal(served: Served) -> None:
    """Claims are forgotten, then the upkeep looks, and whatever begins then ends."""
    served.clock.advance(FORGOTTEN_MS)
    served.shard.eviction.step()
    await settled(served)


async def settled(served: Served) -> None:
    eviction = served.shard.eviction
    await until(lambda: not eviction.working)


def names(first: int, last: int) -> Sequence[str]:
    return [f"id {number}" for number in range(first, last)]


def counters(served: Served) -> tuple[int, int, int]:
    """Ids known, ids in memory, ids that left it."""
    found = served.shard.counters()
    return found["ids"], served.shard.journal.index.claims.ids, found["cold_ids"]


def files(ledgers: HeldLedgers) -> dict[str, bytes]:
    """Runs and filters beside the ledger, by name; what is changed here is changed there."""
    return ledgers.runs.files["default"]


def runs_of(served: Served) -> list[str]:
    return [run.name for run in served.shard.journal.index.claims.cold.runs]


async def filled(served: Served, ids: int = 20) -> None:
    """Done ids and an owner's, most of them sealed."""
    await done(served, *names(0, ids))
    await take(served, 7, "taken")
    await seal(served)


async def answers_as_before(served: Served, ids: int = 20) -> None:
    """What `filled` did is known still, and nothing else is."""
    number = next(_TOKENS)
    asked = said(await served.claim(*names(0, ids), "taken", f"new {number}", token=number))
    assert asked == ["DUPLICATE"] * (ids + 1) + ["GRANTED"]
    assert await take(served, 7, "taken", "id 0") == ["GRANTED", "DUPLICATE"]


@contextmanager
def without_room(served: Served, kind: str = "") -> Iterator[None]:
    """No file fits beside the ledger; of this kind only, where one is named."""
    runs = served.shard.eviction._files._runs
    kept = runs.write

    def write(name: str, pieces: Iterable[bytes]) -> None:
        if not name.endswith(kind):
            return kept(name, pieces)
        raise LedgerFull(f"no room for {name}")

    runs.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        runs.write = kept  # type: ignore[method-assign]


async def pass_hours(served: Served, hours: int) -> None:
    """The upkeep looks often enough that each bucket is seen to be over."""
    for _ in range(hours):
        served.clock.advance(HOUR_MS)
        served.shard.scheduler.retire()
        await served.shard.group_commit.all_durable()
        await settled(served)
