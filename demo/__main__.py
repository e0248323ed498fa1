"""python -m demo: three runs, one gateway, one verdict. Exit status 0 only when everything promised was shown."""

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from demo import compare, report
from demo.bars import Bars
from demo.data import BATCHES, PARTS, Flights, cut
from demo.faults import FAULTS, RUNS
from demo.processes import ROOT, GatewayProcess
from demo.supervisor import Ran, Run, RunFailed

OUT = ROOT / "out" / "demo"
INTERRUPTED = 130


def main() -> int:
    """The exit status."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    console = Console(width=None if sys.stdout.isatty() else 160)
    began_s = time.monotonic()
    try:
        judged = demonstrate(console)
    except KeyboardInterrupt:
        console.print("[yellow]stopped; everything that was started is stopped too[/yellow]")
        return INTERRUPTED
    except (RunFailed, RuntimeError, OSError) as error:
        console.print(f"[red]the demo could not be finished:[/red] {error}", highlight=False)
        return 1
    return conclude(console, judged, time.monotonic() - began_s)


def demonstrate(console: Console) -> list[report.Judged]:
    """The three runs, on a fresh folder."""
    with _alone(OUT):
        return _demonstrate(console, OUT / "logs")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """An empty folder that is this process's alone. Raises OSError when another demo runs in it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        _lock(lock, folder)
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        yield
    finally:
        os.close(lock)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(f"another demo is running in {_shown(folder)}") from error


def _demonstrate(console: Console, logs: Path) -> list[report.Judged]:
    logs.mkdir()
    flights = cut(OUT / "data")
    console.print(
        f"{PARTS} files, {BATCHES} micro-batches, {len(FAULTS)} faults; logs in {_shown(logs)}", highlight=False
    )
    with GatewayProcess(OUT / "gateway", logs / "gateway.log") as gateway:
        runs = _run_all(console, flights, gateway, logs)
        wanted = compare.expected()
        return [report.Judged(ran, compare.compare(ran, wanted, compare.written(ran, gateway))) for ran in runs]


def _run_all(console: Console, flights: Flights, gateway: GatewayProcess, logs: Path) -> list[Ran]:
    with Bars(console) as bars:
        return [Run(name, OUT / name, logs, flights, gateway, bars.of(name)).go() for name in RUNS]


def conclude(console: Console, judged: list[report.Judged], seconds: float) -> int:
    """Shows and keeps the results; 0 when they show what was promised."""
    results = {one.ran.name: one.result() for one in judged}
    report.show(console, judged)
    report.write_result(OUT / "result.json", results)
    report.draw(OUT / "result.png", judged)
    failed = report.failures(results) + report.strangers(judged)
    for failure in failed:
        console.print(f"[red]✗ {failure}[/red]", highlight=False)
    files = f"{_shown(OUT / 'result.json')}, {_shown(OUT / 'result.png')}"
    verdict = "[red]not shown[/red]" if failed else "[green]every fault was hit; every promise held[/green]"
    console.print(f"\ndemo: {verdict} in {seconds:.0f} s · {files}", highlight=False)
    return 1 if failed else 0


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _as_ctrl_c(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
