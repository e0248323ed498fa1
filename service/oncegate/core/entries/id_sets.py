"""The ledger's entries about whole sets of ids, and about topics elsewhere: they are kinds of `entries.Entry`."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from oncegate.core.entries.fields import B16, U64, Tag, Text


class IdentifiedBy(IntEnum):
    """Names the ways to identify rows: ids of a set, sequences of a registered producer, batches of an app,
    sequences of a lane."""

    IDS = 0
    SEQUENCES = 1
    BATCHES = 2
    LANE = 3


IdentifiedByNumber = Annotated[int, "u8", Tag(1)]


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
    is deleted and created again does not keep.

    identified_by: where it is not IDS, `id_set` is the name of the producer or the app."""

    KIND: ClassVar[int] = 32
    id_set: Text
    topic: Text
    topic_id: B16
    wall_ms: U64
    identified_by: IdentifiedByNumber = IdentifiedBy.IDS
