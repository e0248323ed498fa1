"""The cores to which the bench pins its processes: one for the measured server, one for the load."""

import os
from collections.abc import Callable

_CORES = sorted(os.sched_getaffinity(0))
SERVER, LOAD = _CORES[0], _CORES[-1]


def pinned(core: int) -> Callable[[], None]:
    """Returns a `preexec_fn` that pins a child process with all its threads to one core."""

    def pin() -> None:
        os.sched_setaffinity(0, {core})

    return pin
