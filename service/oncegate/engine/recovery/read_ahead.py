"""Reading ahead: a start reads and checks entries on one processor while it folds them on another."""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Queue
from typing import TypeVar

T = TypeVar("T")
# Handed over at once, so that handing over costs nothing beside reading; and how many such are read ahead at most.
BATCH_BYTES = 4 << 20
BATCHES_AHEAD = 4


def read_ahead(items: Iterable[T], size_bytes: Callable[[T], int]) -> Iterator[T]:
    """The same items in the same order, taken from `items` by a thread of its own; what that raises is raised here,
    after the items before it. The thread has ended when this has: at the end, by an error, or closed before."""
    batches: Queue[list[T] | BaseException | None] = Queue(BATCHES_AHEAD)
    left = threading.Event()

    def read() -> None:
        try:
            for batch in _batches(items, size_bytes):
                batches.put(batch)
                if left.is_set():
                    return
            batches.put(None)
        except BaseException as error:
            batches.put(error)

    thread = threading.Thread(target=read, name="reading ahead", daemon=True)
    thread.start()
    try:
        while (batch := batches.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            yield from batch
    finally:
        left.set()
        _drain(batches)
        thread.join()


def _batches(items: Iterable[T], size_bytes: Callable[[T], int]) -> Iterator[list[T]]:
    """Lists of some megabytes; what came before an error comes before it."""
    batch: list[T] = []
    held = 0
    try:
        for item in items:
            batch.append(item)
            held += size_bytes(item)
            if held >= BATCH_BYTES:
                yield batch
                batch, held = [], 0
    except Exception:
        yield batch
        raise
    yield batch


def _drain(batches: "Queue[list[T] | BaseException | None]") -> None:
    """Room for what the thread still waits to put, which is one batch and its end at most."""
    try:
        while True:
            batches.get_nowait()
    except Empty:
        return
