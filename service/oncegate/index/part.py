"""Defines a part of what a shard knows: how entries change it, and how a snapshot holds it.

A snapshot is named pieces of bytes. Each part's codec is beside the part; `index.snapshot` makes entries of the pieces.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from oncegate.core.entries.kinds import Entry

Undo = Callable[[], None]
# Name and bytes. The name is the kind, or kind/number where there may be several.
Piece = tuple[str, bytes]
# Pieces in steps of a few milliseconds, between which anything may change. To be gone through, or closed.
Steps = Generator[list[Piece], None, None]
_encode = msgspec.msgpack.Encoder().encode


class Reader(Protocol):
    """Restores an empty part from its pieces, in their order. Raises ValueError: they do not belong together."""

    def take(self, what: str, data: bytes) -> None:
        """Takes the next piece in."""

    def finish(self) -> None:
        """Ends the restore, after the parts before this one in the index's list."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Describes one part of a shard's index, by functions over its state.

    kinds: of its pieces. snapshot: begins a snapshot of this moment. restore: begins to read one.
    apply: takes one entry in by position, entry and the monotonic time in ms; returns the undo, or None when the entry
    is not about this part; undos are called newest first. None: another part applies its entries.
    count: how much there is, by kind, of what a deletion of the namespace would forget.
    """

    kinds: tuple[str, ...]
    snapshot: Callable[[], Steps]
    restore: Callable[[], Reader]
    apply: Callable[[int, Entry, int], Undo | None] | None = None
    count: Callable[[], Mapping[str, int]] = dict


class _WholeReader:
    """Restores a part that is one piece, with `absent` in place of a piece that an older snapshot does not have."""

    def __init__(self, value_type: Any, load: Callable[[Any], object], absent: Callable[[], object]) -> None:
        self._type = value_type
        self._finish = absent
        self._load = load

    def take(self, _what: str, data: bytes) -> None:
        """Decodes the piece, which is restored at the end."""
        saved = msgspec.msgpack.decode(data, type=self._type)
        self._finish = lambda: self._load(saved)

    def finish(self) -> None:
        """Restores what was read."""
        self._finish()


def whole(
    kind: str,
    value_type: Any,
    save: Callable[[], Any],
    load: Callable[[Any], object],
    apply: Callable[[int, Entry, int], Undo | None] | None = None,
    count: Callable[[], Mapping[str, int]] = dict,
    absent: Callable[[], object] = bool,
) -> IndexPart:
    """Makes a part that a snapshot holds as one piece, the msgpack of a `value_type`.

    save: returns everything as values that no later change alters. load: replaces everything by them; raises
    ValueError. absent: called in place of `load` where an older snapshot has no such piece.
    """
    return IndexPart(
        (kind,), lambda: _one_step(kind, _encode(save())), partial(_WholeReader, value_type, load, absent), apply, count
    )


def _one_step(kind: str, data: bytes) -> Steps:
    yield [(kind, data)]
