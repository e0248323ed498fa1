"""A gateway under test, with short names for requests of producers and drivers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from oncegate.core.claims import Verb
from oncegate.core.producers import Gaps
from oncegate.engine.producer_requests import (
    AckRequest,
    AckResult,
    DriverRequest,
    DriverResult,
    ProducerRequest,
    ProducerResult,
    SequenceSettled,
)
from oncegate.engine.requests import ClaimRequest, ClaimResult, ProduceRequest, Rows, Scope, SequenceRequest
from tests.support.memory_gateway import SENDER, GatedLedgers, Served, id16, rows_of, serving

DRIVER_TOKEN = 90


class Lanes:
    """Driver "d" with token 90 and producer "p"; tokens are small numbers."""

    def __init__(self, served: Served) -> None:
        self.served = served

    @property
    def namespace(self) -> Any:
        return self.served.namespace

    @property
    def shard(self) -> Any:
        return self.served.shard

    async def driver(self, token: int = DRIVER_TOKEN, name: str = "d") -> DriverResult:
        return await self.shard.drivers.register(DriverRequest(name, id16(token)), self.served.deadline())

    async def register(
        self,
        token: int = 1,
        producer: str = "p",
        driver: str = "d",
        lease_ms: int | None = None,
        gaps: Gaps = Gaps.ALLOW,
        source_id: str | None = None,
    ) -> ProducerResult:
        ask = ProducerRequest(producer, id16(token), driver, lease_ms, gaps, SENDER.get(), source_id)
        return await self.shard.producers.register(ask, self.served.deadline())

    async def claim(
        self,
        call: int,
        sequences: Sequence[int],
        prev: int | None = None,
        token: int = 1,
        epoch: int = 1,
        producer: str = "p",
        lease_ms: int | None = None,
    ) -> ClaimResult:
        wanted = np.array(sequences, np.uint64)
        ask = SequenceRequest(producer, epoch, id16(token), call, wanted, prev, lease_ms, SENDER.get())
        return await self.shard.producers.claim(ask, self.served.deadline())

    async def settle(self, verb: Verb, call: int, token: int = 1, epoch: int = 1) -> SequenceSettled:
        return await self.shard.producers.settle(verb, "p", epoch, id16(token), call, self.served.deadline())

    async def complete(self, call: int, token: int = 1, epoch: int = 1) -> SequenceSettled:
        return await self.settle(Verb.COMPLETE, call, token, epoch)

    async def close(self, token: int = 1, epoch: int = 1) -> None:
        await self.shard.producers.close("p", epoch, id16(token))

    async def ack(
        self,
        upto: Sequence[tuple[str, int]] = (),
        batch: int | None = None,
        token: int = DRIVER_TOKEN,
        epoch: int = 1,
        topic: str = "",
        source_offsets: bytes = b"",
    ) -> AckResult:
        ask = AckRequest("d", epoch, id16(token), tuple(upto), batch, topic, source_offsets)
        return await self.shard.drivers.ack(ask, self.served.deadline())

    async def produce(
        self,
        call: int,
        sequences: Sequence[int],
        rows: Rows | None = None,
        token: int = 1,
        epoch: int = 1,
        payloads: Sequence[int] | None = None,
    ) -> Any:
        """Produces rows whose column `n` is their sequence. `payloads`: the digests of their payloads."""
        wanted = np.array(sequences, np.uint64)
        sequenced = SequenceRequest("p", epoch, id16(token), call, wanted, sender=SENDER.get())
        rows = rows_of(*sequences) if rows is None else rows
        digests = None if payloads is None else np.array(payloads, np.uint32)
        sender = SENDER.get()
        ask = ProduceRequest("topic", id16(token), call, rows, sequenced=sequenced, digests=digests, sender=sender)
        return await self.namespace.records.produce(ask, self.served.deadline())

    async def claim_ids(self, *ids: str, batch: int, token: int = 1, call: int = 1) -> ClaimResult:
        prints = self.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
        ask = ClaimRequest(id16(token), call, prints, None, Scope("d", batch))
        return await self.shard.claims.claim(ask, self.served.deadline())


@asynccontextmanager
async def lanes(ledgers: GatedLedgers | None = None, **limits: Any) -> AsyncIterator[Lanes]:
    """Opens a gateway with driver "d" and producer "p" registered, or over the ledgers of an earlier one."""
    async with serving(ledgers, **limits) as served:
        found = Lanes(served)
        if "d" not in found.shard.journal.index.producers.drivers:
            await found.driver()
            await found.register()
            served.disk.appends.clear()
        yield found
