"""Renews a lease from a thread while the work under it runs."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial

from oncegate_spark.protocol.answers import Claimed, ClaimedSequences
from oncegate_spark.protocol.calls.lease import ClaimLease, claim_lease, renewals
from oncegate_spark.protocol.calls.steps import Pause, StepEnd
from oncegate_spark.sync.runner import Runner

START_MARGIN = 2  # a write starts only while at least 1/START_MARGIN of the lease is left


class Holder:
    """Renews one claim at a time, from a thread of its own."""

    def __init__(self, gateway: Runner) -> None:
        self._gateway = gateway.renewing
        self._clock = gateway.clock
        self._thread: threading.Thread | None = None

    def fresh(self, claimed: Claimed | ClaimedSequences) -> bool:
        """True while at least half of the lease is left, enough to start a write."""
        lease_ms = claimed.verdicts.lease_ms
        return self._clock.monotonic_ms() - claimed.began_ms < lease_ms - lease_ms // START_MARGIN

    def renew(self, gateway: Runner, claimed: Claimed) -> int:
        """Renews the lease before the work starts; returns the number of ids that another attempt has taken over."""
        assert claimed.claim is not None
        renewed = gateway.run(gateway.calls.settle(claimed.claim, "renew"))
        claimed.began_ms = renewed.began_ms
        return renewed.taken_over

    def holding(self, claimed: Claimed) -> AbstractContextManager[None]:
        return self.renewal(claim_lease(claimed))

    @contextmanager
    def renewal(self, lease: ClaimLease | None) -> Iterator[None]:
        """Renews a lease while the block runs; does nothing for None."""
        self.close()  # the previous block's thread may still wait for its last reply
        over = threading.Event()
        # In this thread's context, so that renewals join the trace of the work.
        work = partial(copy_context().run, self._renewals, lease, over)
        self._thread = threading.Thread(target=work, name="oncegate-renew", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            over.set()

    def close(self) -> None:
        """Waits for the last renewal, which takes at most a third of its lease."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _renewals(self, lease: ClaimLease | None, over: threading.Event) -> None:
        steps = renewals(self._gateway.calls, lease)
        end: StepEnd = None
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


@contextmanager
def renewal(gateway: Runner, lease: ClaimLease | None) -> Iterator[None]:
    """Renews a lease from a thread while the block runs, and waits for that thread at the end."""
    holder = Holder(gateway)
    try:
        with holder.renewal(lease):
            yield
    finally:
        holder.close()
