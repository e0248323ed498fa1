"""Defines how a ledger is read on while another process owns it, until this one takes it over."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from oncegate.ports.ledger import OpenLedger, Replayed
from oncegate.ports.outputs import Outputs


@dataclass(frozen=True)
class Followed:
    """Carries a ledger that is read from its beginning until this process owns it.

    key: the namespace's 32 secret bytes. ledger: its id.
    outputs: reads the rows beside the entries; None: the ledger holds none.
    batches: all its entries as `Ledger.replay(1)` gives them, then those that its owner appends, as they come. It ends
        once this process owns the ledger, with all that was appended before, and raises what an opening does;
        LedgerDown: it is to be followed anew, from the beginning.
    opened: returns the ledger once `batches` has ended.
    compacted: returns the position up to which entries were compacted so far; 0 for none.
    standing: says for whom this process stands by, and how far it has read; empty: it owns the ledger, or is
        to take it over.
    predecessors: as in `History`.
    """

    key: bytes
    ledger: bytes
    outputs: Outputs | None
    batches: AsyncGenerator[Sequence[Replayed], None]
    opened: Callable[[], OpenLedger]
    compacted: Callable[[], int]
    standing: Callable[[], str]
    predecessors: tuple[bytes, ...] = ()

    @staticmethod
    def owned(opened: OpenLedger) -> "Followed":
        """Returns the same of a ledger that this process owns already: it only is to be read."""
        ledger = opened.ledger
        return Followed(
            opened.key,
            ledger.mark.ledger,
            opened.outputs,
            ledger.replay(1),
            lambda: opened,
            lambda: opened.history.compacted,
            lambda: "",
            opened.history.predecessors,
        )


@runtime_checkable
class Standbys(Protocol):
    """Lets a process stand by for ledgers that another one owns. What some `Ledgers` are, too."""

    def follow(self, namespace: str) -> AbstractAsyncContextManager[Followed]:
        """Reads on in a ledger without fencing its owner, and owns it once that one is gone; closed in the end.

        NotFound, KeyMismatch: nothing was touched; LedgerDown: not now.
        """
