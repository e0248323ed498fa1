"""How long a gateway takes to start: over entries, and over a saved index. `python -m bench.start`.

A folder is filled with ids that are done, by requests of 10,000, and a gateway's own process started upon it: from the
start of the process until it answers. Then the ledger is collected, so that the saved index stands in place of the
entries, and it is started once more. Beside both: the index alone, in processor time. All ids are kept in memory.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Figure
from bench.server import gateway
from oncegate.clock import SystemClock
from oncegate.core.encoding import decode, encode
from oncegate.core.entries import Claimed, Completed, Entry
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.index.claims import ClaimIndex, warm_up
from oncegate.index.rebuild import rebuild
from oncegate.ledgers import open_ledgers

IDS, QUICK_IDS, BATCH, SEED = 50_000_000, 2_000_000, 10_000, 20240611
# Nothing leaves memory: what is asked for is a start with so many ids in it.
HOT_IDS = 1 << 30
LEASE_MS = 1_000


class _Silent:
    """An observer that nobody listens to."""

    def event(self, name: str, /, **fields: object) -> None:
        """Nothing comes of it."""


def entries(ids: int) -> Iterator[Entry]:
    """Claims of random ids, each completed at once."""
    rng, now_ms = np.random.default_rng(SEED), time.time_ns() // 1_000_000
    for call in range(ids // BATCH):
        claim = rng.bytes(16)
        yield Claimed(claim, claim, call, claim, LEASE_MS, now_ms, rng.bytes(16 * BATCH), b"")
        yield Completed(claim, now_ms)


async def fill(folder: Path, ids: int) -> None:
    """A ledger of these entries, a few to an append, as a group commit has them."""
    async with _Opened(folder) as gateway:
        await gateway.create("default")
        journal = gateway.shard("default").journal
        for count, entry in enumerate(entries(ids), 1):
            position = journal.record([entry])
            if count % 8 == 0:
                await journal.committer.durable(position)
        await journal.committer.all_durable()


async def collect(folder: Path) -> None:
    """The saved index in place of the entries."""
    async with _Opened(folder) as gateway:
        committer, upkeep = gateway.shard("default").committer, gateway.shard("default").upkeep
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        committer.collect(upkeep.save, done.set_result)
        assert await done


class _Opened:
    """A gateway in this process, over the folder's ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __aenter__(self) -> Gateway:
        self._ledgers = open_ledgers(f"log:{self._folder / 'data'}", create=True)
        limits = replace(Limits(), hot_ids=HOT_IDS)
        self._gateway = open_gateway(await self._ledgers.__aenter__(), SystemClock(), _Silent(), limits)
        return await self._gateway.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._gateway.__aexit__(None, None, None)
        await self._ledgers.__aexit__(None, None, None)


def restart_s(folder: Path) -> tuple[float, float]:
    """Seconds from the start of a gateway's process until it answers, and its processor time."""
    begin = time.perf_counter()
    with gateway(folder, core=None, settings={"ONCEGATE_HOT_IDS": str(HOT_IDS)}) as served:
        return time.perf_counter() - begin, served.cpu_s


def index_s(ids: int) -> tuple[float, float, float]:
    """Seconds of processor time: entries folded, the index saved and loaded; without a ledger."""
    raw, index = [encode(entry) for entry in entries(ids)], ClaimIndex()
    begin = time.process_time()
    rebuild(((position, decode(body)) for position, body in enumerate(raw, 1)), index, 0)
    folded = time.process_time()
    pieces = dict(index.save())
    saved = time.process_time()
    del raw, index
    again = time.process_time()
    ClaimIndex().load(pieces)
    return folded - begin, saved - folded, time.process_time() - again


def measure(ids: int) -> list[Figure]:
    """All figures with so many ids."""
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="oncegate-start-"))
    try:
        asyncio.run(fill(folder, ids))
        rebuilt_s, rebuilt_cpu_s = restart_s(folder)
        asyncio.run(collect(folder))
        loaded_s, loaded_cpu_s = restart_s(folder)
    finally:
        shutil.rmtree(folder)
    folding_s, saving_s, loading_s = index_s(ids)
    return [
        Figure(f"cold start over entries, {ids:,} ids: rate", ids / rebuilt_s, "ids/s"),
        Figure(f"cold start over entries, {ids:,} ids: processor time", rebuilt_cpu_s, "s", ceiling=folding_s),
        Figure(f"cold start over a saved index, {ids:,} ids", loaded_s, "s"),
        Figure(f"cold start over a saved index, {ids:,} ids: processor time", loaded_cpu_s, "s", ceiling=loading_s),
        Figure(f"index of {ids:,} ids saved: processor time", saving_s, "s"),
    ]


def figures(quick: bool) -> list[dict[str, Any]]:
    """For `make bench`: as `Figure.plain`."""
    return [figure.plain() for figure in measure(QUICK_IDS if quick else IDS)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.start", description=__doc__)
    parser.add_argument("--ids", type=int, default=IDS)
    found = measure(parser.parse_args().ids)
    for figure in found:
        print(
            f"{figure.name}: {figure.value:,.2f} {figure.unit}"
            + (f" (index alone {figure.ceiling:,.2f})" if figure.ceiling else "")
        )
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    (out / "start.json").write_text(json.dumps([figure.plain() for figure in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
