"""Runs `make scale`: the engine with its log ledger, in one process, from zero to 100 million ids or more.

Requests of 10,000 ids (90 % new, 8 % recent, 2 % old) are claimed and completed durably, several in flight at a time,
as in a gateway. Every verdict is checked. Then a gateway is started on the resulting folder and timed until its first
answer. Figures for a billion ids are extrapolated from the measurement, e.g. with `--ids 300_000_000`. Writes
out/scale/, or for other numbers of ids out/scale-300M/ and the like.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import Progress

from bench.load.server import gateway
from bench.report import report
from bench.scale.load import Load
from bench.scale.report import Window, draw, figures, reached
from oncegate.clock import SystemClock
from oncegate.engine.gateway import open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.run_files import SALT_BYTES
from oncegate.index.lsm.bloom import decode
from oncegate.index.shard import warm_up
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders
from oncegate.runtime.process import collect_seldom, keep_freed_memory, leave_out_what_is_loaded

OUT = Path("out")
IDS, BATCH = 100_000_000, 10_000
WINDOWS = 100
# Requests in flight: enough that one is decided while another is synced.
FLIGHT = 8


class Quiet:
    """An observer that counts events by name."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def event(self, name: str, /, **fields: object) -> None:
        self._seen[name] += 1

    def rounds(self) -> int:
        """Returns how often ids have left memory."""
        return self._seen["evicted"]


async def grow(folder: Path, options: argparse.Namespace, bar: Progress) -> list[Window]:
    """Grows from zero to the requested number of ids; returns the cost of each window."""
    limits = Limits() if options.hot_ids is None else replace(Limits(), hot_ids=options.hot_ids)
    task, observer = bar.add_task("ids", total=options.ids), Quiet()
    async with (
        open_ledgers(f"log:{folder / 'data'}", create=True) as ledgers,
        open_gateway(ledgers, run_folders(f"log:{folder / 'data'}"), SystemClock(), observer, limits) as opened,
    ):
        await opened.create("default")
        asker = Load(opened, folder, options.batch, options.seed, observer.rounds)
        windows = [asker.window(0.0)]
        step = max(options.batch, options.ids // WINDOWS)
        while asker.asked < options.ids:
            windows.append(await asker.run(min(step, options.ids - asker.asked), FLIGHT))
            bar.update(task, completed=asker.asked)
        return windows


def restart(folder: Path) -> float:
    """Returns the seconds from the start of a gateway process until it answers with every id loaded."""
    begin = time.perf_counter()
    with gateway(folder, core=None):
        return time.perf_counter() - begin


def reading_s(folder: Path) -> float:
    """Returns the seconds per byte to load filters at a start, measured by reading and checking all of them."""
    begin, size_bytes = time.perf_counter(), 0
    for path in folder.rglob("*.filter"):
        data = path.read_bytes()
        assert decode(data[SALT_BYTES:]) is not None, "a run's own filter"
        size_bytes += len(data)
    return (time.perf_counter() - begin) / max(1, size_bytes)


def measure(folder: Path, options: argparse.Namespace, console: Console) -> tuple[list[Window], float, float]:
    """Returns the windows, the restart's seconds, and the seconds per filter byte; set up like a serving process."""
    keep_freed_memory()
    warm_up()
    collect_seldom()
    leave_out_what_is_loaded()
    with Progress(console=console) as bar, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        windows = runner.run(grow(folder, options, bar))
    console.print("starting again")
    return windows, restart(folder), reading_s(folder)


def out_of(ids: int) -> Path:
    """Returns the folder for the results of a run; other numbers of ids than the default have their own."""
    return OUT / ("scale" if ids == IDS else f"scale-{ids // 1_000_000}M")


def main() -> int:
    """Measures the engine in a temporary folder, which it removes, and writes the report."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("--ids", type=int, default=IDS, help="how many are asked for in all  [default: 100_000_000]")
    parser.add_argument("--batch", type=int, default=BATCH, help="ids a request")
    parser.add_argument("--hot-ids", type=int, default=None, help="how many stay in memory  [default: the setting's]")
    parser.add_argument("--folder", type=Path, default=None, help="where the ledger is kept meanwhile")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began_s, console = time.monotonic(), Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="oncegate-scale-", dir=options.folder))
    try:
        windows, restart_s, filter_byte_s = measure(folder, options, console)
    finally:
        shutil.rmtree(folder)
    all_figures = [reached(figure) for figure in figures(windows, restart_s, filter_byte_s)]
    out = out_of(options.ids)
    out.mkdir(parents=True, exist_ok=True)
    (out / "windows.json").write_text(json.dumps([window.plain() for window in windows], indent=1) + "\n")
    (out / "result.json").write_text(json.dumps([figure.plain() for figure in all_figures], indent=1) + "\n")
    command = "make scale" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "")
    (out / "result.md").write_text(report.markdown(all_figures, command, time.monotonic() - began_s))
    draw(windows, out / "result.png")
    report.show(all_figures, Console(width=None if sys.stdout.isatty() else 170))
    print(report.last_line(all_figures, out).replace("bench:", "scale:"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
