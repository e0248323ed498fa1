# Generated from oncegate_spark/aio/attempt.py by scripts/unasync.py; do not edit.
"""One try of some piece of work, and the claims it makes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from oncegate_spark.protocol.answers import Claimed, Written
from oncegate_spark.protocol.calls.attempt import AttemptCalls
from oncegate_spark.protocol.calls.lease import claim_lease
from oncegate_spark.protocol.columns import Columns, column_names, table_of
from oncegate_spark.protocol.ids import Ids
from oncegate_spark.spill import SpillEntry
from oncegate_spark.sync.lease import renewal
from oncegate_spark.sync.runner import Runner


class Attempt:
    """Claims ids, and writes rows, under one random token: a retry inside is recognised, a re-run is another attempt.

    As a context manager it says so when it is left with something open; it releases nothing by itself, because only
    its user knows what was written.
    """

    def __init__(
        self,
        gateway: Runner,
        token: str | None = None,
        scope: tuple[str, int] | None = None,
        id_set: str | None = None,
    ) -> None:
        self.gateway = gateway
        self._calls = AttemptCalls(gateway.calls, token, scope, id_set)

    @property
    def token(self) -> str:
        """The name of this attempt: 32 hexadecimal digits, unless one was given."""
        return self._calls.token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._calls.left(error)

    def next_call(self) -> int:
        """The number of the next request of this attempt; every try of that request repeats it."""
        return self._calls.next_call()

    def claim(
        self,
        ids: Ids,
        lease_ms: int | None = None,
        *,
        payloads: Ids | None = None,
        on_conflict: str = "fail",
        locate: bool = False,
    ) -> Claimed:
        """Ask which of these may be written. Tuples, or a table of several columns, are ids of several columns.

        payloads: what each id comes with, in the forms that ids have, null allowed. An id that is written with another
        one raises PayloadConflict, and nothing is kept of what was granted; with on_conflict="drop" it is counted,
        logged and not written. Raises BadId, BadOption before anything is asked.

        locate: `places` and `results` of what is returned say of each duplicate where the gateway wrote its first, and
        what that was completed with, as far as it knows.
        """
        return self.gateway.run(self._calls.claim(ids, lease_ms, payloads, on_conflict, locate))

    def claim_columns(
        self,
        columns: list[pa.Array],
        lease_ms: int | None = None,
        ids: Any = None,
        payloads: Sequence[pa.Array] = (),
        on_conflict: str = "fail",
    ) -> Claimed:
        """As `claim`, for columns of ids, and of what they come with, of equal length."""
        return self.gateway.run(self._calls.claim_columns(columns, lease_ms, ids, payloads, on_conflict))

    @contextmanager
    def holding(self, claimed: Claimed) -> Iterator[None]:
        """Renew the claim while the block runs, from a thread, at a third of its lease and for ten leases at most."""
        with renewal(self.gateway, claim_lease(claimed)):
            yield

    def complete(self, claimed: Claimed, result: bytes | None = None) -> bytes | None:
        """Say that everything granted is written.

        result: up to 256 bytes for whoever is told that these ids are duplicates, and asks with `locate`. The first
        complete of a claim decides it: the one that stands is returned, None where there is none, or none is known.

        Raises StillBusy when some ids were BUSY, or were taken over while they were being written: those are not this
        attempt's, so the work is not done. Ask for them again in a new claim, or use
        `oncegate_spark.spark.writers.claim_loop`.
        """
        return self.gateway.run(self._calls.complete(claimed, result))

    def settle(self, claimed: Claimed, verb: str) -> int:
        """Complete or release a claim; how many of its ids another attempt has taken over meanwhile."""
        return self.gateway.run(self._calls.settle(claimed, verb))

    def release(self, claimed: Claimed) -> None:
        """Say that nothing granted was, or ever will be, handed to the place it is written to."""
        self.settle(claimed, "release")

    def produce(
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
        """Append rows to a topic. With `id_col` each id is there once; without, at least once. `key_col`: which
        columns choose the partition.

        Returns when every row is done: written now, or known to be written. Rows whose id another attempt has claimed
        are asked for again, as long as that one lives. Raises BadId before anything is sent, StillBusy when the other
        neither completes nor lets go. An error's outcome covers all of the rows: those of requests before the failing
        one are written. With ids the same rows may be given again: what is there is not written twice.

        digest_cols: the columns that are the payload of a row's id. Rows whose id is written with another one raise
        PayloadConflict, the others of their request are written; with on_conflict="drop" they are counted, logged and
        not written.

        locate: `places` and `results` of what is returned say of each row whose id was written before where the gateway
        wrote it first, and what its claim was completed with.

        Through a gateway with `on_down="spill"` rows may be `spilled` instead of written: they have an id, the attempt
        is of no driver's batch, and no firsts are asked for. All else fails then while the gateway is down.
        """
        columns = (column_names(id_col), column_names(key_col), column_names(digest_cols))
        rows = table_of(rows)
        steps = self._calls.produce(topic, rows, *columns, on_conflict, locate)
        if not columns[0] or locate or self._calls.is_scoped:
            return self.gateway.run(steps)
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
        return self.gateway.produced(steps, entry)
