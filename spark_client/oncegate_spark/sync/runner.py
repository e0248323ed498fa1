# Generated from oncegate_spark/aio/runner.py by scripts/unasync.py; do not edit.
"""What an attempt, a producer and a lease need of the gateway they belong to."""

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
    """Takes the steps of calls, over its own connection and clock. `Gateway` is the one there is.

    A protocol, so that whoever needs a gateway does not import the module whose class makes it.
    """

    clock: Clock
    rng: Random
    calls: Calls

    @property
    def renewing(self) -> "Runner":
        """The gateway that renews leases beside this one, over a connection of its own."""

    def produced(self, steps: Steps[Written], rows: Callable[[str], SpillEntry]) -> Written:
        """Take the steps of a produce, or lay its rows down. `rows` makes of the namespace what would be laid down."""

    def run(self, steps: Steps[T]) -> T:
        """Take the steps of a call, one after another, to its end. Raises what the call raises."""

    def step(self, step: Step) -> StepEnd:
        """Wait, or try once; return how it ended."""

    def close(self) -> None:
        """Close the connection."""
