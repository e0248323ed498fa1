"""Follows a ledger that another gateway owns, and takes it over.

1. The existing frames are applied to the replay state, and yielded: the snapshot, then the entries after it.
2. New frames are applied and yielded at each look, until this gateway is to own the ledger.
3. The ledger is opened as always, with that replay state, and its last entries are yielded.

Nothing is fenced before 3, and nothing read before 3 is judged: if it is wrong, the ledger is read again from the
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
    """Reads a ledger that another gateway owns. All raise LedgerDamaged, LedgerDown, and `unreadable` of `Followable`.

    What is read is folded into the one fold of `Followable`; `fetch`, of `ports.Outputs`, reads as far as that.
    """

    def more(self) -> AsyncGenerator[Batch, None]:
        """Folds what was appended since the last time, or all; yields its entries, to be closed with `aclose`."""

    def replayed(self) -> AsyncGenerator[Batch, None]:
        """Yields all entries that were folded, the snapshot in place of compacted ones; makes the catalog before."""

    def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Yields the entries of frames from one serial to another, which the taking over has folded."""

    async def close(self) -> None:
        """Lets go of the connections that only following needs; it may be called again."""


@dataclass(frozen=True)
class Followable(Generic[F]):
    """Says what is followed. `where`: what the ledger lies in, for messages; `fold`: what `shard` has read of it.

    `unreadable`: what else `shard` raises where it cannot read on. `take_over`: owns the ledger, given what was folded;
    whose fold it has then.
    """

    where: str
    fold: F
    shard: FollowedShard
    unreadable: tuple[type[Exception], ...]
    take_over: Callable[[F | None], Awaitable[tuple[OpenLedger, F]]]


class Following(Generic[F]):
    """Follows one ledger for as long as `election` says that it is another gateway's."""

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
        """Returns the ledger after `batches` has ended; RuntimeError before."""
        if self._opened is None:
            raise RuntimeError(f"{self._one.where} is followed, and not owned")
        return self._opened

    def compacted(self) -> int:
        """Returns the position up to which entries were compacted; 0: none were."""
        return self._fold.compacted.position if self._fold.compacted else 0

    def standing(self) -> str:
        """Says whom it stands by for, and how far it has read; empty once this gateway is to own the ledger."""
        if self._election.leads:
            return ""
        generation, position, who = self._fold.generation, self._fold.end.position, self._election.described()
        return f"{who}; {self._one.where} was read to position {position}, of generation {generation}"

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields all entries as `Ledger.replay` does, then those that come; ends once `opened` is this gateway's own.

        Raises what an opening does, then by this gateway's own doing; LedgerDown: it is to be followed anew.
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
                pass  # the snapshot comes first, and only now is it known
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
        # The last one is this gateway's own entry of ownership.
        if found.end.serial > serial + 1:
            async with aclosing(self._last(serial + 1, found.end.serial)) as batches:
                async for batch in batches:
                    yield batch
        self._opened = opened

    async def _last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Yields the entries of the frames between the last look and the opening."""
        try:
            async with aclosing(self._one.shard.last(serial, last_serial)) as batches:
                async for batch in batches:
                    yield batch
        except self._unreadable as error:
            raise LedgerDown(f"{self._one.where} cannot be read on from here ({error}); it is read anew") from error
