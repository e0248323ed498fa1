"""Opens ledgers by the scheme of a URL. `SCHEMES` is the one table of them: scheme to opener.

memory:          nothing outlives the process
log:<folder>     segments and output files of our own below a folder; a bare path means the same
kafka://...      topics of a Kafka cluster (the extra oncegate[kafka]); `oncegate.ledgers.kafka.address` says the rest
redis://...      streams of a Redis server (the extra oncegate[redis]); `oncegate.ledgers.redis.address` says the rest
rediss://...     the same over TLS
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from oncegate.core.errors import BadRequest, NotFound
from oncegate.ledgers.log import open_log
from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import DuplicateTopic, Ledgers

Opener = Callable[[str, bool, str | None, int], AbstractAsyncContextManager[Ledgers]]


@asynccontextmanager
async def _open_memory(
    place: str, create: bool, witness: str | None, reserve_bytes: int
) -> AsyncIterator[MemoryLedgers]:
    yield MemoryLedgers()


@asynccontextmanager
async def _open_kafka(place: str, create: bool, witness: str | None, reserve_bytes: int) -> AsyncIterator[Ledgers]:
    # Its client is an extra, and takes a quarter of a second to import.
    try:
        from oncegate.ledgers.kafka.ledgers import open_kafka
    except ModuleNotFoundError as error:
        raise BadRequest(f"a ledger on Kafka needs {error.name}: pip install 'oncegate[kafka]'") from error
    async with open_kafka(place, create, witness, reserve_bytes) as ledgers:
        yield ledgers


def _opener_of_redis(tls: bool) -> Opener:
    @asynccontextmanager
    async def opened(place: str, create: bool, witness: str | None, reserve_bytes: int) -> AsyncIterator[Ledgers]:
        # Its client is an extra.
        try:
            from oncegate.ledgers.redis.ledgers import open_redis
        except ModuleNotFoundError as error:
            raise BadRequest(f"a ledger on Redis needs {error.name}: pip install 'oncegate[redis]'") from error
        async with open_redis(place, create, witness, reserve_bytes, tls=tls) as ledgers:
            yield ledgers

    return opened


SCHEMES: dict[str, Opener] = {
    "memory": _open_memory,
    "log": open_log,
    "kafka": _open_kafka,
    "redis": _opener_of_redis(tls=False),
    "rediss": _opener_of_redis(tls=True),
}


def open_ledgers(
    url: str, *, create: bool = False, witness: str | None = None, reserve_bytes: int = 0
) -> AbstractAsyncContextManager[Ledgers]:
    """Opens the ledgers at `url`, owned until the context ends.

    `create`: make them where neither the place nor its witness knows of any. `witness`: where to keep the
    witness instead of beside the data. `reserve_bytes`: room kept for what must be written when the disk is full.

    Raises:
        NotFound: the scheme is unknown, or there is nothing at the place and `create` is false.
        LedgerBusy, LedgerDamaged, KeyMismatch: on entering; nothing was touched.
    """
    scheme, place = parse_url(url)
    return SCHEMES[scheme](place, create, witness, reserve_bytes)


def open_duplicates(url: str, topic: str) -> AbstractAsyncContextManager[DuplicateTopic]:
    """Opens the topic where duplicates are told one by one, at the brokers of the ledgers at `url`.

    Raises BadRequest: these ledgers have no brokers; on entering NotFound, BadRequest: it cannot be this topic.
    """
    scheme, place = parse_url(url)
    if scheme != "kafka":
        raise BadRequest(
            f"duplicates_topic {topic}: a ledger {scheme}: has no brokers, and a topic of duplicates is on those of a "
            "ledger kafka:; leave the setting out, /metrics counts duplicates by cause and age everywhere"
        )
    # After `open_ledgers`, which tells what is missing where its client is.
    from oncegate.ledgers.kafka.duplicates import open_kafka_duplicates

    return open_kafka_duplicates(place, topic)


def parse_url(url: str) -> tuple[str, str]:
    """Splits a ledger's URL into its scheme and what follows it; a bare path is a log. NotFound: no such scheme."""
    scheme, colon, place = url.partition(":")
    if colon and scheme in SCHEMES:
        return scheme, place
    if colon and "/" not in scheme:
        raise NotFound(f"no ledger of scheme {scheme}: there are {', '.join(SCHEMES)}")
    return "log", url
