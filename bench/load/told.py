"""Formats the result of a peer that runs in the load process like the gateway's results."""

from collections.abc import Sequence

import numpy as np


def told(latencies_s: Sequence[float], ids: int, seconds: float, wrong: int = 0) -> dict[str, float]:
    """Returns rate and latencies of requests of `ids` ids each, sequential or concurrent, that took `seconds`."""
    p50, p99 = np.percentile(latencies_s, [50, 99]) * 1_000
    answers = len(latencies_s)
    result = {"rate": ids * answers / seconds, "p50_ms": p50, "p99_ms": p99, "answers": answers, "seconds": seconds}
    return {**result, "wrong": wrong, "sent": ids * answers}
