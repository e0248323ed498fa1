"""Listens to the batches of a session's streaming queries, and reports the counts of their writes."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from oncegate_spark.spark.observe.counts import BatchCounts, collect
from oncegate_spark.spark.task_identity import OBSERVED

log = logging.getLogger("oncegate_spark")
LINE = "rows=%d written=%d suppressed=%d own=%d takeovers=%d conflicts=%d writes=%d"


class BatchListener(StreamingQueryListener):  # type: ignore[misc]
    """Reports the row counts of each batch; created by `oncegate_spark.observe`.

    last    counts of the last reported batch of any query; None before the first
    folder  folder in which commits leave their counts
    """

    last: BatchCounts | None = None

    def __init__(self, spark: Any, folder: Path, on_batch: Callable[[BatchCounts], None] | None) -> None:
        self.folder = folder
        self._session = spark
        self._on_batch = on_batch

    def open(self) -> None:
        """Starts listening to queries that start from now on."""
        self._session.streams.addListener(self)
        self._session.conf.set(OBSERVED, str(self.folder))

    def close(self) -> None:
        """Stops listening and removes the folder; queries continue."""
        if self._session.conf.get(OBSERVED, None) == str(self.folder):
            self._session.conf.unset(OBSERVED)
        self._session.streams.removeListener(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        """Reports the counts of a finished batch."""
        progress = event.progress
        query, run = str(progress.id), str(progress.runId)
        for batch, writes in collect(self.folder, run, progress.batchId).items():
            self._tell(BatchCounts(query=query, run=run, name=progress.name, batch=batch, writes=writes))

    def onQueryTerminated(self, event: Any) -> None:
        """Logs the counts left by an unfinished batch, which will be repeated."""
        query, run = str(event.id), str(event.runId)
        for batch, writes in collect(self.folder, run, None).items():
            counts = BatchCounts(query=query, run=run, name=None, batch=batch, writes=writes)
            log.warning("batch %d of %s is unfinished and will be repeated: " + LINE, batch, query, *_numbers(counts))

    def _tell(self, counts: BatchCounts) -> None:
        log.info("batch %d of %s: " + LINE, counts.batch, counts.name or counts.query, *_numbers(counts))
        self.last = counts
        if self._on_batch is None:
            return
        try:
            self._on_batch(counts)
        except Exception:
            log.exception("on_batch raised for batch %d of %s; the query continues", counts.batch, counts.query)


def _numbers(counts: BatchCounts) -> tuple[int, ...]:
    return (
        counts.rows,
        counts.written,
        counts.suppressed,
        counts.own,
        counts.takeovers,
        counts.conflicts,
        len(counts.writes),
    )
