"""One core for who is measured, another for who asks: what every server and load process of the bench is pinned to."""

import os
from collections.abc import Callable

_CORES = sorted(os.sched_getaffinity(0))
SERVER, LOAD = _CORES[0], _CORES[-1]


def pinned(core: int) -> Callable[[], None]:
    """For `subprocess`: keep the child, with all its threads, on one core."""

    def pin() -> None:
        os.sched_setaffinity(0, {core})

    return pin
