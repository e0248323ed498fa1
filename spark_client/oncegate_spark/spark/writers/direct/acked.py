"""Acks of a query's lanes: sequences of a batch are acked once Spark can no longer retry it.

1. `note`, when a batch is done: stores the last sequence of each lane in a file beside the checkpoint. Nothing is
acked: until the batch is in Spark's commit log, a restart runs it again. 2. `known`, when a later batch begins and that
entry exists: its tasks get the sequences, and send them with their first question about a lane. So an ack is not a
request of its own, and a lane without further rows is not acked.

After a checkpoint is set back to before the stored batch, nothing is known: its rows are repeated, and the ledger
recognises them. Source: MicroBatchExecution of Spark 3 and 4, as in `oncegate_spark.spark.acks`.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oncegate_spark.spark.checkpoint import local_folder
from oncegate_spark.spark.checkpoint.acks_kept import keep
from oncegate_spark.spark.options import Options

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class Noted:
    """Contents of the file.

    upto   by producer, for `batch`, which is -1 if there is none
    acked  by producer, for batches up to `acked_batch`, which were in the commit log
    """

    acked_batch: int = -1
    acked: Mapping[str, int] = field(default_factory=dict)
    batch: int = -1
    upto: Mapping[str, int] = field(default_factory=dict)

    def seen(self, committed: int) -> "Noted":
        """Returns the part that is valid if `committed` is the newest entry of the commit log."""
        if self.acked_batch > committed:
            return Noted()
        if self.batch > committed:
            return self
        return Noted(self.batch, _highest([self.acked, self.upto]))

    def followed(self, batch: int, upto: Mapping[str, int]) -> "Noted":
        """Returns the contents after a batch is done, whether repeated or new."""
        if self.batch > batch:
            return Noted(self.acked_batch, self.acked, batch, upto)
        return Noted(self.acked_batch, self.acked, batch, _highest([self.upto, upto]))


def known(options: Options) -> Mapping[str, int]:
    """On the driver, when a batch begins: returns the acked sequence of each producer; empty if the file cannot be
    read.
    """
    folder = local_folder(options.checkpoint)
    return {} if folder is None else _read(_file(folder, options)).seen(_committed(folder)).acked


def note(options: Options, checkpoint: str | None, batch: int | None, done: Iterable[Mapping[str, int]]) -> None:
    """On the driver, when a batch is done: stores its last sequences. Logs a warning if that fails."""
    folder, upto = local_folder(checkpoint), _highest(done)
    if batch is None or not upto:
        return
    if folder is None:
        log.warning(
            "batch %d: its lanes are not acked: that needs a checkpointLocation on this machine; their gaps are kept",
            batch,
        )
        return
    file = _file(folder, options)
    text = json.dumps(asdict(_read(file).seen(_committed(folder)).followed(batch, upto)), sort_keys=True)
    keep(file, text, "the acks of lanes")


def _file(folder: Path, options: Options) -> Path:
    name = hashlib.sha256(f"{options.namespace}\0{options.topic}".encode()).hexdigest()[:16]
    return folder / "oncegate" / "lanes" / f"{name}.json"


def _read(file: Path) -> Noted:
    try:
        return Noted(**json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        return Noted()
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s cannot be read; lanes are acked from the next batch on: %s", file, error)
        return Noted()


def _committed(folder: Path) -> int:
    """Returns the newest batch in Spark's commit log; -1 if there is none."""
    try:
        return max((int(name) for name in os.listdir(folder / "commits") if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def _highest(each: Iterable[Mapping[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for watermarks in each:
        for name, sequence in watermarks.items():
            highest[name] = max(sequence, highest.get(name, sequence))
    return highest
