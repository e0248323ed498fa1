"""What a list of namespaces says of the gateways that own the ledgers below a prefix, or would.

o/           the gateway that is to own them: the holder
b/GATEWAY    the beats of a gateway that is: one a second, the last of them a goodbye
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

Changes = list[tuple[str, msgspec.Struct]]
HOLDER = "o/"


class Holder(msgspec.Struct, frozen=True):
    """Names the gateway that is to own the ledgers; `term`: how many were, this one included."""

    gateway: str = ""
    term: int = 0


class Beat(msgspec.Struct, frozen=True):
    """Says that a gateway is there; `gone`: that it has closed all its ledgers."""

    number: int = 0
    gone: bool = False


@dataclass
class Holders:
    """Holds what a list says of gateways, as it was last read."""

    holder: Holder = field(default_factory=Holder)
    beats: dict[str, Beat] = field(default_factory=dict)

    def take_of_gateways(self, kind: str, gateway: str, value: bytes | None) -> bool:
        """Applies a record with key `kind`/`gateway`, None removes it; False: it is of something else. ValueError."""
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
    """Keeps what gateways agree on. Each call raises what its servers' client does, where they are away."""

    @property
    def listed(self) -> Holders:
        """Returns what was read last."""

    async def refresh(self) -> Holders:
        """Reads the list as it is now."""

    async def change(self, decide: Callable[[Any], Changes]) -> None:
        """Writes what `decide` makes of the list as it is, whole, and only if it still is so."""

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's beat, None removes it."""
