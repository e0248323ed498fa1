"""Ledgers on a test broker, each under its own prefix, opened directly or through a proxy."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

from oncegate.ledgers.kafka.ledgers import KafkaLedgers, open_kafka
from oncegate.ports import Ledger, OpenLedger
from oncegate.testing.ledger_places import replayed
from tests.support.kafka_broker import Broker

# Deadlines short enough to wait for in a test. Waiting rows are read back, unless a test sets a cache.
QUICK, NO_CACHE = "&send_ms=3000&commit_ms=3000", "&stage_cache_mib=0"
_prefixes = count()


class Prefix:
    """Topics below a prefix of their own. `options`: options of the ledger URL."""

    def __init__(self, broker: Broker, options: str = "bare_key=yes") -> None:
        self.broker = broker
        self.name = f"ledgers-{next(_prefixes)}"
        self.options = options

    @property
    def frames(self) -> str:
        return f"{self.name}.default.ledger"

    @property
    def states(self) -> str:
        return f"{self.name}.default.states"

    @property
    def outputs(self) -> str:
        return f"{self.name}.default.outputs"

    def place(self, *, proxied: bool = False, options: str | None = None) -> str:
        """Returns the part of the URL after `kafka:`."""
        bootstrap = self.broker.proxied_bootstrap if proxied else self.broker.cluster.bootstrap
        cache = "" if "stage_cache_mib" in (options or self.options) else NO_CACHE
        return f"//{bootstrap}/{self.name}?replication=1&min_insync=1&{options or self.options}{QUICK}{cache}"

    def ledgers(self, *, create: bool = False) -> AbstractAsyncContextManager[KafkaLedgers]:
        """Opens all ledgers there without owning any of them."""
        return open_kafka(self.place(), create=create)

    @asynccontextmanager
    async def opened(self, *, proxied: bool = False, options: str | None = None) -> AsyncIterator[OpenLedger]:
        """Opens the default namespace's ledger until the context ends."""
        place = self.place(proxied=proxied, options=options)
        async with open_kafka(place, create=True) as ledgers, ledgers.open("default") as opened:
            yield opened


async def entries(ledger: Ledger) -> list[bytes]:
    return [bytes(one.body) for one in await replayed(ledger)]
