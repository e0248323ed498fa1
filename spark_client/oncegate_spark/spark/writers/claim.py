"""`write=claim`: the executors write themselves, to any sink; they ask first, write what is new, and then say so.

At least once; a duplicate needs an attempt that wrote and did not live to say so, and is counted as a takeover.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from oncegate_spark.errors import OncegateError
from oncegate_spark.spark import sinks
from oncegate_spark.spark.acks import Ours, batch_number, check_batch, driver_of, note, ours, scope_of
from oncegate_spark.spark.checkpoint import Input
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.claim_loop import Progress, Settler, Write
from oncegate_spark.spark.writers.common import (
    Kept,
    keep_mark,
    kept_by,
    known_mark,
    say_conflicts,
    task_gateway,
    telling,
)
from oncegate_spark.spark.writers.sequenced import Lanes, LaneSettler
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")
T = TypeVar("T")


class SinkFailed(OncegateError):
    """The user's own code raised. How much a write() that raised has written is unknown; the task's text says it."""

    code = "SINK"


@dataclass(frozen=True)
class Claimed:
    """Rows of one task: asked for, written here, dropped because they are written elsewhere, taken over; dropped though
    they are written with other payloads."""

    asked: int
    written: int
    suppressed: int
    takeovers: int
    kept: Kept
    ours: Ours | None = None
    read: int | None = None
    conflicts: int = 0


class ClaimWay:
    def __init__(self, options: Options, read: Input | None) -> None:
        self.options = options
        self.mark = known_mark(options)
        self.read = read.number if read and options.has_driver else None

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Claimed:
        options, done = self.options, Progress()
        context = sinks.SinkContext(token, task.partition, task.attempt, options.namespace, options.topic, options.raw)
        with (
            telling(options, task, lambda error: done.said("this task")),
            task_gateway(options, self.mark, task) as gateway,
            closing(sinks.load(options.sink)()) as sink,
            self._settling(gateway, token, task, _named(sink.write), done) as settler,
        ):
            check_batch(self.read, batch_number(task))
            _named(sink.open)(context)
            for batch in batches:
                settler.settle(batch)
            counts = (done.asked, done.written, done.suppressed, done.takeovers)
            kept, mine = kept_by(options, task, gateway), ours(options, task, settler.upto)
            return Claimed(*counts, kept, mine, self.read, done.conflicts)

    @contextmanager
    def _settling(
        self, gateway: Gateway, token: str, task: Task, write: Write, done: Progress
    ) -> Iterator[Settler | LaneSettler]:
        """By ids under one attempt, or by sequences under a lane for each producer."""
        options = self.options
        if options.lane_names is not None:
            lanes = Lanes(gateway, options.lane_names, driver_of(options, task), token, options.lease_ms)
            with closing(LaneSettler(gateway, lanes, write, done)) as settler:
                yield settler
            return
        payloads = (options.digest_names, options.on_conflict)
        with (
            gateway.attempt(token, scope_of(options, task)) as attempt,
            closing(Settler(attempt, options.id_names, write, done, options.lease_ms, *payloads)) as by_id,
        ):
            yield by_id

    def commit(self, messages: Sequence[Claimed], batch_id: int | None) -> None:
        for message in messages:
            check_batch(message.read, batch_id)
        kept = [message.kept for message in messages]
        for one in kept:
            keep_mark(self.options, kept, one.mark)
        note(self.options, [message.ours for message in messages], batch_id)
        log.info(
            "%s: rows=%d written=%d suppressed=%d takeovers=%d (a row granted by takeover may be there twice)",
            "df.write" if batch_id is None else f"batch {batch_id}",
            sum(message.asked for message in messages),
            sum(message.written for message in messages),
            sum(message.suppressed for message in messages),
            sum(message.takeovers for message in messages),
        )
        say_conflicts(sum(message.conflicts for message in messages), batch_id)

    def abort(self, messages: Sequence[Claimed]) -> None:
        """Nothing to take back: what was completed stays written, and what was not is free when its lease is over."""
        log.warning("the write failed; %d rows of it are written", sum(message.written for message in messages))


def _named(call: Callable[[T], None]) -> Callable[[T], None]:
    """The sink's own call, whose errors say whose they are."""

    def named(argument: T) -> None:
        try:
            call(argument)
        except OncegateError:
            raise
        except Exception as error:
            raise SinkFailed(f"the sink's {call.__name__}() raised {type(error).__name__}: {error}") from error

    return named
