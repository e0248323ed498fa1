"""Ledgers on a test Redis server, each under its own prefix, opened directly or through a proxy."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path

from oncegate.ledgers.redis.ledgers import RedisLedgers, open_redis
from oncegate.ports import Ledger, OpenLedger
from oncegate.testing.ledger_places import replayed
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer

# Longer than any disk takes: replies are lost only when a test loses them, never by a timeout.
REPLY_MS = 60_000
_prefixes = count()


class Prefix:
    """Keys below a prefix of their own. `witness`: a folder, or None for a gateway without one. `options`: of
    the URL."""

    def __init__(self, at: RedisServer | RedisProxy, witness: Path | None, options: str = "bare_key=yes") -> None:
        self.at = at
        self.name = f"ledgers-{next(_prefixes)}"
        self.witness = witness
        self.options = options

    def key(self, what: str) -> str:
        """Returns a key of the default namespace's ledger."""
        return f"{{{self.name}/default/1}}:{what}"

    def place(self, at: RedisServer | RedisProxy | None = None, options: str | None = None) -> str:
        """Returns the part of the URL after `redis:`."""
        options = (options or self.options) + "&no_witness=yes" * (self.witness is None)
        patience = "" if "reply_ms" in options else f"&reply_ms={REPLY_MS}"
        return f"//{(at or self.at).address}/{self.name}?{options}{patience}"

    def ledgers(self, *, create: bool = False) -> AbstractAsyncContextManager[RedisLedgers]:
        """Opens all ledgers there without owning any of them."""
        return open_redis(self.place(), create=create)

    @asynccontextmanager
    async def opened(
        self, at: RedisServer | RedisProxy | None = None, options: str | None = None
    ) -> AsyncIterator[OpenLedger]:
        """Opens the default namespace's ledger, as a new process does."""
        witness = None if self.witness is None else str(self.witness)
        async with (
            open_redis(self.place(at, options), create=True, witness=witness) as ledgers,
            ledgers.open("default") as opened,
        ):
            yield opened


async def entries(ledger: Ledger) -> list[bytes]:
    return [bytes(one.body) for one in await replayed(ledger)]
