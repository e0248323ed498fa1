"""Defines a shard's folder of sorted runs of ids, on the local machine, for any kind of ledger."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from oncegate.ports.ledger import OpenLedger


class Runs(Protocol):
    """Files of sorted ids. They are a cache: any of them may be missing or damaged, and is then made again.

    All methods block, and may be called from any thread. They raise LedgerFenced once the shard's ledger has a newer
    owner or was closed.
    """

    def names(self) -> list[str]:
        """Returns the names of all complete files, sorted."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes the concatenated pieces as `name`, durably and atomically.

        An error that `pieces` raises is passed on; then nothing was written.

        Raises:
            ValueError: `name` is not 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit, or ends
                with '.tmp'.
            LedgerFull: there is no room; nothing was written.
            OSError: unknown whether `name` has its new or its old content.
        """

    def open(self, name: str) -> memoryview:
        """Returns the bytes of the run `name`, read-only and not verified. Raises KeyError if there is no such file.

        They do not change, even if the name is removed or rewritten.
        """

    def remove(self, name: str) -> None:
        """Removes the run `name`; no effect if it does not exist. Raises OSError: unknown whether it was removed."""


class RunFolders(Protocol):
    """Opens each shard's folder of runs."""

    def open(self, namespace: str, opened: OpenLedger) -> AbstractAsyncContextManager[Runs]:
        """Opens the namespace's folder of runs while `opened` is owned; the folder must be closed before the ledger.

        Removes incomplete files of an earlier process first. After the context has ended nothing is changed, even by
        other threads. Raises LedgerDown or LedgerFenced if it cannot be opened.
        """
