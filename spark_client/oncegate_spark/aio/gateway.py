"""A gateway, as a program with asyncio uses it; needs no Spark, and no connection until the first request.

async with AsyncGateway("http://gateway:8080", namespace="mail") as gateway:
    async with gateway.attempt() as attempt:
        claimed = await attempt.claim(ids)
        async with attempt.holding(claimed):  # for work that may outlast the lease
            await send(claimed.granted)  # returns when it is durable
        await attempt.complete(claimed)
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Any, Self, TypeVar, cast

import pyarrow as pa

from oncegate_spark.aio.attempt import AsyncAttempt
from oncegate_spark.aio.clock import AsyncClock, AsyncSystemClock
from oncegate_spark.aio.pool import CONNECTIONS_MAX, Pool  # sync: from oncegate_spark.sync.connection import Connection
from oncegate_spark.aio.producers import AsyncDriver, AsyncProducer
from oncegate_spark.aio.spilling import AsyncSpilling
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

T = TypeVar("T")


class AsyncGateway:
    """Client of one namespace of one gateway, for one event loop and any number of concurrent calls.

    Each call is retried until the gateway decides or its timeout expires. `errors` lists what calls raise; every error
    has an outcome: written, not written or unknown.

    At most `connections_max` calls are sent concurrently; the others wait for a connection within their own timeout.
    The effect of a cancelled call is unknown, and only a repeat under the same token and call reveals it.

    Args:
        url: address of the gateway
        namespace: must exist
        timeout_ms: for a call with its retries
        mark: ledger position from an earlier client, which the gateway must know
        credentials: API key and certificates; by default the key in the environment variable ONCEGATE_API_KEY, if any
        on_down: behaviour of calls while the gateway is down. "block" retries for `timeout_ms`; "fail" raises
            Unavailable at once; "spill" does too, except that rows with ids that an attempt produces are stored in
            `spill` and sent in order later. Calls that end begun work (complete, release, commit, ack) always retry for
            `timeout_ms`
        spill: folder for `on_down="spill"`
        writer: identifies the writer in the gateway's counts of duplicates
    """

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
        clock: AsyncClock | None = None,
        rng: Random | None = None,
        connections_max: int = CONNECTIONS_MAX,  # sync: -
    ) -> None:
        self.clock: AsyncClock = clock or AsyncSystemClock()
        self.rng: Random = rng or SystemRandom()
        self._connections_max, self.credentials = connections_max, credentials  # sync: self.credentials = credentials
        self._pool = Pool(  # sync: self._pool = Connection(
            url,
            credentials,
            self.clock,
            connections_max,  # sync: -
        )
        self._renewing: AsyncGateway | None = None  # sync: -
        self.url = url.rstrip("/")
        self.namespace = namespace
        self.timeout_ms = checked_timeout(timeout_ms)
        self.on_down, self.spill = on_down, spill
        now_ms, patient = self.clock.monotonic_ms, is_patient(on_down, spill is not None)
        tries = Tries(self.url, timeout_ms=timeout_ms, mark=mark, now_ms=now_ms, rng=self.rng, patient=patient)
        tries.writer = writer
        self.calls = Calls(tries, namespace)
        self._spilling = None if spill is None else AsyncSpilling(self, spill, namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("an AsyncGateway holds connections and cannot be pickled: create one where it is used")

    async def close(self) -> None:
        """Closes its connections; a later call opens a new one."""
        await self._pool.close()
        if self._renewing is not None:  # sync: -
            await self._renewing.close()  # sync: -

    def twin(self) -> "AsyncGateway":
        """Returns a client with the same settings and connections of its own."""
        return AsyncGateway(
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
            connections_max=self._connections_max,  # sync: -
        )

    @property
    def renewing(self) -> "AsyncGateway":
        """Client that renews leases, so that renewals never wait for large bodies: one for all blocks."""
        self._renewing = self._renewing or self.twin()  # sync: -
        return self._renewing  # sync: return self.twin()

    @property
    def mark(self) -> str | None:
        """Newest ledger position on which a reply depended, as text; None before the first reply."""
        return self.calls.tries.marks.mark

    def attempt(
        self, token: str | None = None, scope: tuple[str, int] | None = None, *, id_set: str | None = None
    ) -> AsyncAttempt:
        """Starts an attempt, under a new token unless one is given.

        Args:
            scope: a driver and the number of its batch. Ids claimed and produced in it are forgotten once the driver
                acks the batch, regardless of the retention of ids; calls after the ack raise BatchOver
            id_set: dedup scope of all its ids. By default claimed ids are in scope "", and ids of rows in the scope
                named after their topic, so that the same id may be written once to each of two topics
        """
        return AsyncAttempt(self, token, scope, id_set)

    def producer(
        self,
        name: str,
        *,
        driver: str,
        token: str | None = None,
        lease_ms: int | None = None,
        gaps: str = "allow",
        source_id: str | None = None,
    ) -> AsyncProducer:
        """Returns the producer of one lane of a source, for one attempt; `async with` registers it.

        Args:
            driver: name of the owner of its retries
            gaps: "refuse" if the source has no holes: a claim that skips a sequence raises Gap, even without
                `prev_sequence`
            source_id: identity of the source, such as Kafka's topic id. The first registered one is stored permanently,
                and registering with another raises SourceReplaced
        """
        return AsyncProducer(self, name, driver=driver, token=token, lease_ms=lease_ms, gaps=gaps, source_id=source_id)

    def driver(self, name: str, token: str | None = None) -> AsyncDriver:
        """Returns a driver, which acks sequences that its producers will never retry; `async
        with` registers it.
        """
        return AsyncDriver(self, name, token)

    async def claim(
        self,
        token: str,
        call: int,
        columns: Sequence[pa.Array],
        lease_ms: int | None = None,
        scope: tuple[str, int] | None = None,
        payloads: Sequence[pa.Array] = (),
        id_set: str | None = None,
    ) -> tuple[Verdicts, int]:
        """Claims id columns of equal length; returns the verdicts, and the start of the answered request in ms.

        `payloads`: payload columns; an id written with another payload is CONFLICT. `id_set`: dedup scope, "" by
        default.
        """
        return await self.run(self.calls.claim(token, call, columns, lease_ms, scope, payloads, id_set))

    async def settle(self, claim: str, verb: str, timeout_ms: int | None = None) -> Settled:
        """Renews, completes or releases a claim; `verb` is "renew", "complete" or "release".

        Raises LostClaim for an unknown claim.
        """
        return await self.run(self.calls.settle(claim, verb, timeout_ms))

    async def take(
        self,
        owner: str,
        ids: Ids,
        scope: tuple[str, int] | None = None,
        id_set: str | None = None,
        *,
        locate: bool = False,
    ) -> Taken:
        """Claims ids permanently, without a lease or a completion; the same owner is granted them again on request.

        In the result, `granted` ids are this owner's; `dropped` ids are done, another owner's or repeated in the
        request; `busy` ids are held by a live attempt: ask again later. After an error the effect is unknown, and a
        repeat is harmless.

        `id_set`: dedup scope, by default "dedup", which claims and produced rows do not use. `locate`: as in `claim` of
        an attempt.
        """
        return await self.run(self.calls.take(owner, ids, scope, id_set, locate))

    async def look_up(self, ids: Ids, id_set: str | None = None) -> namespace.LookedUp:
        """Returns which ids are `written` and which are `held` by a claim, without claiming any;
        `id_set` as in `claim`.
        """
        return await self.run(namespace.look_up(self.calls, ids, id_set))

    async def produce(
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
        """Appends rows (an Arrow stream) to a topic in one request, all or nothing; for tables use
        `AsyncAttempt.produce`.

        Args:
            id_col: columns of a row's id. GRANTED rows are written and completed at once, DUPLICATE and SAME rows are
                dropped; claim BUSY rows again in a new call. A repeat after a lost reply is answered with DUPLICATE
                `own`. Without ids rows are written at least once, and a repeat writes them again
            key_col: columns whose equal values go to one partition; by default all rows go to the next partition
            digest_cols: columns of the payload of a row's id; an id written with another payload is CONFLICT
            id_set: dedup scope; by default named after the topic
            locate: `verdicts.firsts` has the first write of each DUPLICATE, and the result of its claim
        """
        columns = (id_col, key_col, scope, digest_cols, id_set)
        return await self.run(self.calls.produce(topic, token, call, body, *columns, locate))

    async def stage(
        self, name: BatchName, owner: str, token: str, chunk: int, body: bytes | memoryview, key_col: Columns = ()
    ) -> Staged:
        """Stages rows (an Arrow stream) for a later `commit`; they are invisible until then."""
        return await self.run(batches.stage(self.calls, name, owner, token, chunk, body, key_col))

    async def commit(self, name: BatchName, order: Mapping[str, object]) -> Committed:
        """Publishes staged rows, all or nothing.

        `order`: run, nonce, winners, digests, on_replay_mismatch, source_offsets.
        """
        return await self.run(batches.commit(self.calls, name, order))

    async def abort(self, name: BatchName, tokens: Sequence[str], timeout_ms: int | None = None) -> bool:
        """Drops the stages of these tokens; returns True if the batch is committed, in which case
        nothing is dropped.
        """
        return await self.run(batches.abort(self.calls, name, tokens, timeout_ms))

    async def source_offsets(self, app: str, topic: str, write_id: str = "") -> str:
        """Returns the source offsets stored with a job's newest commit, or with its driver's newest ack.

        `app`: the app of the batches, or the driver. All rows before these offsets are written. Raises NotFound if none
        are stored, or the newest commit or ack had none.
        """
        return await self.run(batches.source_offsets(self.calls, app, topic, write_id))

    async def open_lane(self, topic: str, producer: str, source_id: str | None = None) -> OpenedLane:
        """Opens the lane through which a client writes a producer's rows into a Kafka topic itself, or returns the
        existing one.

        From then on only lanes write to the topic; `oncegate_spark.direct` implements such a writer. `source_id` as in
        `producer`.
        """
        return await self.run(lanes.open_lane(self.calls, topic, producer, source_id))

    async def ask_lane(
        self,
        topic: str,
        producer: str,
        first: int,
        last: int,
        acked: int | None = None,
        topic_id: str | None = None,
    ) -> lanes.SequenceSpans:
        """Returns the written sequences of a lane from `first` to `last`, as inclusive spans in order.

        The caller must have started the lane's transactional id, so that no other writer adds to them. `acked`: the
        source delivers no sequence up to this one again. `topic_id`: Kafka's current id of the topic; the gateway
        refuses another one than before (TOPIC_REPLACED).
        """
        return await self.run(lanes.ask_lane(self.calls, topic, producer, first, last, acked, topic_id))

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        max_rows: int = topics.FETCH_ROWS,
        partition: int = 0,
        columns: Columns | None = None,
    ) -> tuple[pa.Table | None, int]:
        """Reads rows of one partition from an offset; returns them (None if there are none) with the next offset.

        `columns`: only these, in this order. Raises OffsetTrimmed below the lowest kept offset, LedgerBehind beyond the
        end.
        """
        return await self.run(topics.fetch(self.calls, topic, offset, max_rows, partition, columns))

    async def read(self, topic: str, columns: Columns | None = None) -> pa.Table | None:
        """Reads all rows that a topic holds at the time of the call, partition by partition; None if it has none."""
        return await self.run(topics.read(self.calls, topic, columns))

    async def topic(self, topic: str) -> Topic:
        """Returns a topic's schema, offsets and retention. Raises NotFound."""
        return await self.run(topics.look_at(self.calls, topic))

    async def topics(self) -> list[str]:
        """Lists the names of the namespace's topics, sorted."""
        return await self.run(topics.names(self.calls))

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        schema: pa.Schema | None = None,
        merge_schema: bool = False,
    ) -> None:
        """Creates a topic, or changes the retention of an existing one; omitted settings are left to the gateway.

        `merge_schema`: appends the columns of `schema` that the topic lacks, permanently; they are null in earlier
        rows. Raises Refused if the topic exists with other partitions, another schema or, when merging, a column of
        another type: nothing was changed.
        """
        settings = (partitions, retention_ms, retention_bytes, schema, merge_schema)
        await self.run(topics.create_topic(self.calls, topic, *settings))

    async def describe(self) -> dict[str, Any]:
        """Returns the namespace's settings and counters, as in the gateway's JSON. Raises NotFound."""
        return await self.run(self.calls.describe())

    async def limits(self) -> dict[str, Any]:
        """Returns the gateway's limits, as in its JSON."""
        return await self.run(self.calls.limits())

    async def explain(self, *columns: Any, id_set: str = "") -> dict[str, Any]:
        """Returns everything that the gateway knows about an id, as in its JSON.

        `columns`: the id's values, one per column. `id_set`: dedup scope, for produced rows the name of their topic.
        """
        return await self.run(self.calls.explain(*columns, id_set=id_set))

    async def create_namespace(
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
        """Creates the namespace, or changes an existing one; omitted settings are unchanged.

        Args:
            horizon_ms: retention of ids: time for which a completed id is kept, 0 for ever
            auto_create_topics: whether a write creates its topic
            record_headers: records in Kafka topics carry their writer, for `RecordCheck` and `check_records`; set it
                before the first write
            lease_expiry: effect of an expired lease: "takeover", "hold" or "fail"
            id_time: encoding of the creation time in ids: "event_id" (by `EventIds`), "uuid7" or "none"; ids older than
                the retention are STALE
            shadow: grants everything, and only records and counts the verdicts
            on_ledger_down: "reject", or "pass_marked" to grant ids `unchecked` while the ledger is down
        """
        settings = (horizon_ms, auto_create_topics, record_headers, lease_expiry, id_time, shadow, on_ledger_down)
        await self.run(self.calls.create_namespace(*settings))

    async def delete_namespace(self, *, confirm: str = "") -> None:
        """Deletes the namespace; its name is free afterwards, and a new namespace of that name is empty.

        `confirm`: the namespace's name, required unless it is empty; its ids, rows, batches and producers are lost. The
        request carries the newest ledger position, so that a repeat never deletes a later namespace of the same name.

        Raises NotEmpty (nothing was deleted); Refused for `default` and for a wrong `confirm`; NotFound if it does not
        exist, perhaps because an earlier try deleted it; LedgerBehind if it was created again since.
        """
        await self.run(self.calls.delete_namespace(confirm))

    async def drain_spill(self) -> Drained:
        """Sends the rows in the spill folder, oldest first, unless another call is sending them.

        Each `produce` does so too. An error keeps its entry and the later ones; its message has the remedy.
        """
        return Drained() if self._spilling is None else await self._spilling.drain()

    async def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Produces rows, or spills them according to `on_down`."""
        if self._spilling is None:
            return await self.run(steps)
        return await self._spilling.produce(steps, rows(self.namespace))

    async def run(self, steps: Steps[T]) -> T:
        """Executes the steps of a call and returns its result."""
        end: StepEnd = None
        while True:
            try:
                taken = steps.send(end)
            except StopIteration as over:
                return cast(T, over.value)
            end = await self.step(taken)

    async def step(self, step: Step) -> StepEnd:
        """Executes one step: a pause or a request."""
        if isinstance(step, Pause):
            await self.clock.sleep_ms(step.duration_ms)
            return None
        try:
            return await self._pool.exchange(step)
        except WireFailure as failure:
            return failure
