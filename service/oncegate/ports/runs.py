"""Defines the folder where a shard keeps sorted runs of ids: its own, on the local machine, beside any ledger."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from oncegate.ports.ledger import OpenLedger


class Runs(Protocol):
    """Keeps files of sorted ids. Nothing here is truth: any of it may be gone or damaged, and is made again.

    All methods block, and may be called from any thread. They raise LedgerFenced once the shard's ledger has a newer
    owner or was closed.
    """

    def names(self) -> list[str]:
        """Returns the names of the files that are there, whole, sorted."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Makes the pieces, one after the other, the bytes of `name`, durably: whole, or it is as it was before.

        An error that `pieces` raises is passed on; then nothing was written.

        Raises:
            ValueError: `name` is not 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit, or ends
                with '.tmp'.
            LedgerFull: there is no room; nothing was written.
            OSError: whether `name` holds the pieces now or what it held before is unknown.
        """

    def open(self, name: str) -> memoryview:
        """Returns the bytes of `name`, read-only and not verified. KeyError: there is no such file.

        They stay what they are whatever becomes of the name.
        """

    def remove(self, name: str) -> None:
        """Removes the run `name`; no effect when it is not there. OSError: unknown whether it still is."""


class RunFolders(Protocol):
    """Gives each shard its folder of runs."""

    def open(self, namespace: str, opened: OpenLedger) -> AbstractAsyncContextManager[Runs]:
        """Opens the namespace's folder for as long as `opened` is owned; to be closed before the ledger is.

        What an earlier process cut short is removed first. Nothing is changed once the context has ended, whatever
        other threads are at. LedgerDown, LedgerFenced: it cannot be opened.
        """
