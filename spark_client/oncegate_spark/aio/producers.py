"""`Driver` and `Producer`, awaited. What a call does stands there."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Acked, ClaimedSequences, DriverEpoch, Produced, Registered, Settled
from oncegate_spark.protocol.calls import Columns
from oncegate_spark.protocol.producer_calls import DriverCalls, ProducerCalls
from oncegate_spark.protocol.sequences import Sequences
from oncegate_spark.sync.lease import Held, renewals

if TYPE_CHECKING:
    from oncegate_spark.aio.gateway import AsyncGateway


@asynccontextmanager
async def keeping(gateway: "AsyncGateway", held: Held | None) -> AsyncIterator[None]:
    """Renew a lease while the block runs, from a task of its own."""
    twin = gateway.renewing
    task = asyncio.create_task(twin.run(renewals(twin.calls, held)), name="oncegate-renew")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # what is no answer of the gateway is a bug, and said


class AsyncDriver:
    """As `Driver`."""

    def __init__(self, gateway: "AsyncGateway", name: str, token: str | None = None) -> None:
        self.gateway = gateway
        self._calls = DriverCalls(gateway.calls, name, token)

    @property
    def token(self) -> str:
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        return self._calls.epoch

    async def __aenter__(self) -> Self:
        await self.register()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Nothing to end: a driver is one until the next registers."""

    async def register(self) -> DriverEpoch:
        return await self.gateway.run(self._calls.register())

    async def ack(self, upto: Mapping[str, int], batch: int | None = None) -> Acked:
        return await self.gateway.run(self._calls.ack(upto, batch))


class AsyncProducer:
    """As `Producer`: one lane of a source as one attempt writes it. A call that is cancelled is not undone."""

    def __init__(
        self,
        gateway: "AsyncGateway",
        name: str,
        *,
        driver: str,
        token: str | None = None,
        lease_ms: int | None = None,
    ) -> None:
        self.gateway = gateway
        self._calls = ProducerCalls(gateway.calls, name, driver, token, lease_ms)

    @property
    def name(self) -> str:
        return self._calls.name

    @property
    def token(self) -> str:
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        return self._calls.epoch

    async def __aenter__(self) -> Self:
        await self.register()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            self._calls.left(error)
        finally:
            with suppress(OncegateError):  # the lease ends by itself
                await self.close()

    async def register(self) -> Registered:
        return await self.gateway.run(self._calls.register())

    async def claim(
        self, sequences: Sequences, *, prev_sequence: int | None = None, lease_ms: int | None = None
    ) -> ClaimedSequences:
        return await self.gateway.run(self._calls.claim(sequences, prev_sequence, lease_ms))

    @asynccontextmanager
    async def holding(self, claimed: ClaimedSequences) -> AsyncIterator[None]:
        """Renew the lease while the block runs, from a task, at a third of it and for ten leases at most."""
        async with keeping(self.gateway, self._calls.held(claimed)):
            yield

    def held(self, claimed: ClaimedSequences) -> Held | None:
        """What `holding` renews; None where nothing was granted."""
        return self._calls.held(claimed)

    async def complete(self, claimed: ClaimedSequences) -> None:
        await self.gateway.run(self._calls.complete(claimed))

    async def settle(self, claimed: ClaimedSequences, verb: str) -> Settled | None:
        return await self.gateway.run(self._calls.settle(claimed, verb))

    async def release(self, claimed: ClaimedSequences) -> None:
        await self.settle(claimed, "release")

    async def produce(
        self,
        topic: str,
        body: bytes,
        *,
        sequence_col: str,
        prev_sequence: int | None = None,
        key_col: Columns = (),
    ) -> Produced:
        return await self.gateway.run(self._calls.produce(topic, body, sequence_col, prev_sequence, key_col))

    async def close(self, timeout_ms: int | None = None) -> None:
        await self.gateway.run(self._calls.close(timeout_ms))

    async def explain(self) -> dict[str, Any]:
        return await self.gateway.run(self._calls.explain())
