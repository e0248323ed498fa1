"""Measures a batch of a GiB, staged and committed on Kafka: its memory, and the latency of concurrent claims.

`python -m bench.cases.large_batch [--mib 1024]`. One gateway, one broker, and a second client that claims one id at a
time at intended times, from before the batch until after it. Writes out/large-batch/result.json, .md and .png.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.load.open_claims import Claim, open_claims, within
from bench.load.server import gateway
from bench.report import report
from bench.report.figures import Figure
from deploy.kafka.cluster import Cluster
from oncegate_spark import Gateway
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.names import BatchName

OUT = Path("out/large-batch")
MIB = 1 << 20
TOPIC = "batch"
ROW_BYTES = 1_024
CHUNK_MIB = 8
CHUNK_ROWS = CHUNK_MIB * MIB // ROW_BYTES
# A smaller batch is committed before the next claim is due.
MIB_MIN = 64
CLAIMS_PER_SECOND = 20.0
BEFORE_S, AFTER_S = 10.0, 5.0
SEED = 20240611


@dataclass(frozen=True)
class Measured:
    """The measurements of one batch.

    staging, commit: begin and end, by the monotonic clock.
    Peaks are those of the gateway's RSS during staging and commit, relative to the RSS before the batch.
    """

    mib: int
    begun: float
    staging: tuple[float, float]
    commit: tuple[float, float]
    staging_peak_bytes: int
    commit_peak_bytes: int
    rows: int
    claims: Sequence[Claim] = ()

    def waits(self, phase: str) -> list[float]:
        """Returns the latencies, in ms, of claims due in a phase: before the batch, its staging, or its commit."""
        times = {"before": (self.begun, self.staging[0]), "staging": self.staging, "commit": self.commit}
        return within(self.claims, *times[phase])


class PeakMemory:
    """Reads the peak RSS of a process since the last reset, as recorded by Linux."""

    def __init__(self, process: psutil.Process) -> None:
        self._folder = Path(f"/proc/{process.pid}")
        self._before = process.memory_info().rss
        self.reset()

    def reset(self) -> None:
        """Resets the peak to the current RSS."""
        (self._folder / "clear_refs").write_text("5")

    def rise_bytes(self) -> int:
        """Returns the peak since the last reset, relative to the RSS at the start."""
        lines = (self._folder / "status").read_text().splitlines()
        peak_kib = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
        return peak_kib * 1024 - int(self._before)


def measured(folder: Path, mib: int, before_s: float = BEFORE_S, after_s: float = AFTER_S, more: str = "") -> Measured:
    """Starts a broker and a gateway in `folder`, then stages and commits `mib` MiB while claims are sent.

    `more`: appended to the options of the ledger's URL.
    """
    with Cluster(folder / "kafka") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
        with (
            gateway(folder, core=None, ledger=cluster.ledger("large") + more) as served,
            Gateway(f"http://127.0.0.1:{served.port}", timeout_ms=300_000) as client,
        ):
            # Memory that a process acquires with its first batch is not attributed to the large one.
            _staged(client, "first", 1).commit()
            with open_claims(served.port, CLAIMS_PER_SECOND) as claims:
                begun = time.monotonic()
                time.sleep(before_s)
                peak = PeakMemory(served.process)
                at = time.monotonic()
                batch = _staged(client, "large", mib // CHUNK_MIB)
                staging, staging_peak = (at, time.monotonic()), peak.rise_bytes()
                peak.reset()
                at = time.monotonic()
                rows = batch.commit()
                commit, commit_peak = (at, time.monotonic()), peak.rise_bytes()
                time.sleep(after_s)
                return Measured(mib, begun, staging, commit, staging_peak, commit_peak, rows, claims.told())


class _Batch:
    """Chunks of distinct random rows, and their commit."""

    def __init__(self, client: Gateway, version: str) -> None:
        self._client, self._name, self._token = client, BatchName("app", version, TOPIC), new_token()
        self._random = np.random.default_rng(SEED)
        self._chunks = self._rows = self._fingerprint = 0

    def stage(self) -> None:
        values = self._random.bytes(CHUNK_ROWS * ROW_BYTES)
        offsets = np.arange(CHUNK_ROWS + 1, dtype=np.int32) * ROW_BYTES
        column = pa.Array.from_buffers(pa.binary(), CHUNK_ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
        table, sink = pa.table({"value": column}), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = memoryview(sink.getvalue())
        done = self._client.stage(self._name, "run:measured", self._token, self._chunks, body)
        self._chunks, self._rows = self._chunks + 1, self._rows + CHUNK_ROWS
        self._fingerprint = (self._fingerprint + done.fingerprint) % (1 << 128)

    def commit(self) -> int:
        """Commits the batch; returns its number of rows."""
        fingerprint = self._fingerprint.to_bytes(16, "little").hex()
        winner = {"token": self._token, "chunks": self._chunks, "rows": self._rows, "fingerprint": fingerprint}
        order = {"run": "measured", "nonce": new_token(), "winners": [winner], "digest": None, "previous_digest": None}
        return int(self._client.commit(self._name, order).rows)


def _staged(client: Gateway, version: str, chunks: int) -> _Batch:
    batch = _Batch(client, version)
    for _ in range(chunks):
        batch.stage()
    return batch


def figures(measured_sizes: Measured) -> list[Figure]:
    """Returns the figures: peaks, times and latencies."""
    name = f"batch of {measured_sizes.mib:,} MiB over Kafka"
    all_figures = [
        Figure(f"{name}: memory above idle, staging", measured_sizes.staging_peak_bytes, "bytes"),
        Figure(f"{name}: memory above idle, commit", measured_sizes.commit_peak_bytes, "bytes"),
        Figure(f"{name}: staging", measured_sizes.staging[1] - measured_sizes.staging[0], "s"),
        Figure(f"{name}: commit", measured_sizes.commit[1] - measured_sizes.commit[0], "s"),
    ]
    for phase in ("before", "staging", "commit"):
        waits = measured_sizes.waits(phase)
        each = {"median": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100], "longest": waits[-1]}
        all_figures += [Figure(f"{name}: claims {phase}, {what} wait", value, "ms") for what, value in each.items()]
    return all_figures


def draw(measured_sizes: Measured, path: Path) -> None:
    """Draws the latency of each claim at its intended time, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8.0, 3.6), layout="constrained")
    axes: Any = canvas.subplots()
    for (begin, end), words, colour in (
        (measured_sizes.staging, "staged", "#8a94a6"),
        (measured_sizes.commit, "committed", "#d9711c"),
    ):
        axes.axvspan(
            begin - measured_sizes.begun,
            end - measured_sizes.begun,
            color=colour,
            alpha=0.2,
            label=f"the batch is {words}",
        )
    dues, waits = (
        [due - measured_sizes.begun for due, *_ in measured_sizes.claims],
        [1_000 * wait for _, wait, _ in measured_sizes.claims],
    )
    axes.plot(dues, waits, ".", color="#1b7f8c", markersize=3, label="a claim")
    axes.set(
        yscale="log", xlabel="due, s", ylabel="waited, ms", title=f"Claims beside a batch of {measured_sizes.mib:,} MiB"
    )
    axes.legend(loc="upper left", fontsize=8)
    canvas.savefig(path, dpi=200)


def mebibytes(text: str) -> int:
    """Parses the batch's size. Raises argparse.ArgumentTypeError if it is too small or not whole chunks."""
    mib = int(text)
    if mib < MIB_MIN or mib % CHUNK_MIB:
        raise argparse.ArgumentTypeError(f"{mib} is not {MIB_MIN} or more, in steps of {CHUNK_MIB}")
    return mib


def main() -> int:
    """Measures one batch, and writes the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.cases.large_batch")
    parser.add_argument("--mib", type=mebibytes, default=1_024, help=f"of rows, {MIB_MIN} or more, by {CHUNK_MIB}")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oncegate-large-") as folder:
        result = measured(Path(folder), options.mib)
    all_figures, command = figures(result), f"python -m bench.cases.large_batch --mib {options.mib}"
    OUT.mkdir(parents=True, exist_ok=True)
    report.write(all_figures, OUT, command, time.monotonic() - began, report.before())
    draw(result, OUT / "result.png")
    for figure in all_figures:
        print(f"{figure.name}: {figure.value:,.4g} {figure.unit}")
    refused = sum(not is_granted for *_, is_granted in result.claims)
    print(f"{len(result.claims)} claims, {refused} of them not granted")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
