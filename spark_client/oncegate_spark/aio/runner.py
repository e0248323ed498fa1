"""What an attempt, a producer and a lease need of the gateway they belong to."""

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
    """Takes the steps of calls, over its own connections and clock. `AsyncGateway` is the one there is.

    A protocol, so that whoever needs a gateway does not import the module whose class makes it.
    """

    clock: AsyncClock
    rng: Random
    calls: Calls

    @property
    def renewing(self) -> "AsyncRunner":
        """The gateway that renews leases beside this one, over connections of its own."""

    async def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Take the steps of a produce, or lay its rows down. `rows` makes of the namespace what would be laid down."""

    async def run(self, steps: Steps[T]) -> T:
        """Take the steps of a call, one after another, to its end. Raises what the call raises."""

    async def step(self, step: Step) -> StepEnd:
        """Wait, or try once; return how it ended."""

    async def close(self) -> None:
        """Close the connections."""
