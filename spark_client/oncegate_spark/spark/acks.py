"""Acks of the driver: a batch's work is acked once Spark can no longer retry that batch, never earlier.

1. `commit` of batch N stores the work of its tasks in a note beside the checkpoint. It acks nothing: until N is in
Spark's commit log, a restart runs N again. 2. Once batch N+1 begins, or a listener gets the progress event of N, N is
in the commit log: the note is acked and removed. The entry's existence is checked, not inferred.

The driver is the query (or its txnAppId). Each run registers under a token of its own, so that acks of an older run are
refused (FENCED) and logged. A failed ack is retried by the next batch, and never fails a batch. If a part of an ack is
refused, only that part is kept and retried.

Source: MicroBatchExecution of Spark 3 and 4: offset log (N), sink, commit log (N), progress event (N).
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from oncegate_spark.credentials import Credentials
from oncegate_spark.errors import BrokenMessages, Fenced, NoIdentity, OlderBatch, OncegateError, Unavailable
from oncegate_spark.protocol.answers import Acked
from oncegate_spark.spark.checkpoint import BatchInput, local_folder
from oncegate_spark.spark.checkpoint.acks_kept import keep
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task, offsets_of
from oncegate_spark.sync.gateway import Gateway
from oncegate_spark.sync.producers import Driver

TIMEOUT_MS = 5_000  # a batch must not wait for acks: the next batch retries them
NOWHERE = (
    "batch %s is not acked: that needs a checkpointLocation on this machine (and, inside foreachBatch, "
    "oncegate_spark.foreach_batch); its ids are kept until it is acked"
)

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class AckPart:
    """Completed work of one task, for the acks of its driver.

    `upto`: last sequence of each producer in the task. `topic`, `source_offsets`: written topic, and offsets from which
    the batch's sources can be resumed; only one task of a batch has them.
    """

    driver: str
    run: str | None
    batch: int | None
    checkpoint: str | None
    upto: Mapping[str, int]
    is_scoped: bool
    topic: str | None = None
    source_offsets: str | None = None


@dataclass(frozen=True)
class AckNote:
    """Work to ack once `batch` is in the commit log.

    Stored as JSON beside the checkpoint, with these names. `topic`: None if another ack had the source offsets.
    `credentials`: their files, never a key.
    """

    url: str
    namespace: str
    driver: str
    token: str
    batch: int
    upto: Mapping[str, int]
    is_scoped: bool
    topic: str | None = None
    source_offsets: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """Returns the note as JSON, the same for equal notes."""
        return json.dumps(asdict(self), sort_keys=True)


def driver_of(options: Options, task: Task) -> str:
    """Returns the driver's name: txnAppId, else the query's id. Raises NoIdentity outside a streaming query without
    either.
    """
    driver = options.app or task.query
    if driver is None:
        raise NoIdentity(
            "this write has no owner of its retries: it does not run in a streaming query. Add "
            '.option("txnAppId", "<a name for this job, the same in every run>"); nothing was written'
        )
    return driver


def scope_of(options: Options, task: Task) -> tuple[str, int] | None:
    """Returns driver and batch of scoped ids; None if ids belong to the namespace. Raises NoIdentity."""
    if not options.is_scoped:
        return None
    if task.query is None or task.batch is None:
        raise NoIdentity(
            "scope=retry forgets ids with their batch, and this write is not in a batch of a streaming query: omit "
            "scope; nothing was written"
        )
    return driver_of(options, task), int(task.batch)


def ack_part(options: Options, task: Task, upto: Mapping[str, int], read: BatchInput | None) -> AckPart | None:
    """Returns a task's part of its batch's ack; None if nothing is to be acked. `read`: the batch's input."""
    if not options.has_driver:
        return None
    checkpoint = options.checkpoint or (task.notes.checkpoint if task.notes else None)
    source_input = read or (task.notes.input if task.notes else None)
    source = source_input if source_input is not None and source_input.number == batch_number(task) else None
    return AckPart(
        driver_of(options, task),
        task.run,
        batch_number(task),
        checkpoint,
        dict(upto),
        options.is_scoped,
        options.topic or options.target,
        offsets_of(task, source),
    )


def batch_number(task: Task) -> int | None:
    """Returns Spark's batch id of the task; None outside a streaming query."""
    return None if task.batch is None else int(task.batch)


def check_batch(read: int | None, batch_id: int | None) -> None:
    """Raises BrokenMessages if the offset log is not one entry per batch, as in real-time mode, where batches have no
    identity.

    `read`: newest entry of the offset log when the batch began.
    """
    if read is not None and batch_id is not None and read != batch_id:
        raise BrokenMessages(
            f"when batch {batch_id} began, the newest entry in the checkpoint's offsets was {read}: either another "
            "driver uses this checkpoint, or the query is in real-time mode, where the batch of a retry is unknown. "
            "Write without producerCol and scope there"
        )


def note(options: Options, done: Iterable[AckPart | None], batch_id: int | None) -> None:
    """Stores a note of the work to ack later: on the driver, in `commit`. Logs a warning if it cannot be stored."""
    parts = [part for part in done if part is not None]
    if not parts:
        return
    first = parts[0]
    batch = first.batch if batch_id is None else batch_id
    folder = local_folder(first.checkpoint)
    if folder is None or first.run is None or batch is None:
        if batch is not None:
            log.warning(NOWHERE, batch)
        return
    upto: dict[str, int] = {}
    for part in parts:
        for producer, sequence in part.upto.items():
            upto[producer] = max(sequence, upto.get(producer, 0))
    source = next((part.source_offsets for part in parts if part.source_offsets), None)
    made = AckNote(
        options.url,
        options.namespace,
        first.driver,
        token_of(first.run),
        batch,
        upto,
        first.is_scoped,
        first.topic,
        source,
        options.credentials.files(),
    )
    text = made.encode()
    name = f"{batch}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    keep(folder / "oncegate" / "acks" / name, text)


def token_of(run: str) -> str:
    """Returns the driver's token for one run of its query: the same in all of Spark's processes,
    new at the next start.
    """
    return hashlib.sha256(f"oncegate driver {run}".encode()).hexdigest()[:32]


def send(checkpoint: str | None, timeout_ms: int = TIMEOUT_MS) -> int:
    """Acks the notes of batches in the commit log; returns the number of completely acked notes. Raises nothing."""
    folder, acked = local_folder(checkpoint), 0
    if folder is None:
        return acked
    due = [
        (file, noted_file)
        for file, noted_file in _noted(folder)
        if (folder / "commits" / str(noted_file.batch)).exists()
    ]
    newest = {(noted_file.driver, noted_file.token): noted_file.batch for _, noted_file in due if noted_file.is_scoped}
    for file, noted in due:
        # The ack of a batch covers the ids of all earlier batches.
        is_last = noted.batch == newest.get((noted.driver, noted.token))
        noted_file = replace(noted, is_scoped=noted.is_scoped and is_last)
        try:
            left = _ack(noted_file, timeout_ms)
        except Fenced as error:
            log.warning("batch %d was run by an older driver; its ack is discarded: %s", noted_file.batch, error)
            left = None
        except Unavailable as error:
            log.warning("batch %d is not acked yet; the next batch retries: %s", noted_file.batch, error)
            break
        except OncegateError as error:
            log.warning("batch %d cannot be acked; later batches are not affected: %s", noted_file.batch, error)
            continue
        if left is None:
            file.unlink(missing_ok=True)
            acked += 1
        elif left != noted:
            keep(file, left.encode())
    return acked


def _ack(noted: AckNote, timeout_ms: int) -> AckNote | None:
    """Acks a note; returns the refused parts, None if there are none. Raises OncegateError."""
    credentials = Credentials(**noted.credentials)
    with (
        Gateway(noted.url, noted.namespace, timeout_ms=timeout_ms, credentials=credentials) as gateway,
        gateway.driver(noted.driver, noted.token) as driver,
    ):
        acked = _parts_acked(driver, noted)
    for part in acked.refused:
        whose = f"producer {part.producer}" if part.batch is None else f"the ids of batch {part.batch}"
        log.warning("batch %d: %s not acked yet, %s: %s", noted.batch, whose, part.code, part.detail)
    upto = {part.producer: noted.upto[part.producer] for part in acked.refused if part.producer is not None}
    log.info("batch %d is acked: %d of %d producers", noted.batch, len(noted.upto) - len(upto), len(noted.upto))
    is_scoped = any(part.batch is not None for part in acked.refused)
    # The source offsets are stored now: a retry after a later batch's ack would set them back.
    left = replace(noted, upto=upto, is_scoped=is_scoped, topic=None, source_offsets=None)
    return left if acked.refused else None


def _parts_acked(driver: Driver, noted: AckNote) -> Acked:
    """Acks a note. If a later batch was acked before, its ids were covered by that ack, and only its producers are
    acked.
    """
    source = noted.topic, noted.source_offsets
    if noted.is_scoped:
        try:
            return driver.ack(noted.upto, noted.batch, *source)
        except OlderBatch as error:
            log.warning("the ids of batch %d are not acked with it: %s", noted.batch, error)
            source = None, None
    return driver.ack(noted.upto, None, *source)


def _noted(checkpoint: Path) -> Iterator[tuple[Path, AckNote]]:
    """Yields the notes, oldest batch first; one that cannot be read is logged and left alone."""
    files = (checkpoint / "oncegate" / "acks").glob("*-*.json")
    for file in sorted(files, key=lambda file: (int(file.name.split("-")[0]), file.name)):
        try:
            yield file, AckNote(**json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read: %s", file, error)


def acknowledger(checkpoint: str) -> Any:
    """Returns a StreamingQueryListener that acks each batch at its progress event, including the last batch of a query.

        spark.streams.addListener(oncegate_spark.acknowledger("/data/checkpoints/departures"))

    Without it a batch is acked when the next one begins.
    """
    from pyspark.sql.streaming import StreamingQueryListener

    class Acknowledger(StreamingQueryListener):  # type: ignore[misc]
        """Acks the batches in the commit log whenever Spark reports progress."""

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            send(checkpoint)

        def onQueryTerminated(self, event: Any) -> None:
            send(checkpoint)

    return Acknowledger()
