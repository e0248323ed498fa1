"""`write=ids`: the executors append rows that have ids to a topic; each takes effect once, whoever sends it again.

Claim, row and completion are one entry of the ledger, so no attempt can die in between. Rows are visible at once, not
when the batch ends: a write that fails leaves those it has written, and the next try drops them by their ids.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from oncegate_spark.errors import OncegateError, Outcome
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Written
from oncegate_spark.spark.acks import Ours, batch_number, check_batch, driver_of, note, ours, scope_of
from oncegate_spark.spark.checkpoint import Input
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.common import (
    Kept,
    keep_mark,
    kept_by,
    known_mark,
    say_conflicts,
    task_gateway,
    telling,
)
from oncegate_spark.spark.writers.sequenced import Lanes, produced
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class Identified:
    """Rows of one task: asked for; written by it; its own already (an id twice, a lost reply); dropped because they
    are written elsewhere; written after a claim that had run out, whose holder may have written them too; dropped
    though they are written with other payloads."""

    asked: int
    written: int
    own: int
    suppressed: int
    takeovers: int
    kept: Kept
    ours: Ours | None = None
    read: int | None = None
    conflicts: int = 0


class IdsWay:
    def __init__(self, options: Options, read: Input | None) -> None:
        self.options = options
        self.mark = known_mark(options)
        self.read = read.number if read and options.has_driver else None

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Identified:
        options, done = self.options, Written()
        with (
            telling(options, task, lambda error: _said(error, done)),
            task_gateway(options, self.mark, task) as gateway,
        ):
            check_batch(self.read, batch_number(task))
            write = self._by_id if options.lane_names is None else self._by_lane
            asked, upto = write(gateway, batches, token, task, done)
            counts = (asked, done.rows, done.own, done.suppressed, done.takeovers)
            kept, mine = kept_by(options, task, gateway), ours(options, task, upto)
            return Identified(*counts, kept, mine, self.read, done.conflicts)

    def _by_id(
        self, gateway: Gateway, batches: Iterator[pa.RecordBatch], token: str, task: Task, done: Written
    ) -> tuple[int, dict[str, int]]:
        options, asked = self.options, 0
        with gateway.attempt(token, scope_of(options, task)) as attempt:
            for rows in codecs.gathered(batches, codecs.IDS_MAX):
                asked += rows.num_rows
                one = attempt.produce(
                    options.topic,
                    rows,
                    id_col=options.id_names,
                    key_col=options.key_names,
                    digest_cols=options.digest_names,
                    on_conflict=options.on_conflict,
                )
                done.count(one)
        return asked, {}

    def _by_lane(
        self, gateway: Gateway, batches: Iterator[pa.RecordBatch], token: str, task: Task, done: Written
    ) -> tuple[int, dict[str, int]]:
        options, asked = self.options, 0
        assert options.lane_names is not None
        with closing(Lanes(gateway, options.lane_names, driver_of(options, task), token)) as lanes:
            for rows in codecs.gathered(batches, codecs.IDS_MAX):
                asked += rows.num_rows
                for lane, part, _ in lanes.parts(rows):
                    for one in produced(lane, options.topic, part, options.lane_names[1], options.key_names):
                        done.add(one)
            return asked, lanes.upto

    def commit(self, messages: Sequence[Identified], batch_id: int | None) -> None:
        """Nothing is left to do but to say it: every row was done when its task was."""
        for message in messages:
            check_batch(message.read, batch_id)
        kept = [message.kept for message in messages]
        for one in kept:
            keep_mark(self.options, kept, one.mark)
        note(self.options, [message.ours for message in messages], batch_id)
        log.info(
            "%s by id to topic %s: rows=%d written=%d suppressed=%d own=%d takeovers=%d",
            "df.write" if batch_id is None else f"batch {batch_id}",
            self.options.topic,
            sum(message.asked for message in messages),
            sum(message.written for message in messages),
            sum(message.suppressed for message in messages),
            sum(message.own for message in messages),
            sum(message.takeovers for message in messages),
        )
        say_conflicts(sum(message.conflicts for message in messages), batch_id)

    def abort(self, messages: Sequence[Identified]) -> None:
        """Nothing to take back: what is written stays, and is dropped when it comes again."""
        log.warning(
            "write=ids: the write failed; at least %d rows of it are in topic %s, and its next try drops them",
            sum(message.written for message in messages),
            self.options.topic,
        )


def _said(error: OncegateError, done: Written) -> tuple[Outcome, str]:
    """`error` tells of the rows it was raised for; `done` are those before them."""
    before = f"{done.rows + done.own} rows were written by this task before them; its retry drops what is written"
    if error.outcome is Outcome.UNKNOWN:
        return Outcome.UNKNOWN, f"unknown: whether the last rows sent were written; {before}"
    if error.outcome is Outcome.WRITTEN or done.rows or done.own:
        return Outcome.WRITTEN, before
    return Outcome.NOT_WRITTEN, "nothing was written by this task"
