"""The driver's acks: what a batch has written is acked once Spark can no longer run that batch again, never earlier.

1. `commit` of batch N notes what its tasks have done, in a file beside the checkpoint. It acks nothing: until Spark has
   written N into its commit log, a restart runs N again.
2. When batch N+1 begins, or the progress event of N reaches a listener, N's entry is in the commit log: what was noted
   is acked, and its file removed. Whether the entry is there is looked at, not concluded.

The driver is the query (or its txnAppId); each run of it registers under a token of its own, so that what an older run
still acks is refused (FENCED) and logged. An ack that fails is tried again by the next batch; it fails no batch. Of an
ack of which a part is refused that part is kept, and tried again; the others are done with.

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

TIMEOUT_MS = 5_000  # a batch waits for no ack: what is not acked now is acked by the next
NOWHERE = (
    "batch %s is not acked: that needs a checkpointLocation on this machine (and, inside foreachBatch, "
    "oncegate_spark.foreach_batch); what is known of it is kept until somebody acks it"
)

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class AckPart:
    """Says what one task has done, for the acks of its driver.

    `upto`: the last sequence of each producer it has met. `topic`, `source_offsets`: what is written to, and where the
    batch's sources are to be read on; known to one task of them.
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
    """Says what is to be acked once `batch` is in the commit log.

    Kept as JSON beside the checkpoint, by these names. `topic`: None where the sources were told with another ack.
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
        """The note's text, the same for equal notes."""
        return json.dumps(asdict(self), sort_keys=True)


def driver_of(options: Options, task: Task) -> str:
    """The driver's name: txnAppId, else the query's id. Raises NoIdentity outside a streaming query without either."""
    driver = options.app or task.query
    if driver is None:
        raise NoIdentity(
            "nobody is known to own the retries of this write: it runs in no streaming query. Add "
            '.option("txnAppId", "<a name for this job, the same at every run>"); nothing was written'
        )
    return driver


def scope_of(options: Options, task: Task) -> tuple[str, int] | None:
    """The driver and batch that scoped ids are claimed under; None where they are the namespace's.

    Raises NoIdentity.
    """
    if not options.is_scoped:
        return None
    if task.query is None or task.batch is None:
        raise NoIdentity(
            "scope=retry forgets ids with their batch, and this write runs in no batch of a streaming query: leave "
            "scope out; nothing was written"
        )
    return driver_of(options, task), int(task.batch)


def ack_part(options: Options, task: Task, upto: Mapping[str, int], read: BatchInput | None) -> AckPart | None:
    """What a task adds to the acks of its batch; None where nothing is to be acked. `read`: the batch's input."""
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
    """Spark's batch id of the task, as a number; None outside a streaming query."""
    return None if task.batch is None else int(task.batch)


def check_batch(read: int | None, batch_id: int | None) -> None:
    """Raises BrokenMessages where the offset log was written late, as real-time mode does: a batch has no name then.

    `read`: the newest entry of the offset log when the batch began.
    """
    if read is not None and batch_id is not None and read != batch_id:
        raise BrokenMessages(
            f"when batch {batch_id} began, the newest entry in the checkpoint's offsets was {read}: another driver "
            "runs on this checkpoint, or the query is in real-time mode, where nobody knows which batch a retry is of. "
            "Write without producerCol and scope there"
        )


def note(options: Options, done: Iterable[AckPart | None], batch_id: int | None) -> None:
    """Keep what is to be acked later: on the driver, in `commit`. Logs a warning where it cannot be kept."""
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
    """The driver's token in one run of its query: the same in each of Spark's processes, another at the next start."""
    return hashlib.sha256(f"oncegate driver {run}".encode()).hexdigest()[:32]


def send(checkpoint: str | None, timeout_ms: int = TIMEOUT_MS) -> int:
    """Ack what is noted of batches that are in the commit log; how many notes are acked, whole. Raises nothing."""
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
        # The ack of a batch looks at the ids of all before it.
        is_last = noted.batch == newest.get((noted.driver, noted.token))
        noted_file = replace(noted, is_scoped=noted.is_scoped and is_last)
        try:
            left = _ack(noted_file, timeout_ms)
        except Fenced as error:
            log.warning("batch %d was run by an older driver, its ack is void: %s", noted_file.batch, error)
            left = None
        except Unavailable as error:
            log.warning("batch %d is not acked yet: %s", noted_file.batch, error)
            break
        except OncegateError as error:
            log.warning("batch %d is not acked, nor are others kept from it: %s", noted_file.batch, error)
            continue
        if left is None:
            file.unlink(missing_ok=True)
            acked += 1
        elif left != noted:
            keep(file, left.encode())
    return acked


def _ack(noted: AckNote, timeout_ms: int) -> AckNote | None:
    """Acks what the note names; returns what was refused of it, None where nothing was. Raises OncegateError."""
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
    # The sources are told now: a later try, behind another batch's ack, would set them back.
    left = replace(noted, upto=upto, is_scoped=is_scoped, topic=None, source_offsets=None)
    return left if acked.refused else None


def _parts_acked(driver: Driver, noted: AckNote) -> Acked:
    """A batch that a later one has followed is looked at by the later one's ack; its producers are acked alone."""
    source = noted.topic, noted.source_offsets
    if noted.is_scoped:
        try:
            return driver.ack(noted.upto, noted.batch, *source)
        except OlderBatch as error:
            log.warning("the ids of batch %d are not acked with it: %s", noted.batch, error)
            source = None, None
    return driver.ack(noted.upto, None, *source)


def _noted(checkpoint: Path) -> Iterator[tuple[Path, AckNote]]:
    """The notes there are, oldest batch first; one that cannot be read is logged and left alone."""
    files = (checkpoint / "oncegate" / "acks").glob("*-*.json")
    for file in sorted(files, key=lambda file: (int(file.name.split("-")[0]), file.name)):
        try:
            yield file, AckNote(**json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read: %s", file, error)


def acknowledger(checkpoint: str) -> Any:
    """A StreamingQueryListener that acks each batch when its progress event comes, also the last one of a query.

        spark.streams.addListener(oncegate_spark.acknowledger("/data/checkpoints/departures"))

    Without it a batch is acked when the next one begins.
    """
    from pyspark.sql.streaming import StreamingQueryListener

    class Acknowledger(StreamingQueryListener):  # type: ignore[misc]
        """Looks into the commit log whenever Spark says that something is over."""

        def onQueryStarted(self, event: Any) -> None:
            """Nothing is over yet."""

        def onQueryIdle(self, event: Any) -> None:
            """Nothing new is over."""

        def onQueryProgress(self, event: Any) -> None:
            """A batch is over: ack what the commit log names."""
            send(checkpoint)

        def onQueryTerminated(self, event: Any) -> None:
            """The query is over: ack what the commit log names."""
            send(checkpoint)

    return Acknowledger()
