"""A group commit that a walk controls, and calls driven by hand: the walk decides when changes become durable."""

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from oncegate.core.errors import OncegateError
from oncegate.ports import OutputChange


@types.coroutine
def _until(position: int) -> Generator[int, None, None]:
    yield position


@dataclass
class Change:
    """The changes of one decision, as in the real group commit."""

    entries: list[bytes]
    outputs: list[OutputChange]
    undo: Callable[[], None]
    settle: Callable[[], None]


class ManualGroupCommit:
    """Replaces the group commit: submitted changes become durable only when the walk decides so."""

    def __init__(self, durable_position: int) -> None:
        self.durable_position = durable_position
        self.next_position = durable_position + 1
        self.pending: list[Change] = []

    open = True
    # The ledger is owned by a lock: ownership needs no proof by an append.
    fenced_by_appends = False
    next_append = 0
    # No change of a walk is undone with a change of another request.
    undone = 0

    async def owned(self, since: int) -> None:
        """Owned for the life of the process."""

    def check(self, *, ends: bool = False) -> None:
        """Always open: a full ledger has its own tests."""

    def submit(
        self,
        entries: Sequence[bytes],
        outputs: Sequence[OutputChange],
        undo: Callable[[], None],
        settle: Callable[[], None],
    ) -> int:
        self.pending.append(Change(list(entries), list(outputs), undo, settle))
        self.next_position += len(entries)
        return self.next_position - 1

    def take_back(self) -> None:
        """Undoes the pending changes, newest first: the ledger wrote nothing and reported that."""
        for change in reversed(self.pending):
            change.undo()
        self.pending = []
        self.next_position = self.durable_position + 1

    async def durable(self, position: int) -> None:
        if position > self.durable_position:
            await _until(position)

    async def all_durable(self) -> None:
        await self.durable(self.next_position - 1)


class Call:
    """A request under way. `reply` is None until it is answered, and stays None if the process dies first."""

    def __init__(self, steps: Coroutine[Any, Any, Any]) -> None:
        self._steps = steps
        self.ended = False
        self.reply: object | None = None
        self.rests_on = 0
        self._step(lambda: steps.send(None))

    def _step(self, step: Callable[[], int]) -> None:
        try:
            self.rests_on = step()
        except StopIteration as said:
            self.reply, self.ended = said.value, True
        except OncegateError as refused:
            self.reply, self.ended = refused, True

    def go_on(self) -> None:
        self._step(lambda: self._steps.send(None))

    def fail(self, error: OncegateError) -> None:
        self._step(lambda: self._steps.throw(error))

    def die(self) -> None:
        self._steps.close()
        self.ended = True
