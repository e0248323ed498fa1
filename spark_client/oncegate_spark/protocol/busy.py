"""How long to wait for what another attempt holds, and when to give up. No I/O."""

from random import Random

from oncegate_spark.errors import StillBusy
from oncegate_spark.protocol.codecs import Verdicts


class Watch:
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


def pause_ms(watch: Watch, now_ms: int, verdicts: Verdicts) -> int:
    """How long to wait before asking again for what others hold; StillBusy when there is no sense in waiting on."""
    pause = watch.observe(now_ms, verdicts.lease_left_ms)
    if pause is None:
        raise StillBusy(
            f"{verdicts.unsettled} rows are held by another attempt that neither completes them nor lets "
            "go; they were not written by this one"
        )
    return pause
