"""Measures the start of a gateway over nothing, over entries and over a snapshot: `python -m bench.cases.start`.

A folder is filled with completed ids in requests of 10,000, and a copy of it is compacted, so that a snapshot replaces
the entries. A gateway process is started on each, in turns with one on an empty folder, and timed until it answers.
Two rates are reported: of the whole start, and of the reading alone, which is the median start minus the fastest start
over nothing. In addition the index alone is measured in processor time. All ids stay in memory. Python's bytecode is
cached, as for an installed package; a start without the cache is shown too.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.load.server import gateway
from bench.report.figures import Figure
from oncegate.clock import SystemClock
from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import Claimed, Completed, Entry
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.index.claims.replay import replay
from oncegate.index.claims.snapshot import restore, snapshot
from oncegate.index.claims.store import ClaimStore
from oncegate.index.shard import warm_up
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders

IDS, QUICK_IDS, BATCH, SEED = 50_000_000, 10_000_000, 10_000, 20240611
ROUNDS, QUICK_ROUNDS = 3, 2
# Large enough that no id leaves memory, since the start with all ids in memory is measured.
HOT_IDS = 1 << 30
LEASE_MS = 1_000


class _Silent:
    """An observer that discards events."""

    def event(self, name: str, /, **fields: object) -> None:
        """Discards the event."""


def entries(ids: int) -> Iterator[Entry]:
    """Yields claims of random ids, each followed by its completion."""
    rng, now_ms = np.random.default_rng(SEED), time.time_ns() // 1_000_000
    for call in range(ids // BATCH):
        claim = rng.bytes(16)
        yield Claimed(claim, claim, call, claim, LEASE_MS, now_ms, rng.bytes(16 * BATCH), b"")
        yield Completed(claim, now_ms)


async def fill(folder: Path, ids: int) -> None:
    """Creates a ledger of these entries, several per append, as in a group commit."""
    async with _Opened(folder) as gateway:
        await gateway.create("default")
        journal = gateway.namespace("default").home.journal
        for count, entry in enumerate(entries(ids), 1):
            position = journal.record([entry])
            if count % 8 == 0:
                await journal.group_commit.durable(position)
        await journal.group_commit.all_durable()


async def compact(folder: Path) -> None:
    """Replaces the entries by a snapshot."""
    async with _Opened(folder) as gateway:
        home = gateway.namespace("default").home
        done: asyncio.Future[dict[str, object] | None] = asyncio.get_running_loop().create_future()
        home.snapshotter.compact(home.scheduler.save, done.set_result)
        assert (refused := await done) is None, refused


class _Opened:
    """A gateway in this process, on the folder's ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __aenter__(self) -> Gateway:
        self._ledgers = open_ledgers(f"log:{self._folder / 'data'}", create=True)
        limits, runs = replace(Limits(), hot_ids=HOT_IDS), run_folders(f"log:{self._folder / 'data'}")
        self._gateway = open_gateway(await self._ledgers.__aenter__(), runs, SystemClock(), _Silent(), limits)
        return await self._gateway.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._gateway.__aexit__(None, None, None)
        await self._ledgers.__aexit__(None, None, None)


@dataclass(frozen=True)
class Started:
    """Medians of the seconds from the start of a gateway process until it answers, and of its processor time."""

    wall_s: float
    cpu_s: float
    runs: tuple[float, ...]


def restart_s(folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Starts a gateway once; returns the seconds until it answers, and its processor time."""
    settings = {"ONCEGATE_HOT_IDS": str(HOT_IDS), **environment}
    begin = time.perf_counter()
    with gateway(folder, core=None, settings=settings) as served:
        return time.perf_counter() - begin, served.cpu_s


def restarts(folders: Sequence[Path], rounds: int, environment: Mapping[str, str]) -> list[Started]:
    """Measures starts on each folder, in turns."""
    times = [[restart_s(folder, environment) for folder in folders] for _ in range(rounds)]
    of_each = [list(zip(*runs, strict=True)) for runs in zip(*times, strict=True)]
    return [Started(median(wall), median(cpu), tuple(wall)) for wall, cpu in of_each]


def index_s(ids: int) -> tuple[float, float, float]:
    """Returns processor seconds for replaying the entries, saving the index and loading it, without a ledger."""
    raw, store = [encode(entry) for entry in entries(ids)], ClaimStore()
    begin = time.process_time()
    replay(((position, decode(body)) for position, body in enumerate(raw, 1)), store, 0)
    folded = time.process_time()
    pieces = dict(snapshot(store))
    saved = time.process_time()
    del raw, store
    again = time.process_time()
    restore(ClaimStore(), pieces)
    return folded - begin, saved - folded, time.process_time() - again


def measure(ids: int, rounds: int) -> list[Figure]:
    """Measures all figures with this number of ids."""
    warm_up()
    root = Path(tempfile.mkdtemp(prefix="oncegate-start-"))
    try:
        nothing, over_entries, over_saved = folders = [root / name for name in ("nothing", "entries", "saved")]
        nothing.mkdir()
        asyncio.run(fill(over_entries, ids))
        shutil.copytree(over_entries, over_saved)
        asyncio.run(compact(over_saved))
        cached = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(root / "bytecode")}
        restart_s(nothing, cached)
        started = restarts(folders, rounds, cached)
        without = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(root / "none")}
        (bare,) = restarts([nothing], rounds, without)
    finally:
        shutil.rmtree(root)
    return [*_of_process(started[0], bare), *_of_ids(ids, *started), *_of_index(ids)]


def _of_process(nothing: Started, bare: Started) -> list[Figure]:
    return [
        Figure("start of the process, nothing kept", nothing.wall_s, "s", runs=nothing.runs),
        Figure("start of the process, nothing kept: processor time", nothing.cpu_s, "s"),
        Figure("start of the process, nothing kept, Python's bytecode not cached", bare.wall_s, "s", runs=bare.runs),
    ]


def _of_ids(ids: int, nothing: Started, entries: Started, saved: Started) -> list[Figure]:
    over_entries, over_saved = f"cold start over entries, {ids:,} ids", f"cold start over a saved index, {ids:,} ids"
    return [
        Figure(f"{over_entries}", entries.wall_s, "s", runs=entries.runs),
        Figure(f"{over_entries}: rate of the whole start", ids / entries.wall_s, "ids/s"),
        Figure(f"{over_entries}: rate of the reading", ids / (entries.wall_s - min(nothing.runs)), "ids/s"),
        Figure(f"{over_entries}: processor time", entries.cpu_s, "s"),
        Figure(f"{over_saved}", saved.wall_s, "s", runs=saved.runs),
        Figure(f"{over_saved}: rate of the reading", ids / (saved.wall_s - min(nothing.runs)), "ids/s"),
        Figure(f"{over_saved}: processor time", saved.cpu_s, "s"),
    ]


def _of_index(ids: int) -> list[Figure]:
    folding_s, saving_s, loading_s = index_s(ids)
    return [
        Figure(f"index alone of {ids:,} ids, entries folded: processor time", folding_s, "s"),
        Figure(f"index alone of {ids:,} ids, saved: processor time", saving_s, "s"),
        Figure(f"index alone of {ids:,} ids, loaded: processor time", loading_s, "s"),
    ]


def figures(quick: bool) -> list[dict[str, Any]]:
    """Returns the figures as plain members, for `make bench`."""
    return [figure.plain() for figure in (measure(QUICK_IDS, QUICK_ROUNDS) if quick else measure(IDS, ROUNDS))]


def main() -> int:
    """Prints the figures of starts and writes out/bench/start.json."""
    parser = argparse.ArgumentParser(prog="bench.cases.start", description=__doc__)
    parser.add_argument("--ids", type=int, default=IDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    measured = measure(arguments.ids, arguments.rounds)
    for figure in measured:
        print(f"{figure.name}: {figure.value:,.2f} {figure.unit}")
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    (out / "start.json").write_text(json.dumps([figure.plain() for figure in measured], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
