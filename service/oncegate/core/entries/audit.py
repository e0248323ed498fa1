"""The ledger's entry about what an operator did: it is a kind of `entries.Entry`."""

from dataclasses import dataclass
from typing import ClassVar

from oncegate.core.entries.fields import U64, Text


@dataclass(frozen=True, slots=True)
class Audited:
    """Records an operator's action, in one append with the entries that it made, which stand before it.

    action: the name of the verb. subject: what it was done to; empty: the whole namespace. changed: how much that was.
    who, why: as the caller's credential, and the caller, said it.
    """

    KIND: ClassVar[int] = 28
    action: Text
    subject: Text
    changed: U64
    who: Text
    why: Text
    wall_ms: U64
