"""Runs walks by seed, by number or by time, and collects the broken properties."""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from tests.model.kit.replies import Broken


class World(Protocol):
    trace: list[str]

    def run(self) -> None:
        """Runs a walk. Raises Broken."""


class Walked(Protocol):
    """The setup of any walk."""

    @property
    def steps(self) -> int: ...

    def world(self, seed: int) -> World: ...


SEED = int(os.environ.get("ONCEGATE_SEED", "1"))
WALKS = int(os.environ.get("ONCEGATE_WALKS", "200"))


@dataclass
class Outcome:
    """The results. `shortest`: the seed, reason and trace of the shortest walk that broke each property."""

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
    """Runs a walk. Returns True if every property held."""
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
    """Returns the property that the first bad walk breaks; tries `known_seed` before the search."""
    outcome = Outcome()
    for seed in (known_seed, *range(1, walks)):
        if not walk(setup, seed, outcome):
            break
    return set(outcome.broken)


def walk_all(setup: Walked, walks: int) -> Outcome:
    """Runs `walks` walks from the seed ONCEGATE_SEED on."""
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
    """Returns the property that the first bad walk breaks. Raises AssertionError if there is none."""
    outcome = Outcome()
    for seed in range(1, walks_max):
        if not walk(setup, seed, outcome):
            print(outcome.explain())
            return next(iter(outcome.broken))
    raise AssertionError(f"{walks_max} walks saw nothing")
