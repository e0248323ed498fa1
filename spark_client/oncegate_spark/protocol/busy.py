"""How long to wait for what another attempt holds, when to give up, and what nobody is to wait for. No I/O."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import InDoubt, Outcome, StillBusy
from oncegate_spark.protocol.packed.verdicts import Verdicts

SHOWN, SHOWN_CHARS = 5, 100


class BusyWatch:
    """How long to wait for ids that another attempt holds: its lease + 50 % after the last renewal seen.

    Judged by our own clock alone: a renewal is seen when the end of the lease, as the gateway answers it, moves on.
    """

    POLL_MS_FIRST, POLL_MS_MAX = 50, 1_000
    NOISE_MS = 50  # a lease that is over is answered as 0 again and again; that is no renewal

    def __init__(self, lease_ms: int, rng: Random) -> None:
        self._lease_ms = lease_ms
        self._rng = rng
        self._ends_ms: int | None = None
        self._until_ms = 0
        self._poll_ms = self.POLL_MS_FIRST

    def observe(self, now_ms: int, lease_left_ms: int) -> int | None:
        """Some ids are BUSY; how long to wait before asking again, None when there is no sense in waiting on."""
        lease_ms = max(self._lease_ms, lease_left_ms)
        ends_ms = now_ms + lease_left_ms
        moved_on = self._ends_ms is None or ends_ms > self._ends_ms + max(self.NOISE_MS, lease_ms // 20)
        if self._ends_ms is None or (moved_on and lease_left_ms > self.NOISE_MS):
            self._ends_ms, self._until_ms = ends_ms, now_ms + lease_ms + lease_ms // 2
        if now_ms >= self._until_ms:
            return None
        pause_ms = int(self._poll_ms * self._rng.uniform(0.5, 1.0))
        self._poll_ms = min(2 * self._poll_ms, self.POLL_MS_MAX)
        return max(10, min(pause_ms, lease_left_ms + 10))


def pause_ms(watch: BusyWatch, now_ms: int, verdicts: Verdicts) -> int:
    """How long to wait before asking again for what others hold; StillBusy when there is no sense in waiting on."""
    pause = watch.observe(now_ms, verdicts.lease_left_ms)
    if pause is None:
        raise StillBusy(
            f"{verdicts.unsettled} rows are held by another attempt that neither completes them nor lets "
            "go; they were not written by this one"
        )
    return pause


def in_doubt(columns: Sequence[pa.Array | pa.ChunkedArray], verdicts: Verdicts, what: str) -> InDoubt:
    """The error for those of the ids in these columns that were told IN_DOUBT; `what`: was asked, for a person."""
    rows = zip(*(column.filter(verdicts.unresolved).to_pylist() for column in columns), strict=True)
    ids: list[Any] = [row_id[0] if len(columns) == 1 else row_id for row_id in rows]
    shown = ", ".join(repr(row_id)[:SHOWN_CHARS] for row_id in ids[:SHOWN])
    return InDoubt(
        f"{what}: {len(ids)} of {len(verdicts.data)} ids are in doubt, the first: {shown}. Their holder's lease ran "
        "out, it may have written them, and the namespace lets nobody take them over (lease_expiry is fail): find "
        "out, then `oncegate resolve done` or `not-done`; they were not written by this attempt",
        outcome=Outcome.UNKNOWN,
        ids=ids,
    )
