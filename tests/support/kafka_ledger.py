"""Ledgers of tests on a broker: a prefix of their own each, opened directly or through a proxy."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

from oncegate.ledgers.kafka.ledgers import KafkaLedgers, open_kafka
from oncegate.ports import Ledger, OpenLedger
from oncegate.testing.ledger_places import replayed
from tests.support.kafka_broker import Broker

# Short enough for a test that waits until they have passed; what waits is read back, but where a test says otherwise.
QUICK, NO_CACHE = "&send_ms=3000&commit_ms=3000", "&stage_cache_mib=0"
_prefixes = count()


class Prefix:
    """Topics below a prefix of their own. `options`: of the ledgers' URL."""

    def __init__(self, broker: Broker, options: str = "bare_key=yes") -> None:
        self.broker = broker
        self.name = f"ledgers-{next(_prefixes)}"
        self.options = options

    @property
    def frames(self) -> str:
        """The topic of the default namespace's ledger."""
        return f"{self.name}.default.ledger"

    @property
    def states(self) -> str:
        """The topic of the default namespace's snapshots."""
        return f"{self.name}.default.states"

    @property
    def outputs(self) -> str:
        """The topic of the default namespace's outputs."""
        return f"{self.name}.default.outputs"

    def place(self, *, proxied: bool = False, options: str | None = None) -> str:
        """What follows `kafka:` in the URL."""
        bootstrap = self.broker.proxied_bootstrap if proxied else self.broker.cluster.bootstrap
        cache = "" if "stage_cache_mib" in (options or self.options) else NO_CACHE
        return f"//{bootstrap}/{self.name}?replication=1&min_insync=1&{options or self.options}{QUICK}{cache}"

    def ledgers(self, *, create: bool = False) -> AbstractAsyncContextManager[KafkaLedgers]:
        """All ledgers there, as a gateway has them that owns none of them yet."""
        return open_kafka(self.place(), create=create)

    @asynccontextmanager
    async def opened(self, *, proxied: bool = False, options: str | None = None) -> AsyncIterator[OpenLedger]:
        """The default namespace's ledger, until the context ends."""
        place = self.place(proxied=proxied, options=options)
        async with open_kafka(place, create=True) as ledgers, ledgers.open("default") as opened:
            yield opened


async def entries(ledger: Ledger) -> list[bytes]:
    """All entries, in their order."""
    return [bytes(one.body) for one in await replayed(ledger)]
