"""Thread pools shared by the ledgers of one data folder; each ledger's calls run in order, one at a time."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

# Concurrent appends: the disk groups up to this many syncs, and more gain nothing.
WRITING_THREADS = 16
# Ledgers replayed concurrently at startup; each is either CPU-bound or waits for the disk.
READING_THREADS = 16
T = TypeVar("T")


class Strand(Executor):
    """An executor that runs its calls one at a time, in the order of `submit`, on any free thread of a pool.

    A strand has no thread of its own, so there can be a thousand.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self._due = self._busy = False
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> "Future[T]":
        """Queues a call. Raises RuntimeError when the pool cannot start a thread; the call will not run."""
        future: Future[T] = Future()
        with self._lock:
            if not self._due:
                self._pool.submit(self._run)
                self._due = True
            self._waiting.append((future, work, arguments, named))
        return future

    def _run(self) -> None:
        """Runs one call, then requeues the strand after those already waiting for a thread."""
        with self._lock:
            # A pool that raised RuntimeError for lack of threads may have queued this run anyway.
            if self._busy or not self._waiting:
                return
            self._busy = True
            future, work, arguments, named = self._waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                result = work(*arguments, **named)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        with self._lock:
            self._busy, self._due = False, bool(self._waiting)
            if self._due:
                with contextlib.suppress(RuntimeError):  # it was queued anyway, and this thread is free next
                    self._pool.submit(self._run)


def writing_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WRITING_THREADS, thread_name_prefix="ledger")


def reading_threads() -> ThreadPoolExecutor:
    """Returns the thread pool for replays, which is separate so that reads never wait for writes."""
    return ThreadPoolExecutor(READING_THREADS, thread_name_prefix="reading")
