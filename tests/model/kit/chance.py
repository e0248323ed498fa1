"""Shared by all walks over ids: ids that collide, leases, and a random source without faults."""

import random

import numpy as np

LEASES_MS = (1_000, 1_500, 2_500)


IDS = (0, 1)


class Steady(random.Random):
    """A random source for an attempt without faults: nothing fails, and no call is given up."""

    def random(self) -> float:
        return 0.5


def fingerprints(rng: random.Random) -> np.ndarray:
    """Returns ids that collide in the table in every way short of being equal: by position or by tag. The lowest bits
    of all tags are equal, so that the ids share a segment."""
    tag, place = rng.getrandbits(64), rng.getrandbits(32)
    others = [rng.getrandbits(64) & ~0xFF | tag & 0xFF for _ in range(2)]
    near = [(tag, place), (others[0], place), (tag, place + (1 << 12)), (others[1], place + 1)]
    rng.shuffle(near)
    far = [(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(60)]
    return np.array(near + far, np.uint64)
