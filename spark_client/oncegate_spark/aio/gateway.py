"""A gateway, as a program with asyncio uses it: the names and the rules of `Gateway` and `Attempt`, awaited.

async with AsyncGateway("http://gateway:8080", namespace="mail") as gateway:
    async with gateway.attempt() as attempt:
        claimed = await attempt.claim(ids)
        async with attempt.holding(claimed):  # for work that may outlast the lease
            await send(claimed.granted)  # returns when it is durable
        await attempt.complete(claimed)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import pyarrow as pa

from oncegate_spark.aio.pool import CONNECTIONS_MAX, Pool
from oncegate_spark.aio.producers import AsyncDriver, AsyncProducer, keeping
from oncegate_spark.protocol.answers import Claimed, Committed, Produced, Settled, Staged, Taken, Topic, Written
from oncegate_spark.protocol.attempt_calls import AttemptCalls
from oncegate_spark.protocol.calls import FETCH_ROWS, Calls, Columns
from oncegate_spark.protocol.codecs import Verdicts
from oncegate_spark.protocol.effort import TIMEOUT_MS, WireFailure
from oncegate_spark.protocol.ids import Ids
from oncegate_spark.protocol.names import Name
from oncegate_spark.protocol.steps import End, Pause, Step, Steps, Tries
from oncegate_spark.sync.clock import AsyncClock, AsyncSystemClock
from oncegate_spark.sync.connection import checked_timeout
from oncegate_spark.sync.lease import held_claim

T = TypeVar("T")


class AsyncGateway:
    """One namespace of one gateway, for one event loop and any number of calls at a time.

    Each call is what `Gateway` says of it. At most `connections_max` are on the wire together, the others wait for
    their turn within their own time. A call that is cancelled is not undone: its effect is unknown, and only asking
    again under the same token and call would tell.
    """

    def __init__(
        self,
        url: str,
        namespace: str = "default",
        *,
        timeout_ms: int = TIMEOUT_MS,
        mark: str | None = None,
        clock: AsyncClock | None = None,
        rng: Random | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self.clock: AsyncClock = clock or AsyncSystemClock()
        self.rng: Random = rng or SystemRandom()
        self._connections_max = connections_max
        self._pool = Pool(url, self.clock, connections_max)
        self.url = url.rstrip("/")
        self.namespace = namespace
        self.timeout_ms = checked_timeout(timeout_ms)
        self._renewing: AsyncGateway | None = None
        now_ms = self.clock.monotonic_ms
        self.calls = Calls(Tries(self.url, timeout_ms=timeout_ms, mark=mark, now_ms=now_ms, rng=self.rng), namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("an AsyncGateway holds connections and is never pickled: make one where it is used")

    async def close(self) -> None:
        await self._pool.close()
        if self._renewing is not None:
            await self._renewing.close()

    def twin(self) -> "AsyncGateway":
        """The same gateway with connections of its own."""
        return AsyncGateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            mark=self.mark,
            clock=self.clock,
            rng=self.rng,
            connections_max=self._connections_max,
        )

    @property
    def renewing(self) -> "AsyncGateway":
        """The twin that renews leases, which must not wait behind large bodies."""
        self._renewing = self._renewing or self.twin()
        return self._renewing

    @property
    def mark(self) -> str | None:
        return self.calls.tries.marks.mark

    def attempt(self, token: str | None = None, scope: tuple[str, int] | None = None) -> "AsyncAttempt":
        return AsyncAttempt(self, token, scope)

    def producer(
        self, name: str, *, driver: str, token: str | None = None, lease_ms: int | None = None
    ) -> AsyncProducer:
        return AsyncProducer(self, name, driver=driver, token=token, lease_ms=lease_ms)

    def driver(self, name: str, token: str | None = None) -> AsyncDriver:
        return AsyncDriver(self, name, token)

    async def claim(
        self,
        token: str,
        call: int,
        columns: Sequence[pa.Array],
        lease_ms: int | None = None,
        scope: tuple[str, int] | None = None,
        payloads: Sequence[pa.Array] = (),
    ) -> tuple[Verdicts, int]:
        return await self.run(self.calls.claim(token, call, columns, lease_ms, scope, payloads))

    async def settle(self, claim: str, verb: str, timeout_ms: int | None = None) -> Settled:
        return await self.run(self.calls.settle(claim, verb, timeout_ms))

    async def take(self, owner: str, ids: Ids, scope: tuple[str, int] | None = None) -> Taken:
        return await self.run(self.calls.take(owner, ids, scope))

    async def produce(
        self,
        topic: str,
        token: str,
        call: int,
        body: bytes,
        id_col: Columns = (),
        key_col: Columns = (),
        scope: tuple[str, int] | None = None,
        digest_cols: Columns = (),
    ) -> Produced:
        return await self.run(self.calls.produce(topic, token, call, body, id_col, key_col, scope, digest_cols))

    async def stage(self, name: Name, owner: str, token: str, chunk: int, body: bytes, key_col: Columns = ()) -> Staged:
        return await self.run(self.calls.stage(name, owner, token, chunk, body, key_col))

    async def commit(self, name: Name, order: Mapping[str, object]) -> Committed:
        return await self.run(self.calls.commit(name, order))

    async def abort(self, name: Name, tokens: Sequence[str], timeout_ms: int | None = None) -> None:
        await self.run(self.calls.abort(name, tokens, timeout_ms))

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        max_rows: int = FETCH_ROWS,
        partition: int = 0,
        columns: Columns | None = None,
    ) -> tuple[pa.Table | None, int]:
        return await self.run(self.calls.fetch(topic, offset, max_rows, partition, columns))

    async def read(self, topic: str, columns: Columns | None = None) -> pa.Table | None:
        return await self.run(self.calls.read(topic, columns))

    async def topic(self, topic: str) -> Topic:
        return await self.run(self.calls.topic(topic))

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        await self.run(self.calls.create_topic(topic, partitions, retention_ms, retention_bytes, schema))

    async def describe(self) -> dict[str, Any]:
        return await self.run(self.calls.describe())

    async def explain(self, *columns: str) -> dict[str, Any]:
        return await self.run(self.calls.explain(*columns))

    async def create_namespace(self, *, horizon_ms: int | None = None, auto_create_topics: bool | None = None) -> None:
        await self.run(self.calls.create_namespace(horizon_ms, auto_create_topics))

    async def run(self, steps: Steps[T]) -> T:
        """Take the steps of a call, one after another, to its end."""
        end: End = None
        while True:
            try:
                taken = steps.send(end)
            except StopIteration as over:
                return cast(T, over.value)
            end = await self.step(taken)

    async def step(self, step: Step) -> End:
        """Wait, or try once; how it ended."""
        if isinstance(step, Pause):
            await self.clock.sleep_ms(step.duration_ms)
            return None
        try:
            return await self._pool.exchange(step.request, step.timeout_ms, step.left_ms)
        except WireFailure as failure:
            return failure


class AsyncAttempt:
    """As `Attempt`: a random token, and the claims made under it.

    Its calls may be made side by side, each is a call of its own. When one is cancelled (a timeout around it, for
    instance) its effect is unknown: ids that a cancelled `claim` was granted are nobody's until their lease is over,
    and a claim whose `complete` was cancelled counts as open.
    """

    def __init__(self, gateway: AsyncGateway, token: str | None = None, scope: tuple[str, int] | None = None) -> None:
        self.gateway = gateway
        self._calls = AttemptCalls(gateway.calls, token, scope)

    @property
    def token(self) -> str:
        return self._calls.token

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._calls.left(error)

    def next_call(self) -> int:
        return self._calls.next_call()

    async def claim(
        self, ids: Ids, lease_ms: int | None = None, *, payloads: Ids | None = None, on_conflict: str = "fail"
    ) -> Claimed:
        return await self.gateway.run(self._calls.claim(ids, lease_ms, payloads, on_conflict))

    async def claim_columns(
        self,
        columns: list[pa.Array],
        lease_ms: int | None = None,
        ids: Any = None,
        payloads: Sequence[pa.Array] = (),
        on_conflict: str = "fail",
    ) -> Claimed:
        return await self.gateway.run(self._calls.claim_columns(columns, lease_ms, ids, payloads, on_conflict))

    @asynccontextmanager
    async def holding(self, claimed: Claimed) -> AsyncIterator[None]:
        """Renew the claim while the block runs, from a task, at a third of its lease and for ten leases at most."""
        async with keeping(self.gateway, held_claim(claimed)):
            yield

    async def complete(self, claimed: Claimed) -> None:
        await self.gateway.run(self._calls.complete(claimed))

    async def settle(self, claimed: Claimed, verb: str) -> int:
        return await self.gateway.run(self._calls.settle(claimed, verb))

    async def release(self, claimed: Claimed) -> None:
        await self.settle(claimed, "release")

    async def produce(
        self,
        topic: str,
        rows: pa.Table,
        *,
        id_col: Columns = (),
        key_col: Columns = (),
        digest_cols: Columns = (),
        on_conflict: str = "fail",
    ) -> Written:
        return await self.gateway.run(self._calls.produce(topic, rows, id_col, key_col, digest_cols, on_conflict))
