"""Long walks: `python -m tests.model.batches SECONDS [SEED]`. Exit status 1 if a promise broke that must hold."""

import sys
import time
from collections import Counter

from tests.model.batches.knobs import HOLDING, RISKY, Knobs
from tests.model.batches.world import World, walk


def walk_for(knobs: Knobs, seconds: float, seed: str) -> bool:
    """Walks until the time is up and prints the results. Returns whether only accepted promises broke."""
    end, count = time.monotonic() + seconds, 0
    broke: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    shortest: dict[str, tuple[World, str, str]] = {}
    while time.monotonic() < end:
        count += 1
        walked = f"{seed}/{count}"
        world, broken = walk(knobs, walked)
        stops[str(world.stop)] += 1
        if broken is not None:
            broke[broken.property] += 1
            known = shortest.get(broken.property)
            if known is None or len(world.trace) < len(known[0].trace):
                shortest[broken.property] = (world, walked, str(broken))
    verdict = ", ".join(f"{promise} {times}" for promise, times in broke.items()) or "holds"
    print(f"{knobs.name}: {count} walks, stops {dict(stops)}: {verdict}", flush=True)
    bad = [shortest[promise] for promise in broke if promise not in knobs.accepted]
    for world, walked, why in bad:
        print(f"seed {walked}: {why}\n{world.story()}")
    return not bad


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = sys.argv[2] if len(sys.argv) > 2 else "3"
    every = HOLDING + RISKY
    held = [walk_for(knobs, seconds / len(every), seed) for knobs in every]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
