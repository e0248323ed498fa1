"""Walks by their seeds, so many or so long, and what they broke."""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from tests.model.kit.replies import Broken


class World(Protocol):
    trace: list[str]

    def run(self) -> None:
        """One walk; raises Broken."""


class Walked(Protocol):
    """A setup, of either walk."""

    @property
    def steps(self) -> int: ...

    def world(self, seed: int) -> World: ...


SEED = int(os.environ.get("ONCEGATE_SEED", "1"))
WALKS = int(os.environ.get("ONCEGATE_WALKS", "200"))


@dataclass
class Outcome:
    """`shortest`: per broken property the seed, reason and trace of its shortest walk."""

    walks: int = 0
    steps: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    shortest: dict[str, tuple[int, str, list[str]]] = field(default_factory=dict)

    def __str__(self) -> str:
        told = ", ".join(f"{name} broken in {count}" for name, count in sorted(self.broken.items()))
        return f"{self.walks} walks, {self.steps} steps: {told or 'every property holds'}"

    def explain(self) -> str:
        return "\n".join(
            f"{name} (seed {seed}): {why}\n    " + "\n    ".join(trace)
            for name, (seed, why, trace) in sorted(self.shortest.items())
        )


def walk(setup: Walked, seed: int, outcome: Outcome) -> bool:
    """One walk; True when every property held."""
    world = setup.world(seed)
    outcome.walks += 1
    outcome.steps += setup.steps
    try:
        world.run()
    except Broken as broken:
        name = broken.property
        outcome.broken[name] += 1
        if name not in outcome.shortest or len(world.trace) < len(outcome.shortest[name][2]):
            outcome.shortest[name] = (seed, str(broken), world.trace)
        return False
    return True


def first_broken(setup: Walked, walks: int, known_seed: int = 1) -> set[str]:
    """The property that the first bad walk breaks; the walk of `known_seed` comes before the search."""
    outcome = Outcome()
    for seed in (known_seed, *range(1, walks)):
        if not walk(setup, seed, outcome):
            break
    return set(outcome.broken)


def walk_all(setup: Walked, walks: int) -> Outcome:
    """So many walks, from the seed that ONCEGATE_SEED gives."""
    print(f"ONCEGATE_SEED={SEED}")
    outcome = Outcome()
    for seed in range(SEED, SEED + walks):
        walk(setup, seed, outcome)
    return outcome


def walk_for(setup: Walked, seconds: float, first_seed: int) -> Outcome:
    outcome, end, seed = Outcome(), time.monotonic() + seconds, first_seed
    while time.monotonic() < end:
        walk(setup, seed, outcome)
        seed += 1
    return outcome


def breaks(setup: Walked, walks_max: int = 400) -> str:
    """The property that the first bad walk breaks; AssertionError where none of so many does."""
    outcome = Outcome()
    for seed in range(1, walks_max):
        if not walk(setup, seed, outcome):
            print(outcome.explain())
            return next(iter(outcome.broken))
    raise AssertionError(f"{walks_max} walks saw nothing")
