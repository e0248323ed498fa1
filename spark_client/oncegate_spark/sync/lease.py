"""Keeping a lease alive while a write under it goes on."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Claimed, ClaimedSequences
from oncegate_spark.protocol.calls import Calls
from oncegate_spark.protocol.steps import End, Pause, Steps

if TYPE_CHECKING:
    from oncegate_spark.sync.gateway import Gateway

WRITE_LEASES_MAX = 10  # a write() that takes longer is stuck: let another attempt have the ids
START_MARGIN = 2  # a write starts only while 1/START_MARGIN of the lease is left

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class Held:
    """What is kept alive: granted when the try began that was answered. `renew`: asks for a full lease from now."""

    what: str
    began_ms: int
    lease_ms: int
    renew: Callable[[Calls, int], Steps[Any]]


def held_claim(claimed: Claimed) -> Held | None:
    """None where nothing was granted."""
    claim = claimed.claim
    if claim is None:
        return None
    named: str = claim
    return Held(
        f"claim {named}",
        claimed.began_ms,
        claimed.verdicts.lease_ms,
        lambda calls, timeout_ms: calls.settle(named, "renew", timeout_ms),
    )


def renewals(calls: Calls, held: Held | None) -> Steps[None]:
    """Renew a lease at a third of it, as steps, until nobody takes them further or the work takes too long.

    Work that takes longer than ten leases is no longer renewed: a stuck writer must not hold ids for ever.
    """
    if held is None:
        return
    lease_ms, now_ms = held.lease_ms, calls.tries.now_ms
    third_ms, ends_ms = max(1, lease_ms // 3), now_ms() + WRITE_LEASES_MAX * lease_ms
    yield Pause(max(0, held.began_ms + third_ms - now_ms()))
    while now_ms() < ends_ms:
        try:
            yield from held.renew(calls, third_ms)
        except OncegateError as error:
            log.warning("%s could not be renewed: %s", held.what, error)
        yield Pause(third_ms)
    log.warning("write() has taken %d leases; %s is no longer renewed", WRITE_LEASES_MAX, held.what)


class Holder:
    """Renews one claim at a time from a thread of its own, while the work under it goes on."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway.twin()
        self._clock = gateway.clock
        self._thread: threading.Thread | None = None

    def fresh(self, claimed: Claimed | ClaimedSequences) -> bool:
        """There is lease enough left to begin a write."""
        lease_ms = claimed.verdicts.lease_ms
        return self._clock.monotonic_ms() - claimed.began_ms < lease_ms - lease_ms // START_MARGIN

    def renew(self, gateway: "Gateway", claimed: Claimed) -> int:
        """Lease from now on, before the work begins; how many ids another attempt has taken over meanwhile."""
        assert claimed.claim is not None
        renewed = gateway.settle(claimed.claim, "renew")
        claimed.began_ms = renewed.began_ms
        return renewed.taken_over

    def holding(self, claimed: Claimed) -> AbstractContextManager[None]:
        """Renew a claim while the block runs."""
        return self.keeping(held_claim(claimed))

    @contextmanager
    def keeping(self, held: Held | None) -> Iterator[None]:
        """Renew while the block runs."""
        self.close()  # the thread of the block before may still wait for its last answer
        over = threading.Event()
        self._thread = threading.Thread(target=self._renewals, args=(held, over), name="oncegate-renew", daemon=True)
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

    def _renewals(self, held: Held | None, over: threading.Event) -> None:
        steps = renewals(self._gateway.calls, held)
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
