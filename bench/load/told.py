"""What a peer that runs in the load process tells of a run, in the members that the gateway's runs have."""

from collections.abc import Sequence

import numpy as np


def told(latencies_s: Sequence[float], ids: int, seconds: float, wrong: int = 0) -> dict[str, float]:
    """Rate and latencies of requests of `ids` ids each, one after the other or at once, done in `seconds`."""
    p50, p99 = np.percentile(latencies_s, [50, 99]) * 1_000
    answers = len(latencies_s)
    result = {"rate": ids * answers / seconds, "p50_ms": p50, "p99_ms": p99, "answers": answers, "seconds": seconds}
    return {**result, "wrong": wrong, "sent": ids * answers}
