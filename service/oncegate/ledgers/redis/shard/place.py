"""Names where one namespace's ledger lies on Redis, and with what it is reached.

head      hash: ledger, fence, holder; serial, position and chain of the last frame
frames    stream: a frame a record, with its serial for an id
rows      stream: what output ranges hold, with the serial of their frame and a number for an id
states    stream: pieces of what stands in place of compacted entries
"""

from dataclasses import dataclass

from oncegate.ledgers.keys import Keys
from oncegate.ledgers.redis.address import Address
from oncegate.ledgers.redis.namespaces import RedisNamespace


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """Names one ledger: `listed` is what the list says of it."""

    namespace: str
    listed: RedisNamespace
    address: Address
    keys: Keys

    @property
    def name(self) -> str:
        """Returns what its keys begin with, and its witness: of nobody else, also after its namespace was deleted."""
        return f"{self.address.prefix}/{self.namespace}/{self.listed.number}"

    @property
    def head(self) -> str:
        """Names the key that says who owns it, and where it ends."""
        return self._key("head")

    @property
    def frames(self) -> str:
        """Names the key of the ledger itself."""
        return self._key("frames")

    @property
    def where(self) -> str:
        """Names the key of its frames."""
        return self.frames

    @property
    def rows(self) -> str:
        """Names the key of what output ranges hold."""
        return self._key("rows")

    @property
    def states(self) -> str:
        """Names the key of what stands in place of compacted entries."""
        return self._key("states")

    def _key(self, what: str) -> str:
        # One hash tag: a script has to find all of them on one node.
        return f"{{{self.name}}}:{what}"
