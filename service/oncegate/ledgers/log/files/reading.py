"""Ranges of output files, read and verified by several threads: at a start nothing else is to do, and hashing a range
lets the other threads run."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from oncegate.ledgers.log.disk import Disk
from oncegate.ledgers.log.files.frame_body import Location
from oncegate.ledgers.log.files.outputs import require_range

THREADS = 2


def verified(disk: Disk, folder: Path, places: Iterable[Location]) -> Iterator[bytes]:
    """The bytes of each range, in this order; one more than there are threads is held besides the one that is given.

    LedgerDamaged for the first that is damaged, after those before it. All threads have ended when this has.
    """
    with ThreadPoolExecutor(THREADS, "verifying") as threads:
        waiting: deque[Future[bytes]] = deque()
        for place in places:
            waiting.append(threads.submit(require_range, disk, folder, place))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
