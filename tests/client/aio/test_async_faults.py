"""Many concurrent calls over a bad network, with cancellations and gateway kills, all of it real."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from oncegate_spark import AsyncGateway, Gateway
from oncegate_spark.errors import NotCompleted, StillBusy
from tests.support.faulty_proxy import Fault, FaultyProxy, dealt
from tests.support.gateway_process import GatewayProcess
from tests.support.memory_gateway import run_ready_tasks

pytestmark = pytest.mark.server
SEED = int(os.environ.get("ONCEGATE_TEST_SEED", "20261121"))
IDS = [f"id-{n}" for n in range(60)]


@asynccontextmanager
async def through(proxy: FaultyProxy, namespace: str) -> AsyncIterator[AsyncGateway]:
    async with AsyncGateway(f"http://127.0.0.1:{proxy.port}", namespace, timeout_ms=20_000) as gateway:
        yield gateway


async def until_done(work: Callable[[], Awaitable[None]], rng: Random, proxy: FaultyProxy) -> bool:
    """Repeats a piece of work until it finishes. Returns whether it was cancelled.

    Some first attempts are cancelled after a number of turns of the loop; within two turns no answer can arrive.
    """
    if rng.random() < 0.3:
        if await ended(work, rng.choice([2, 20, 200, 2_000])):
            return False
        await asyncio.to_thread(proxy.deliver_late)
        await work()
        return True
    await work()
    return False


async def ended(work: Callable[[], Awaitable[None]], turns_max: int) -> bool:
    """Returns whether the work finished before it was cancelled."""
    trying = asyncio.ensure_future(work())
    await run_ready_tasks(turns_max)
    trying.cancel()
    try:
        await trying
    except asyncio.CancelledError:
        return False
    return True


@pytest.mark.parametrize("walk", range(2))
async def test_rows_with_ids_are_there_once_whatever_is_lost_or_cancelled(
    gateway_process: GatewayProcess, gateway: Gateway, walk: int
) -> None:
    """Six workers on one client, each over all of the ids in an order of its own."""
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED + walk)
    with FaultyProxy(gateway_process.port, dealt(rng)) as proxy:
        async with through(proxy, gateway.namespace) as client:

            async def worker(own: Random) -> int:
                order, cancelled = own.sample(IDS, len(IDS)), 0
                for start in range(0, len(order), 6):
                    rows = pa.table({"id": order[start : start + 6]})

                    async def produced(rows: pa.Table = rows) -> None:
                        async with client.attempt() as attempt:
                            await attempt.produce("t", rows, id_col="id")

                    cancelled += await until_done(produced, own, proxy)
                return cancelled

            workers = [worker(Random(f"{SEED}-{walk}-{n}")) for n in range(6)]
            assert sum(await asyncio.gather(*workers)) > 0
        await asyncio.to_thread(proxy.deliver_late)
        assert {fault for _, fault in proxy.seen} == set(Fault)
    table = gateway.read("t")
    assert table is not None
    assert Counter(table.column("id").to_pylist()) == Counter(IDS)


async def test_claimed_work_is_never_lost_and_copies_are_takeovers(
    gateway_process: GatewayProcess, gateway: Gateway
) -> None:
    """Workers that claim, write and complete concurrently, and are cancelled at any step."""
    print("ONCEGATE_TEST_SEED", SEED)
    rng, written = Random(SEED), Counter[str]()
    with FaultyProxy(gateway_process.port, dealt(rng)) as proxy:
        async with through(proxy, gateway.namespace) as client:

            async def worker(own: Random) -> None:
                for start in range(0, len(IDS), 20):
                    ids = own.sample(IDS[start : start + 20], 20)
                    await until_done(lambda ids=ids: all_done(client, ids, written), own, proxy)

            await asyncio.gather(*(worker(Random(f"{SEED}-{n}")) for n in range(4)))
        await asyncio.to_thread(proxy.deliver_late)
    assert set(written) == set(IDS)
    assert written.total() - len(IDS) <= gateway.describe()["counters"]["takeovers"]
    with gateway.attempt() as late:
        assert late.claim(IDS).dropped == IDS


async def all_done(client: AsyncGateway, ids: list[str], written: Counter[str]) -> None:
    """Makes attempts until every id is answered DUPLICATE."""
    left = ids
    while left:
        try:
            async with client.attempt() as attempt:
                claimed = await attempt.claim(left, 1_000)
                left = claimed.granted + claimed.busy
                async with attempt.holding(claimed):
                    written.update(claimed.granted)
                await attempt.complete(claimed)
        except (StillBusy, NotCompleted):
            await client.clock.sleep_ms(20)


@pytest.mark.slow
async def test_a_gateway_that_is_killed_under_many_calls_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as process:
        async with AsyncGateway(process.url, timeout_ms=60_000) as client:
            done: list[str] = []
            enough = asyncio.Event()

            async def worker(n: int) -> None:
                for m in range(20):
                    async with client.attempt() as attempt:
                        await attempt.produce("t", pa.table({"id": [f"{n}-{m}", f"shared-{m}"]}), id_col="id")
                    done.append(f"{n}-{m}")
                    if len(done) >= 20:
                        enough.set()

            workers = asyncio.gather(*(worker(n) for n in range(4)))
            await enough.wait()
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)
            await workers
            table = await client.read("t")
    assert table is not None
    wanted = [f"{n}-{m}" for n in range(4) for m in range(20)] + [f"shared-{m}" for m in range(20)]
    assert Counter(table.column("id").to_pylist()) == Counter(wanted)
