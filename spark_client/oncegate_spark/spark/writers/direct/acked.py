"""Knows up to where a query's lanes are acked: what a batch has written, once Spark can no longer run it again.

1. `note`, when a batch is done: the last sequence of each lane that its tasks have met, in a file beside the
   checkpoint. Nothing is acked: until Spark has written the batch into its commit log, a restart runs it again.
2. `known`, when a later batch begins and that entry is there, which is looked at: its tasks carry the sequences, and
   send them with their first question about a lane. So an ack is no request of its own, and a lane that no row comes to
   is not acked until one does.

A checkpoint that is set back to before what is noted is one of which nothing is known: its rows come again, and the
ledger knows them. Source: MicroBatchExecution of Spark 3 and 4, as in `oncegate_spark.spark.acks`.
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
    """Holds what is noted, as the file does. `upto`: by producer, of `batch`, -1 for none; `acked`: of those up to
    `acked_batch`, which were in the commit log."""

    acked_batch: int = -1
    acked: Mapping[str, int] = field(default_factory=dict)
    batch: int = -1
    upto: Mapping[str, int] = field(default_factory=dict)

    def seen(self, committed: int) -> "Noted":
        """What of it holds where the newest entry of the commit log is this one."""
        if self.acked_batch > committed:
            return Noted()
        if self.batch > committed:
            return self
        return Noted(self.batch, _highest([self.acked, self.upto]))

    def followed(self, batch: int, upto: Mapping[str, int]) -> "Noted":
        """What is noted once a batch is done, this one again or a later one."""
        if self.batch > batch:
            return Noted(self.acked_batch, self.acked, batch, upto)
        return Noted(self.acked_batch, self.acked, batch, _highest([self.upto, upto]))


def known(options: Options) -> Mapping[str, int]:
    """On the driver, when a batch begins: up to where each producer's lane is acked; empty where nobody can look."""
    folder = local_folder(options.checkpoint)
    return {} if folder is None else _read(_file(folder, options)).seen(_committed(folder)).acked


def note(options: Options, checkpoint: str | None, batch: int | None, done: Iterable[Mapping[str, int]]) -> None:
    """On the driver, when a batch is done: keep what its tasks have met. Logs a warning where it cannot be kept."""
    folder, upto = local_folder(checkpoint), _highest(done)
    if batch is None or not upto:
        return
    if folder is None:
        log.warning(
            "batch %d: its lanes are not acked: that needs a checkpointLocation on this machine; their holes are kept",
            batch,
        )
        return
    file = _file(folder, options)
    text = json.dumps(asdict(_read(file).seen(_committed(folder)).followed(batch, upto)), sort_keys=True)
    keep(file, text, "what is to be acked of lanes")


def _file(folder: Path, options: Options) -> Path:
    name = hashlib.sha256(f"{options.namespace}\0{options.topic}".encode()).hexdigest()[:16]
    return folder / "oncegate" / "lanes" / f"{name}.json"


def _read(file: Path) -> Noted:
    try:
        return Noted(**json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        return Noted()
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s cannot be read, and lanes are acked anew from now on: %s", file, error)
        return Noted()


def _committed(folder: Path) -> int:
    """The newest batch in Spark's commit log; -1 where there is none."""
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
