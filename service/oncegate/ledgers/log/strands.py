"""Threads that the ledgers of one data folder share: what one ledger writes is done in order, one piece at a time."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

# Appends that wait for the disk at once: it groups the syncs of so many, and more gain nothing.
WRITING_THREADS = 16
# Ledgers that are read at once at a start: each is at the processor, or waits for the disk.
READING_THREADS = 16
T = TypeVar("T")


class Strand(Executor):
    """Runs what it is given in the order of `submit`, one after the other, in whatever thread of a pool is free.

    A strand itself costs no thread, so that there may be a thousand.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self._due = self._busy = False
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> "Future[T]":
        """Queues a call behind those before it. RuntimeError: no thread can be had; the call is not made."""
        future: Future[T] = Future()
        with self._lock:
            if not self._due:
                self._pool.submit(self._run)
                self._due = True
            self._waiting.append((future, work, arguments, named))
        return future

    def _run(self) -> None:
        """Makes one call; the next has its turn behind those of other strands."""
        with self._lock:
            # A pool that says it has no thread may have queued this turn all the same.
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
                with contextlib.suppress(RuntimeError):  # queued: this very thread is free next
                    self._pool.submit(self._run)


def writing_threads() -> ThreadPoolExecutor:
    """Makes the pool in which all ledgers of a data folder write."""
    return ThreadPoolExecutor(WRITING_THREADS, thread_name_prefix="ledger")


def reading_threads() -> ThreadPoolExecutor:
    """Makes the pool in which all ledgers of a data folder are read, which waits for none of the others."""
    return ThreadPoolExecutor(READING_THREADS, thread_name_prefix="reading")
