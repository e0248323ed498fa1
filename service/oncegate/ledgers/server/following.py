"""Tails a ledger that another gateway owns, and takes it over.

1. The existing frames are applied to the replay state, and yielded: the snapshot, then the entries after it.
2. New frames are applied and yielded at each poll, until this gateway is the leader.
3. The ledger is opened as usual, with that replay state, and its last entries are yielded.

Nothing is fenced or verified before step 3. If the replay state proves wrong there, the ledger is read again from the
beginning into a new index.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.server.election import LOOK_S, Election
from oncegate.ports import Followed, OpenLedger, Outputs, Replayed

Batch = Sequence[Replayed]
F = TypeVar("F", bound=Fold)


class FollowedShard(Outputs, Protocol):
    """A reader of a ledger that another gateway owns; applies frames to the `fold` of its `Followable`.

    All methods raise LedgerDamaged, LedgerDown, and the errors in `Followable.unreadable`. `fetch`, of `ports.Outputs`,
    returns rows up to the position read so far.
    """

    def more(self) -> AsyncGenerator[Batch, None]:
        """Applies the frames appended since the last call, and yields their entries. Close it with `aclose`."""

    def replayed(self) -> AsyncGenerator[Batch, None]:
        """Builds the catalog, then yields all entries applied so far, with the snapshot for compacted ones."""

    def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Yields the entries of the frames from `serial` to `last_serial`, which `take_over` has applied."""

    async def close(self) -> None:
        """Closes the connections used for tailing. Idempotent."""


@dataclass(frozen=True)
class Followable(Generic[F]):
    """A ledger to tail. `where`: its topic or key, for messages; `fold`: the replay state that `shard` maintains.

    `unreadable`: the server's errors that `shard` raises. `take_over`: opens and owns the ledger; takes the replay
    state so far or None, and returns the ledger and its replay state.
    """

    where: str
    fold: F
    shard: FollowedShard
    unreadable: tuple[type[Exception], ...]
    take_over: Callable[[F | None], Awaitable[tuple[OpenLedger, F]]]


class Following(Generic[F]):
    """Tails one ledger until `election` makes this gateway the leader, then takes it over."""

    def __init__(self, one: Followable[F], election: Election) -> None:
        self._one = one
        self._election = election
        self._fold = one.fold
        self._unreadable: tuple[type[Exception], ...] = (LedgerDamaged, *one.unreadable)
        self._opened: OpenLedger | None = None

    def followed(self, key: bytes, ledger: bytes) -> Followed:
        found = self._one.shard
        return Followed(key, ledger, found, self.batches(), self.opened, self.compacted, self.standing)

    def opened(self) -> OpenLedger:
        """Returns the open ledger, once `batches` has ended. Raises RuntimeError before that."""
        if self._opened is None:
            raise RuntimeError(f"{self._one.where} is followed, and not owned")
        return self._opened

    def compacted(self) -> int:
        """Returns the position up to which entries were compacted, or 0 if none were."""
        return self._fold.compacted.position if self._fold.compacted else 0

    def standing(self) -> str:
        """Describes the current leader and the position read so far; empty if this gateway is the leader."""
        if self._election.leads:
            return ""
        generation, position, who = self._fold.generation, self._fold.end.position, self._election.described()
        return f"{who}; {self._one.where} was read to position {position}, of generation {generation}"

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields all entries as `Ledger.replay` does, then new ones; ends once this gateway owns the ledger.

        Raises the errors of opening the ledger; LedgerDown: follow it again from the beginning.
        """
        try:
            async with aclosing(self._followed()) as batches:
                async for batch in batches:
                    yield batch
        except self._unreadable as error:
            raise LedgerDown(
                f"{self._one.where} cannot be followed from here ({error}); it is followed anew"
            ) from error
        async with aclosing(self._taken_over()) as batches:
            async for batch in batches:
                yield batch

    async def _followed(self) -> AsyncGenerator[Batch, None]:
        shard = self._one.shard
        async with aclosing(shard.more()) as batches:
            async for _ in batches:
                pass  # the snapshot is yielded first, and is known only once all is read
        async with aclosing(shard.replayed()) as batches:
            async for batch in batches:
                yield batch
        while not await self._election.wait_for(LOOK_S):
            async with aclosing(shard.more()) as batches:
                async for batch in batches:
                    yield batch

    async def _taken_over(self) -> AsyncGenerator[Batch, None]:
        fold, serial = self._fold, self._fold.end.serial
        await self._one.shard.close()
        opened, found = await self._one.take_over(fold if serial else None)
        if serial and found is not fold:
            raise LedgerDown(f"{self._one.where} is not what was followed; it is read anew")
        self._fold = found
        # The last frame is this gateway's own entry of ownership.
        if found.end.serial > serial + 1:
            async with aclosing(self._last(serial + 1, found.end.serial)) as batches:
                async for batch in batches:
                    yield batch
        self._opened = opened

    async def _last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Yields the entries of the frames between the last poll and the opening."""
        try:
            async with aclosing(self._one.shard.last(serial, last_serial)) as batches:
                async for batch in batches:
                    yield batch
        except self._unreadable as error:
            raise LedgerDown(f"{self._one.where} cannot be read on from here ({error}); it is read anew") from error
