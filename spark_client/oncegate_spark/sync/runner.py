# Generated from oncegate_spark/aio/runner.py by scripts/unasync.py; do not edit.
"""Interface of a gateway for attempts, producers and leases."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from oncegate_spark.protocol.answers import Written
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Step, StepEnd, Steps
from oncegate_spark.spill import SpillEntry
from oncegate_spark.sync.clock import Clock

T = TypeVar("T")


class Runner(Protocol):
    """Executes the steps of calls, over its own connection and clock; implemented by `Gateway`.

    A protocol avoids an import cycle: `Gateway` constructs the classes that use it.
    """

    clock: Clock
    rng: Random
    calls: Calls

    @property
    def renewing(self) -> "Runner":
        """The gateway that renews leases, over a connection of its own."""

    def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Produces rows, or spills them; `rows` returns the entry to spill, given the namespace."""

    def run(self, steps: Steps[T]) -> T:
        """Executes the steps of a call and returns its result. Raises what the call raises."""

    def step(self, step: Step) -> StepEnd:
        """Executes one step: a pause or a request."""

    def close(self) -> None:
        """Closes the connection."""
