"""Interface of a gateway for attempts, producers and leases."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from oncegate_spark.aio.clock import AsyncClock
from oncegate_spark.protocol.answers import Written
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Step, StepEnd, Steps
from oncegate_spark.spill import SpillEntry

T = TypeVar("T")


class AsyncRunner(Protocol):
    """Executes the steps of calls, over its own connections and clock; implemented by `AsyncGateway`.

    A protocol avoids an import cycle: `AsyncGateway` constructs the classes that use it.
    """

    clock: AsyncClock
    rng: Random
    calls: Calls

    @property
    def renewing(self) -> "AsyncRunner":
        """The gateway that renews leases, over connections of its own."""

    async def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Produces rows, or spills them; `rows` returns the entry to spill, given the namespace."""

    async def run(self, steps: Steps[T]) -> T:
        """Executes the steps of a call and returns its result. Raises what the call raises."""

    async def step(self, step: Step) -> StepEnd:
        """Executes one step: a pause or a request."""

    async def close(self) -> None:
        """Closes the connections."""
