"""Gives both clients one interface, so that one suite tests both. The asyncio client runs on a loop in a thread."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oncegate_spark import AsyncGateway, Gateway
from tests.support.client_clock import AsyncSteppedClock, SteppedClock

Connect = Callable[..., Any]  # url, namespace, and the keywords of Gateway; both have the same


class LoopThread:
    """An event loop in a thread. Tasks that are unfinished when it is closed are an error."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="asyncio client", daemon=True)
        self._thread.start()

    def run(self, awaited: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited, self.loop).result(120)

    def close(self) -> None:
        left = self.run(self._left())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        assert not left, left

    async def _left(self) -> set[Any]:
        return asyncio.all_tasks() - {asyncio.current_task()}


class Awaited:
    """Wraps an asyncio client, attempt or block for callers that do not use asyncio."""

    def __init__(self, inner: Any, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._calling(found) if inspect.ismethod(found) else found

    def __enter__(self) -> Any:
        entered = self._loop.run(self._inner.__aenter__())
        return self if entered is self._inner else entered

    def __exit__(self, *error: Any) -> Any:
        return self._loop.run(self._inner.__aexit__(*error))

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            async def made() -> Any:
                """Runs on the loop, which attempts and blocks may need."""
                answer = method(*arguments, **named)
                return await answer if inspect.iscoroutine(answer) else answer

            answer = self._loop.run(made())
            return Awaited(answer, self._loop) if hasattr(answer, "__aenter__") else answer

        return call


@contextmanager
def connecting(kind: str) -> Iterator[Connect]:
    """Yields a constructor of clients of one kind, sync or async."""
    if kind == "sync":
        yield Gateway
        return
    loop = LoopThread()

    def connect(*arguments: Any, clock: SteppedClock | None = None, **named: Any) -> Awaited:
        stepped = None if clock is None else AsyncSteppedClock(clock)
        return Awaited(AsyncGateway(*arguments, clock=stepped, **named), loop)

    try:
        yield connect
    finally:
        loop.close()


def public(kind: type) -> dict[str, inspect.Signature]:
    found = {name: one for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {name: inspect.signature(one) for name, one in found.items()}
