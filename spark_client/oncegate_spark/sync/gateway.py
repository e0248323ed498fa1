# Generated from oncegate_spark/aio/gateway.py by scripts/unasync.py; do not edit.
"""A gateway, as a program without asyncio uses it; needs neither Spark nor a connection until the first request.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with gateway.attempt() as attempt:
        claimed = attempt.claim(ids)
        with attempt.holding(claimed):  # for work that may outlast the lease
            send(claimed.granted)  # returns when it is durable
        attempt.complete(claimed)
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Any, Self, TypeVar, cast

import pyarrow as pa

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.protocol.address import checked_timeout
from oncegate_spark.protocol.answers import (
    Committed,
    Drained,
    OpenedLane,
    Produced,
    Settled,
    Staged,
    Taken,
    Topic,
    Written,
)
from oncegate_spark.protocol.calls import batches, lanes, namespace, topics
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Pause, Step, StepEnd, Steps, Tries
from oncegate_spark.protocol.columns import Columns
from oncegate_spark.protocol.effort import TIMEOUT_MS, WireFailure
from oncegate_spark.protocol.ids import Ids
from oncegate_spark.protocol.names import BatchName, WriterId
from oncegate_spark.protocol.outage import BLOCK, is_patient
from oncegate_spark.protocol.packed import Verdicts
from oncegate_spark.spill import Spill, SpillEntry
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.clock import Clock, SystemClock
from oncegate_spark.sync.connection import Connection
from oncegate_spark.sync.producers import Driver, Producer
from oncegate_spark.sync.spilling import Spilling

T = TypeVar("T")


class Gateway:
    """Speaks to one namespace of one gateway, for one thread.

    Each call is tried until it is answered or its time is over. Raises what `errors` draws; every error says whether
    something was written, was not, or is unknown.

    `credentials`: the key and the certificates; without them the key of the environment's ONCEGATE_API_KEY, if any.

    `on_down`: what calls do while the gateway is down. "block" tries for `timeout_ms`; "fail" raises Unavailable at
    once; "spill" does too, but for rows with ids that an attempt produces: they are laid down in `spill` and sent in
    order once it is back. What ends work that was begun (complete, release, commit, ack) is tried for `timeout_ms`.
    `writer`: who writes, for the gateway's counts of duplicates."""

    def __init__(
        self,
        url: str,
        namespace: str = "default",
        *,
        timeout_ms: int = TIMEOUT_MS,
        mark: str | None = None,
        credentials: Credentials = NONE,
        on_down: str = BLOCK,
        spill: Spill | None = None,
        writer: WriterId | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.rng: Random = rng or SystemRandom()
        self.credentials = credentials
        self._connection = Connection(
            url,
            credentials,
            self.clock,
        )
        self.url = url.rstrip("/")
        self.namespace = namespace
        self.timeout_ms = checked_timeout(timeout_ms)
        self.on_down, self.spill = on_down, spill
        now_ms, patient = self.clock.monotonic_ms, is_patient(on_down, spill is not None)
        tries = Tries(self.url, timeout_ms=timeout_ms, mark=mark, now_ms=now_ms, rng=self.rng, patient=patient)
        tries.writer = writer
        self.calls = Calls(tries, namespace)
        self._spilling = None if spill is None else Spilling(self, spill, namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Gateway holds a connection and is never pickled: make one where it is used, in the task")

    def close(self) -> None:
        """Close its connection; the next call would open another one."""
        self._connection.close()

    def twin(self) -> "Gateway":
        """The same gateway with a connection of its own, for another thread."""
        return Gateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            mark=self.mark,
            credentials=self.credentials,
            on_down=self.on_down,
            spill=self.spill,
            writer=self.calls.tries.writer,
            clock=self.clock,
            rng=self.rng,
        )

    @property
    def renewing(self) -> "Gateway":
        """The twin that renews leases, which must not wait behind large bodies: a new one for each block."""
        return self.twin()

    @property
    def mark(self) -> str | None:
        """The newest position in the ledger that an answer rested on, as text; None before the first."""
        return self.calls.tries.marks.mark

    def attempt(
        self, token: str | None = None, scope: tuple[str, int] | None = None, *, id_set: str | None = None
    ) -> Attempt:
        """Begin one try of some piece of work, under a fresh token unless one is given.

        `scope`: a driver and the number of its batch: what is claimed and produced is forgotten once that driver acks
        the batch, not by the horizon, and BatchOver is raised for what comes later.

        `id_set`: the set of all ids that it claims and produces. Without it claimed ids are of the set "", and ids of
        rows of the set that is named after their topic: the same id may be written to two topics, once to each.
        """
        return Attempt(self, token, scope, id_set)

    def producer(
        self,
        name: str,
        *,
        driver: str,
        token: str | None = None,
        lease_ms: int | None = None,
        gaps: str = "allow",
        source_id: str | None = None,
    ) -> Producer:
        """Make the writer of one lane of a source, for one attempt; `driver` names who owns its retries.

        Registered by `with`. `gaps="refuse"`: its source has no holes, so a claim that passes one over raises
        Gap, also without `prev_sequence`. `source_id`: of what the sequences number, as Kafka's topic id; the first
        that is named is recorded for ever, and registering with another one raises SourceReplaced.
        """
        return Producer(self, name, driver=driver, token=token, lease_ms=lease_ms, gaps=gaps, source_id=source_id)

    def driver(self, name: str, token: str | None = None) -> Driver:
        """Make the owner of producers' retries, which acks what nobody retries any more. Registered by `with`."""
        return Driver(self, name, token)

    def claim(
        self,
        token: str,
        call: int,
        columns: Sequence[pa.Array],
        lease_ms: int | None = None,
        scope: tuple[str, int] | None = None,
        payloads: Sequence[pa.Array] = (),
        id_set: str | None = None,
    ) -> tuple[Verdicts, int]:
        """Ask for ids (columns of equal length); the verdicts and when the answered try began, in ms.

        `payloads`: columns of what each id comes with; one that is written with another is CONFLICT. `id_set`: the set
        of the ids; without it, "".
        """
        return self.run(self.calls.claim(token, call, columns, lease_ms, scope, payloads, id_set))

    def settle(self, claim: str, verb: str, timeout_ms: int | None = None) -> Settled:
        """Renew, complete or release a claim; these are the values of `verb`. Raises LostClaim for an unknown claim."""
        return self.run(self.calls.settle(claim, verb, timeout_ms))

    def take(
        self,
        owner: str,
        ids: Ids,
        scope: tuple[str, int] | None = None,
        id_set: str | None = None,
        *,
        locate: bool = False,
    ) -> Taken:
        """Have ids for good, without lease or completion. Asked again, the same owner is granted them again.

        Granted: this owner's. Dropped: done, or another owner's, or earlier among these ids. Busy: claimed by an
        attempt that lives; ask again later. After an error it is unknown what is taken, and asking again is harmless.

        `id_set`: the set of the ids; without it, "dedup", which neither claimed nor produced ids are of. `locate`: as
        of an attempt's claim.
        """
        return self.run(self.calls.take(owner, ids, scope, id_set, locate))

    def look_up(self, ids: Ids, id_set: str | None = None) -> namespace.LookedUp:
        """Look up which ids of a set (as of a claim) are `written`, and which a claim has `held`; none is granted."""
        return self.run(namespace.look_up(self.calls, ids, id_set))

    def produce(
        self,
        topic: str,
        token: str,
        call: int,
        body: bytes | memoryview,
        id_col: Columns = (),
        key_col: Columns = (),
        scope: tuple[str, int] | None = None,
        digest_cols: Columns = (),
        id_set: str | None = None,
        locate: bool = False,
    ) -> Produced:
        """Append rows (an Arrow stream) to a topic: all in one, or nothing; `Attempt.produce` does it for tables.

        id_col   these columns are a row's id: what is GRANTED is written and done at once, DUPLICATE and SAME are
                 dropped, BUSY is neither: ask for those rows again in a new call. A repeat after a lost reply is
                 answered DUPLICATE `own`. Without: at least once, a repeat is written again.
        key_col  rows of equal values there go to one partition. Without: all go to the next one.
        digest_cols  these columns are the payload of a row's id: written before with another one, it is CONFLICT.
        id_set   the set of the ids. Without: the one named after the topic.
        locate   `verdicts.firsts` says where the first of each DUPLICATE is, and what its claim was completed with.
        """
        columns = (id_col, key_col, scope, digest_cols, id_set)
        return self.run(self.calls.produce(topic, token, call, body, *columns, locate))

    def stage(
        self, name: BatchName, owner: str, token: str, chunk: int, body: bytes | memoryview, key_col: Columns = ()
    ) -> Staged:
        """Lay down rows (an Arrow stream) that `commit` may publish; nobody can read them before."""
        return self.run(batches.stage(self.calls, name, owner, token, chunk, body, key_col))

    def commit(self, name: BatchName, order: Mapping[str, object]) -> Committed:
        """Publish what was staged, all or nothing.

        `order`: run, nonce, winners, digests, on_replay_mismatch, source_offsets.
        """
        return self.run(batches.commit(self.calls, name, order))

    def abort(self, name: BatchName, tokens: Sequence[str], timeout_ms: int | None = None) -> bool:
        """Drop what these tokens have staged; no effect once the batch is committed: tells whether it is."""
        return self.run(batches.abort(self.calls, name, tokens, timeout_ms))

    def source_offsets(self, app: str, topic: str, write_id: str = "") -> str:
        """Look up where a job's source is to be read on, as its newest commit, or its driver's newest ack, has said.

        `app`: of the batches' names, or the driver. All that the source had before is in effect. Raises NotFound where
        nobody has said it, or the newest has not.
        """
        return self.run(batches.source_offsets(self.calls, app, topic, write_id))

    def open_lane(self, topic: str, producer: str, source_id: str | None = None) -> OpenedLane:
        """Make or find the lane by which a client writes a producer's rows into a topic of Kafka itself.

        From then on the topic is written by lanes alone. `oncegate_spark.direct` writes as one. `source_id`: as
        `producer` takes it.
        """
        return self.run(lanes.open_lane(self.calls, topic, producer, source_id))

    def ask_lane(
        self,
        topic: str,
        producer: str,
        first: int,
        last: int,
        acked: int | None = None,
        topic_id: str | None = None,
    ) -> lanes.SequenceSpans:
        """Ask which sequences of a lane are written, from `first` to `last`: inclusive spans, in order.

        Who asks has started the lane's id: nobody else writes the others then. `acked`: none up to it comes any more.
        `topic_id`: Kafka's id of the topic as it is now; another one than before is refused (TOPIC_REPLACED).
        """
        return self.run(lanes.ask_lane(self.calls, topic, producer, first, last, acked, topic_id))

    def fetch(
        self,
        topic: str,
        offset: int = 0,
        max_rows: int = topics.FETCH_ROWS,
        partition: int = 0,
        columns: Columns | None = None,
    ) -> tuple[pa.Table | None, int]:
        """Read rows of one partition from an offset on; with them the offset to go on from. None when there are none.

        `columns`: only these, in this order. Raises OffsetTrimmed below the lowest kept, LedgerBehind beyond the end.
        """
        return self.run(topics.fetch(self.calls, topic, offset, max_rows, partition, columns))

    def read(self, topic: str, columns: Columns | None = None) -> pa.Table | None:
        """Read all rows that a topic holds when it is asked, partition by partition; None when it has none."""
        return self.run(topics.read(self.calls, topic, columns))

    def topic(self, topic: str) -> Topic:
        """Look up a topic's schema, ends and retention. Raises NotFound."""
        return self.run(topics.look_at(self.calls, topic))

    def topics(self) -> list[str]:
        """List the namespace's topics by their names, sorted."""
        return self.run(topics.names(self.calls))

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        schema: pa.Schema | None = None,
        merge_schema: bool = False,
    ) -> None:
        """Make a topic, or change the retention of one that is there. What is not given is left to the gateway.

        `merge_schema`: columns of `schema` that the topic does not have are added behind its own, for good; they are
        null in every row before. Raises Refused when the topic is there with other partitions, another schema or,
        merging, a column of another type: nothing was changed.
        """
        settings = (partitions, retention_ms, retention_bytes, schema, merge_schema)
        self.run(topics.create_topic(self.calls, topic, *settings))

    def describe(self) -> dict[str, Any]:
        """Look up the namespace's settings and counters, as the gateway's JSON has them. Raises NotFound."""
        return self.run(self.calls.describe())

    def limits(self) -> dict[str, Any]:
        """Look up what the gateway takes at most, as its JSON has it."""
        return self.run(self.calls.limits())

    def explain(self, *columns: Any, id_set: str = "") -> dict[str, Any]:
        """Look up what is known of one id (several values: an id of several columns) of a set, as the JSON has it.
        `id_set`: of rows that were produced, their topic's name."""
        return self.run(self.calls.explain(*columns, id_set=id_set))

    def create_namespace(
        self,
        *,
        horizon_ms: int | None = None,
        auto_create_topics: bool | None = None,
        record_headers: bool | None = None,
        lease_expiry: str | None = None,
        id_time: str | None = None,
        shadow: bool | None = None,
        on_ledger_down: str | None = None,
    ) -> None:
        """Make the namespace, or set up one that is there: what is left out stays as it is.

        `horizon_ms`: how long a free id stays known after it is done, 0 for ever. `record_headers`: records in Kafka
        topics say who wrote them, which `RecordCheck` and `check_records` check; set before anything is written.
        `lease_expiry`: what becomes of an id whose lease ran out, "takeover", "hold" or "fail". `id_time`: how ids
        carry the time at which they were made, "event_id" (as `EventIds` makes them), "uuid7" or "none"; those that
        are older than what is known are STALE. `shadow`: all is granted, and what it would have been told beside and
        counted. `on_ledger_down`: "reject", or "pass_marked", which grants ids `unchecked` meanwhile.
        """
        settings = (horizon_ms, auto_create_topics, record_headers, lease_expiry, id_time, shadow, on_ledger_down)
        self.run(self.calls.create_namespace(*settings))

    def delete_namespace(self, *, confirm: str = "") -> None:
        """Delete the namespace: its name is free, and whoever makes it again begins with nothing.

        `confirm`: the namespace's name, to delete it whatever it holds: ids, rows, batches and producers are then
        forgotten for good. The newest mark is brought with it, so that a repeat never ends a later namespace of the
        same name, and is forgotten when it is done.

        Raises NotEmpty: it holds something, nothing was deleted; Refused: it is `default`, or `confirm` is another
        name; NotFound: it is not there, perhaps since an earlier try deleted it; LedgerBehind: it was made anew since.
        """
        self.run(self.calls.delete_namespace(confirm))

    def drain_spill(self) -> Drained:
        """Send the rows that wait in the spill folder, the oldest first, unless another call does so just now.

        Each `produce` does so too. An error leaves its entry and those behind it, and says what to do.
        """
        return Drained() if self._spilling is None else self._spilling.drain()

    def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Take the steps of a produce of these rows, or lay them down, as `on_down` says."""
        if self._spilling is None:
            return self.run(steps)
        return self._spilling.produce(steps, rows(self.namespace))

    def run(self, steps: Steps[T]) -> T:
        """Take the steps of a call, one after another, to its end."""
        end: StepEnd = None
        while True:
            try:
                taken = steps.send(end)
            except StopIteration as over:
                return cast(T, over.value)
            end = self.step(taken)

    def step(self, step: Step) -> StepEnd:
        """Wait, or try once; return how it ended."""
        if isinstance(step, Pause):
            self.clock.sleep_ms(step.duration_ms)
            return None
        try:
            return self._connection.exchange(step)
        except WireFailure as failure:
            return failure
