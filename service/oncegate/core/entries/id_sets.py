"""The ledger's entries about whole sets of ids: they are kinds of `entries.Entry`."""

from dataclasses import dataclass
from typing import ClassVar

from oncegate.core.entries.fields import B16, U64, Text


@dataclass(frozen=True, slots=True)
class SetForgotten:
    """Forgets every id of a set: from now on its ids have other fingerprints, so that none of them is known.

    token: of whoever asked, so that a repeat forgets nothing more."""

    KIND: ClassVar[int] = 31
    id_set: Text
    token: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SetWritten:
    """Records which topic elsewhere the rows of a set of ids go to. `topic_id`: the broker's for it, which a topic that
    is deleted and made again does not keep."""

    KIND: ClassVar[int] = 32
    id_set: Text
    topic: Text
    topic_id: B16
    wall_ms: U64
