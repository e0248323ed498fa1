"""Defines the records of gateways in a list of namespaces.

o/           the leader: the gateway elected to own the ledgers of the prefix
b/GATEWAY    heartbeats of a running gateway: one a second, and a last one when it stops
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

Changes = list[tuple[str, msgspec.Struct]]
HOLDER = "o/"


class Holder(msgspec.Struct, frozen=True):
    """The record of the leading gateway. `term`: number of elections so far, this one included."""

    gateway: str = ""
    term: int = 0


class Beat(msgspec.Struct, frozen=True):
    """A heartbeat of a gateway. `gone`: it has closed all its ledgers."""

    number: int = 0
    gone: bool = False


@dataclass
class Holders:
    """Leader and heartbeats in the list, as it was last read."""

    holder: Holder = field(default_factory=Holder)
    beats: dict[str, Beat] = field(default_factory=dict)

    def take_of_gateways(self, kind: str, gateway: str, value: bytes | None) -> bool:
        """Applies a record with key `kind`/`gateway`; None removes it. Returns False for other kinds.

        Raises ValueError: the value is invalid.
        """
        if kind == "o" and value is not None:
            self.holder = msgspec.json.decode(value, type=Holder)
        elif kind == "b" and value is not None:
            self.beats[gateway] = msgspec.json.decode(value, type=Beat)
        elif kind == "b":
            self.beats.pop(gateway, None)
        else:
            return False
        return True


class HolderList(Protocol):
    """The list that gateways share. Each call raises the errors of the server's client."""

    @property
    def listed(self) -> Holders:
        """Returns the list of gateways as it was last read."""

    async def refresh(self) -> Holders:
        """Reads the current list."""

    async def change(self, decide: Callable[[Any], Changes]) -> None:
        """Writes the changes that `decide` returns for the current list, atomically, if the list is unchanged."""

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's heartbeat; None removes it."""
