"""The attempt of the asyncio client: the claims and writes of one execution of a task."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from oncegate_spark.aio.lease import renewal
from oncegate_spark.aio.runner import AsyncRunner
from oncegate_spark.protocol.answers import Claimed, Written
from oncegate_spark.protocol.calls.attempt import AttemptCalls
from oncegate_spark.protocol.calls.lease import claim_lease
from oncegate_spark.protocol.columns import Columns, column_names, table_of
from oncegate_spark.protocol.ids import Ids
from oncegate_spark.spill import SpillEntry


class AsyncAttempt:
    """Claims ids and writes rows under one random token: the gateway recognises its retries, and a re-run is another
    attempt.

    Leaving its context with an open claim raises NotCompleted. It never releases a claim itself, since only the caller
    knows what was written.

    Calls may run concurrently. The effect of a cancelled call is unknown: ids granted to a cancelled `claim` stay held
    until their lease expires, and a claim whose `complete` was cancelled counts as open.
    """

    def __init__(
        self,
        gateway: AsyncRunner,
        token: str | None = None,
        scope: tuple[str, int] | None = None,
        id_set: str | None = None,
    ) -> None:
        self.gateway = gateway
        self._calls = AttemptCalls(gateway.calls, token, scope, id_set)

    @property
    def token(self) -> str:
        """Token of this attempt: 32 hexadecimal digits, unless the caller chose one."""
        return self._calls.token

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._calls.left(error)

    def next_call(self) -> int:
        """Returns the number of the attempt's next request; all tries of that request share it."""
        return self._calls.next_call()

    async def claim(
        self,
        ids: Ids,
        lease_ms: int | None = None,
        *,
        payloads: Ids | None = None,
        on_conflict: str = "fail",
        locate: bool = False,
    ) -> Claimed:
        """Claims ids, and returns which of them may be written.

        Args:
            ids: values, tuples for ids of several columns, or a table of the id columns
            payloads: one payload per id, of the types that ids have, or null
            on_conflict: with "fail" an id written with another payload raises PayloadConflict and the grants are
                released; with "drop" such ids are logged and dropped
            locate: fills `places` and `results` of the result: where the gateway wrote the first row of each duplicate,
                and the result it was completed with, if known

        Raises BadId and BadOption before anything is sent.
        """
        return await self.gateway.run(self._calls.claim(ids, lease_ms, payloads, on_conflict, locate))

    async def claim_columns(
        self,
        columns: list[pa.Array],
        lease_ms: int | None = None,
        ids: Any = None,
        payloads: Sequence[pa.Array] = (),
        on_conflict: str = "fail",
    ) -> Claimed:
        """Claims id columns with payload columns of equal length, like `claim`."""
        return await self.gateway.run(self._calls.claim_columns(columns, lease_ms, ids, payloads, on_conflict))

    @asynccontextmanager
    async def holding(self, claimed: Claimed) -> AsyncIterator[None]:
        """Renews the claim from a task while the block runs: every third of its lease, for at most ten leases."""
        async with renewal(self.gateway, claim_lease(claimed)):
            yield

    async def complete(self, claimed: Claimed, result: bytes | None = None) -> bytes | None:
        """Completes the claim: everything granted is written.

        `result`: up to 256 bytes for later claims of these ids that set `locate`. The first completion of a claim
        decides its result. Returns the stored result, or None if there is none or it is unknown.

        Raises StillBusy if some ids were BUSY or were taken over during the write. Those are not this attempt's, so the
        work is not done: claim them again, or use `oncegate_spark.spark.writers.claim_loop`.
        """
        return await self.gateway.run(self._calls.complete(claimed, result))

    async def settle(self, claimed: Claimed, verb: str) -> int:
        """Completes or releases a claim; returns the number of ids that another attempt has taken over."""
        return await self.gateway.run(self._calls.settle(claimed, verb))

    async def release(self, claimed: Claimed) -> None:
        """Releases the claim: nothing granted was written, nor ever will be."""
        await self.settle(claimed, "release")

    async def produce(
        self,
        topic: str,
        rows: pa.Table | pa.RecordBatch,
        *,
        id_col: Columns = (),
        key_col: Columns = (),
        digest_cols: Columns = (),
        on_conflict: str = "fail",
        locate: bool = False,
    ) -> Written:
        """Appends rows to a topic: each id once with `id_col`, at least once without.

        Returns once every row is done: written now, or known to be written. Rows whose id another attempt holds are
        claimed again until that attempt ends. An error's outcome covers all rows, and requests before the failing one
        have written theirs; with ids the same rows may be passed again.

        Args:
            id_col: columns of a row's id
            key_col: columns that choose the partition
            digest_cols: columns of the payload of a row's id
            on_conflict: with "fail" rows whose id is written with another payload raise PayloadConflict, and the other
                rows of their request are written; with "drop" such rows are logged and dropped
            locate: fills `places` and `results` of the result for each row whose id was written before

        Raises BadId before anything is sent, and StillBusy if another attempt neither completes nor releases its ids.

        With `on_down="spill"` rows may be `spilled` instead of written. This needs ids, an attempt outside a driver's
        batch, and no `locate`; other calls fail while the gateway is down.
        """
        columns = (column_names(id_col), column_names(key_col), column_names(digest_cols))
        rows = table_of(rows)
        steps = self._calls.produce(topic, rows, *columns, on_conflict, locate)
        if not columns[0] or locate or self._calls.is_scoped:
            return await self.gateway.run(steps)
        entry = partial(
            SpillEntry,
            topic=topic,
            rows=rows,
            id_col=columns[0],
            key_col=columns[1],
            digest_cols=columns[2],
            on_conflict=on_conflict,
            id_set=self._calls.id_set,
        )
        return await self.gateway.produced(steps, entry)
