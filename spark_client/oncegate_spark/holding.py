"""Keeping a lease alive while a write under it goes on."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from oncegate_spark.answers import Claimed
from oncegate_spark.calls import Calls
from oncegate_spark.errors import OncegateError
from oncegate_spark.steps import End, Pause, Steps

if TYPE_CHECKING:
    from oncegate_spark.client import Gateway

WRITE_LEASES_MAX = 10  # a write() that takes longer is stuck: let another attempt have the ids
START_MARGIN = 2  # a write starts only while 1/START_MARGIN of the lease is left

log = logging.getLogger("oncegate_spark")


def renewals(calls: Calls, claimed: Claimed) -> Steps[None]:
    """Renew a claim at a third of its lease, as steps, until nobody takes them further or the work takes too long.

    Work that takes longer than ten leases is no longer renewed: a stuck writer must not hold ids for ever.
    """
    claim, lease_ms, now_ms = claimed.claim, claimed.verdicts.lease_ms, calls.tries.now_ms
    if claim is None:
        return
    third_ms, ends_ms = max(1, lease_ms // 3), now_ms() + WRITE_LEASES_MAX * lease_ms
    yield Pause(max(0, claimed.began_ms + third_ms - now_ms()))
    while now_ms() < ends_ms:
        try:
            yield from calls.settle(claim, "renew", third_ms)
        except OncegateError as error:
            log.warning("claim %s could not be renewed: %s", claim, error)
        yield Pause(third_ms)
    log.warning("write() has taken %d leases; claim %s is no longer renewed", WRITE_LEASES_MAX, claim)


class Holder:
    """Renews one claim at a time from a thread of its own, while the work under it goes on."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway.twin()
        self._clock = gateway.clock
        self._thread: threading.Thread | None = None

    def fresh(self, claimed: Claimed) -> bool:
        """There is lease enough left to begin a write."""
        lease_ms = claimed.verdicts.lease_ms
        return self._clock.monotonic_ms() - claimed.began_ms < lease_ms - lease_ms // START_MARGIN

    def renew(self, gateway: "Gateway", claimed: Claimed) -> int:
        """Lease from now on, before the work begins; how many ids another attempt has taken over meanwhile."""
        assert claimed.claim is not None
        renewed = gateway.settle(claimed.claim, "renew")
        claimed.began_ms = renewed.began_ms
        return renewed.taken_over

    @contextmanager
    def holding(self, claimed: Claimed) -> Iterator[None]:
        """Renew while the block runs."""
        self.close()  # the thread of the block before may still wait for its last answer
        over = threading.Event()
        self._thread = threading.Thread(target=self._renewals, args=(claimed, over), name="oncegate-renew", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            over.set()

    def close(self) -> None:
        """Wait for the last renewal; bounded by a third of its lease."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _renewals(self, claimed: Claimed, over: threading.Event) -> None:
        steps = renewals(self._gateway.calls, claimed)
        end: End = None
        with suppress(StopIteration):
            while True:
                taken = steps.send(end)
                if not isinstance(taken, Pause):
                    end = self._gateway.step(taken)
                elif self._clock.wait_ms(over, taken.duration_ms):
                    break
                else:
                    end = None
        self._gateway.close()
