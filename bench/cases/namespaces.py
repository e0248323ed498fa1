"""Measures the start of a gateway over many small namespaces, and their idle cost: `python -m bench.cases.namespaces`.

The engine in this process fills a folder with namespaces, each with a few completed claims. A gateway process is then
started on it, in turns with one on an empty folder. Measured are the time until it answers, the processor time of all
its threads, and then its threads, its memory and its share of a core while idle. Nothing is pinned: both processors
open ledgers.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.load.server import gateway
from oncegate.clock import SystemClock
from oncegate.core.entries.kinds import Claimed, Completed
from oncegate.engine.gateway import open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.shard import Shard
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders
from oncegate.runtime.process import raise_limit

NAMESPACES, CLAIMS, IDS, LEASE_MS, IDLE_S = 1_000, 5, 10, 1_000, 10.0
# Raises the limit above NAMESPACES and `default`.
SETTINGS = {"ONCEGATE_NAMESPACES": "100000"}


class _Silent:
    """An observer that discards events."""

    def event(self, name: str, /, **fields: object) -> None:
        """Discards the event."""


@dataclass(frozen=True)
class Start:
    """The cost of one start, and of the idle gateway afterwards; `idle_cores` is a share of one processor."""

    start_s: float
    processor_s: float
    threads: int
    memory_mib: float
    idle_cores: float


async def fill(folder: Path, namespaces: int) -> None:
    """Creates the namespaces, with a few completed claims in each."""
    url = f"log:{folder / 'data'}"
    async with open_ledgers(url, create=True) as ledgers:
        for number in range(namespaces):
            await ledgers.create(f"n{number}")
        limits = Limits(namespaces=namespaces + 1)
        async with open_gateway(ledgers, run_folders(url), SystemClock(), _Silent(), limits) as served:
            await asyncio.gather(*(_write(served.namespace(name).home) for name in served.namespaces()))


async def _write(shard: Shard) -> None:
    journal = shard.journal
    for call in range(CLAIMS):
        claim, now_ms = journal.random(16), journal.wall_ms()
        journal.record([Claimed(claim, claim, call, claim, LEASE_MS, now_ms, journal.random(16 * IDS), b"")])
        await journal.group_commit.durable(journal.record([Completed(claim, now_ms)]))


def start(folder: Path, idle_s: float) -> Start:
    """Starts a gateway and measures it while idle."""
    began_s = time.monotonic()
    with gateway(folder, core=None, settings=SETTINGS) as served:
        start_s, processor_s = time.monotonic() - began_s, served.cpu_s
        time.sleep(idle_s)
        idle = (served.cpu_s - processor_s) / idle_s
        process = served.process
        return Start(start_s, processor_s, process.num_threads(), process.memory_info().rss / (1 << 20), idle)


def main() -> int:
    """Prints a JSON line for each start: with the namespaces, and with only `default`."""
    parser = argparse.ArgumentParser(prog="bench.cases.namespaces", description=__doc__)
    parser.add_argument("--namespaces", type=int, default=NAMESPACES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to make its folders; else where temporary files are")
    options = parser.parse_args()
    raise_limit()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        many, none = Path(scratch) / "many", Path(scratch) / "none"
        many.mkdir()
        none.mkdir()
        asyncio.run(fill(many, options.namespaces))
        for _ in range(options.rounds):
            for namespaces, folder in ((options.namespaces, many), (0, none)):
                print(json.dumps({"namespaces": namespaces, **asdict(start(folder, IDLE_S))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
