"""Raises an error in the background work of a shard: at one wait, or in one function that it calls."""

import sys
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType, coroutine
from typing import Any

import pytest

import oncegate.engine
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.gateway import Gateway
from oncegate.engine.maintenance.eviction import Eviction
from oncegate.engine.maintenance.snapshotter import Snapshotter

ENGINE = str(Path(oncegate.engine.__file__).parent)
# The coroutine of each background task.
WORK: dict[str, tuple[type, str]] = {
    "group commit": (GroupCommit, "run"),
    "snapshot": (Snapshotter, "_replace"),
    "eviction": (Eviction, "_work"),
    "upkeep": (Gateway, "_keep_up"),
}


@dataclass
class Saboteur:
    """Raises `error` once: instead of the wait with this number, or in the first call of a function of the engine.

    `waits` and `called` list the possible places.
    """

    error: Exception
    wait: int | None = None
    function: CodeType | None = None
    raised: bool = False
    waits: int = 0
    called: dict[CodeType, None] = field(default_factory=dict)
    _own: CodeType | None = None

    def watch(self, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
        """Inserts itself between the loop and one background task."""
        kind, name = WORK[work]
        given = getattr(kind, name)

        @wraps(given)
        async def driven(*args: Any) -> Any:
            return await self._drive(given(*args))

        monkeypatch.setattr(kind, name, driven)

    @coroutine
    def _drive(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        self._own = work.cr_code  # type: ignore[attr-defined]
        error: BaseException | None = None
        while True:
            try:
                waited = self._step(work, error)
            except StopIteration as end:
                return end.value
            error = None
            self.waits += 1
            if self.waits == self.wait:
                error = self._raised()
                continue
            try:
                yield waited
            except BaseException as thrown:
                error = thrown

    def _step(self, work: Coroutine[Any, Any, Any], error: BaseException | None) -> Any:
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            return work.send(None) if error is None else work.throw(error)
        finally:
            sys.setprofile(before)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code is self._own or not code.co_filename.startswith(ENGINE):
            return
        self.called[code] = None
        if code is self.function and not self.raised:
            raise self._raised()

    def _raised(self) -> Exception:
        self.raised = True
        return self.error
