"""The load of `bench.scale`, in the gateway's process: claims, completes, checks verdicts, measures each window."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil

from bench.load.mixed import ExpiryBuckets, Mixed, Request
from bench.scale.report import Window
from oncegate.core.claims import Verb
from oncegate.core.verdicts import VERDICT_MASK, Verdict
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.requests import ClaimRequest

# A short lease, since claims are completed within milliseconds. A claim stays in memory for two leases. At the default
# of 30 s and two million ids per second, that would exceed the configured number of ids in memory.
LEASE_MS = 1_000
# While no id has left memory, the first quarter of the ids counts as old.
_OLD_PART = 4
# Size of an id in an archive: its fingerprint.
ARCHIVED_BYTES = 16


class Load:
    """Sends requests to the default namespace and measures their cost."""

    def __init__(self, gateway: Gateway, folder: Path, batch: int, seed: int, rounds: Callable[[], int]) -> None:
        """Creates the load. `rounds`: returns how often ids have left memory."""
        self._gateway = gateway
        self._folder = folder
        self._rounds = rounds
        self._written_before = written_bytes()
        self._mixed, self._settled = Mixed(batch, seed), ExpiryBuckets()
        self._batch, self._deadline = batch, Deadline(gateway.clock, None)
        self._tokens = np.random.default_rng([seed, 1])
        self._pauses_s: list[float] = []
        self.asked = 0

    async def run(self, ids: int, flight: int) -> Window:
        """Claims and completes `ids` ids with `flight` requests in flight; returns the window."""
        left = iter(range(-(-ids // self._batch)))
        begin, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._client(left) for _ in range(flight)))
        seconds = time.perf_counter() - begin
        return self.window(seconds, time.process_time() - cpu, ids)

    async def _client(self, left: Iterator[int]) -> None:
        for _ in left:
            await self._request()

    async def _request(self) -> None:
        namespace, first = self._gateway.namespace("default"), self._mixed.made
        request = self._mixed.request(self._settled.below, self._old_below())
        end = self._mixed.made
        start = time.perf_counter()
        answer = await namespace.claims.claim(
            ClaimRequest(self._tokens.bytes(16), 0, request.ids, LEASE_MS), self._deadline
        )
        assert answer.claim is not None, "every request has new ids"
        claimed = time.perf_counter()
        _check(answer.verdicts, request)
        asked_again = time.perf_counter()
        await namespace.claims.settle(Verb.COMPLETE, answer.claim, self._deadline)
        self._pauses_s += [claimed - start, time.perf_counter() - asked_again]
        self._settled.done(first, end)
        self.asked += len(request.ids)

    def _old_below(self) -> int:
        """Returns the number of ids that left memory or, if none has, a quarter of the done ids."""
        cold = self._gateway.namespace("default").home.counters()["cold_ids"]
        return min(self._settled.below, cold or self._settled.below // _OLD_PART)

    def _written(self) -> int:
        """Returns the bytes written to files since the last call."""
        before, self._written_before = self._written_before, written_bytes()
        return self._written_before - before

    def window(self, seconds: float, cpu_s: float = 0.0, ids: int = 0) -> Window:
        """Returns the current state and the cost of the last window."""
        counters = self._gateway.namespace("default").home.counters()
        pauses_ms = np.array(self._pauses_s or [0.0]) * 1_000
        self._pauses_s = []
        cold = counters["cold_ids"]
        return Window(
            asked=self.asked,
            ids=self._mixed.made,
            hot_ids=max(0, counters["ids"] - cold),
            cold_ids=cold,
            window_ids=ids,
            seconds=seconds,
            cpu_s=cpu_s,
            longest_ms=float(pauses_ms.max()),
            p99_ms=float(np.percentile(pauses_ms, 99)),
            p50_ms=float(np.percentile(pauses_ms, 50)),
            memory_bytes=anonymous_bytes(),
            disk_bytes=disk_bytes(self._folder, lambda _: True),
            cold_disk_bytes=disk_bytes(self._folder, is_of_runs) + ARCHIVED_BYTES * cold,
            filter_bytes=counters["cold_bytes"],
            written_bytes=self._written(),
            rounds=self._rounds(),
        )


def written_bytes() -> int:
    """Returns the bytes that this process has written to files so far."""
    return int(psutil.Process().io_counters().write_chars)


def _check(verdicts: "np.ndarray[tuple[int], np.dtype[np.uint8]]", request: Request) -> None:
    granted = (verdicts & VERDICT_MASK) == Verdict.GRANTED
    wrong = int((granted != request.new).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {len(verdicts)} ids were answered wrongly: {np.unique(verdicts)}")


def anonymous_bytes() -> int:
    """Returns the process's anonymous memory; pages of mapped files are excluded, since the system can drop them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1_024
    return int(psutil.Process().memory_info().rss)


def disk_bytes(folder: Path, counts: Callable[[Path], bool]) -> int:
    """Returns the disk usage of files below a folder that `counts` selects, in whole blocks; tolerates deletions."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if counts(path) and path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def is_of_runs(path: Path) -> bool:
    """Returns whether a file belongs to a run (or its filter); archives are in files like the snapshot's."""
    return path.parent.name == "runs"
