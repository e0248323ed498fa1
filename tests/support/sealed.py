"""A gateway that seals early, its clock, and requests to it."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import pyarrow as pa

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import LedgerFull
from oncegate.engine.requests import ProduceRequest, TakeRequest
from tests.support.memory_gateway import SENDER, GatedLedgers, Served, id16, rows_of, serving, verdicts_of, wait_until

HOT = 8
LEASE_MS = 30_000
FORGOTTEN_MS = 3 * LEASE_MS
HOUR_MS = 3_600_000
_TOKENS = count(1_000)


@asynccontextmanager
async def eviction(ledgers: GatedLedgers | None = None, **limits: Any) -> AsyncIterator[Served]:
    """Opens a gateway that keeps `HOT` ids in memory; an append of sealed ids has about 4 ids at most."""
    async with serving(ledgers, **{"hot_ids": HOT, "seal_bytes": 64} | limits) as served:
        yield served


async def done(served: Served, *ids: str, token: int = 1) -> None:
    answer = await served.claim(*ids, token=token)
    await served.settle(Verb.COMPLETE, answer.claim)


async def take(served: Served, owner: int, *ids: str) -> list[str]:
    prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    return verdicts_of(
        await served.shard.claims.take(TakeRequest(id16(owner), prints, sender=SENDER.get()), served.deadline())
    )


async def produce(served: Served, *ids: str, token: int = 1, call: int = 9) -> list[str]:
    prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    ask = ProduceRequest("topic", id16(token), call, rows_of(*range(len(ids))), prints)
    return verdicts_of(await served.namespace.records.produce(ask, served.deadline()))  # type: ignore[arg-type]


async def state(served: Served, name: str) -> IdState:
    prints = served.namespace.fingerprints().of_array(pa.array([name], pa.string()))
    return (await served.shard.claims.explain(prints[0].tobytes())).state


async def seal(served: Served) -> None:
    """Lets claims be forgotten, runs the upkeep once, and waits for the work that it starts."""
    served.clock.advance(FORGOTTEN_MS)
    served.shard.eviction.step()
    await settled(served)


async def settled(served: Served) -> None:
    eviction = served.shard.eviction
    await wait_until(lambda: not eviction.working)


def names(first: int, last: int) -> Sequence[str]:
    return [f"id {number}" for number in range(first, last)]


def counters(served: Served) -> tuple[int, int, int]:
    """Returns the number of ids known, of ids in memory, and of ids sealed."""
    counts = served.shard.counters()
    return counts["ids"], served.shard.journal.index.claims.ids, counts["cold_ids"]


def files(ledgers: GatedLedgers) -> dict[str, bytes]:
    """Returns the runs and filters beside the ledger by name. Changes to the dict change the files."""
    return ledgers.runs.files["default"]


def runs_of(served: Served) -> list[str]:
    return [run.name for run in served.shard.journal.index.claims.cold.runs]


async def filled(served: Served, ids: int = 20) -> None:
    """Completes ids and takes one for an owner; most of them end up sealed."""
    await done(served, *names(0, ids))
    await take(served, 7, "taken")
    await seal(served)


async def answers_as_before(served: Served, ids: int = 20) -> None:
    """Checks that everything that `filled` did is known, and nothing else."""
    number = next(_TOKENS)
    asked = verdicts_of(await served.claim(*names(0, ids), "taken", f"new {number}", token=number))
    assert asked == ["DUPLICATE"] * (ids + 1) + ["GRANTED"]
    assert await take(served, 7, "taken", "id 0") == ["GRANTED", "DUPLICATE"]


@contextmanager
def without_room(served: Served, kind: str = "") -> Iterator[None]:
    """Makes every write of a file beside the ledger fail, or only files of this kind."""
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
    """Advances the clock hour by hour, so that the upkeep sees the end of each bucket."""
    for _ in range(hours):
        served.clock.advance(HOUR_MS)
        served.shard.scheduler.retire()
        await served.shard.group_commit.all_durable()
        await settled(served)
