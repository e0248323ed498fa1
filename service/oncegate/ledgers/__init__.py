"""Opens ledgers with the implementation that the scheme of their URL names. `SCHEMES` maps each scheme to its opener.

memory:          not persistent
log:<folder>     segments and output files of Oncegate's own format in a folder; a bare path means the same
kafka://...      topics of a Kafka cluster (extra oncegate[kafka]); see `oncegate.ledgers.kafka.address`
redis://...      streams of a Redis server (extra oncegate[redis]); see `oncegate.ledgers.redis.address`
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
    # Imported lazily: the client is an optional extra and takes a quarter of a second to import.
    try:
        from oncegate.ledgers.kafka.ledgers import open_kafka
    except ModuleNotFoundError as error:
        raise BadRequest(f"a ledger on Kafka needs {error.name}: pip install 'oncegate[kafka]'") from error
    async with open_kafka(place, create, witness, reserve_bytes) as ledgers:
        yield ledgers


def _opener_of_redis(tls: bool) -> Opener:
    @asynccontextmanager
    async def opened(place: str, create: bool, witness: str | None, reserve_bytes: int) -> AsyncIterator[Ledgers]:
        # Imported lazily: the client is an optional extra.
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

    Args: `create` creates them if neither the location nor its witness has any. `witness` is where to keep the witness
    instead of beside the data. `reserve_bytes` is the disk space reserved for completes and releases.

    Raises:
        NotFound: the scheme is unknown, or there is nothing at the location and `create` is false.
        LedgerBusy, LedgerDamaged, KeyMismatch: on entering; nothing was changed.
    """
    scheme, place = parse_url(url)
    return SCHEMES[scheme](place, create, witness, reserve_bytes)


def open_duplicates(url: str, topic: str) -> AbstractAsyncContextManager[DuplicateTopic]:
    """Opens the topic that receives one record per duplicate, on the brokers of the ledgers at `url`.

    Raises BadRequest if these ledgers have no brokers. On entering, raises NotFound, or BadRequest if the topic is
    unsuitable.
    """
    scheme, place = parse_url(url)
    if scheme != "kafka":
        raise BadRequest(
            f"duplicates_topic {topic}: a ledger {scheme}: has no brokers, and a topic of duplicates is on those of a "
            "ledger kafka:; leave the setting out, /metrics counts duplicates by cause and age everywhere"
        )
    # `open_ledgers` runs first and reports a missing client library.
    from oncegate.ledgers.kafka.duplicates import open_kafka_duplicates

    return open_kafka_duplicates(place, topic)


def parse_url(url: str) -> tuple[str, str]:
    """Splits a ledger URL into its scheme and the rest; a bare path has the scheme `log`.
    Raises NotFound for an unknown scheme.
    """
    scheme, colon, place = url.partition(":")
    if colon and scheme in SCHEMES:
        return scheme, place
    if colon and "/" not in scheme:
        raise NotFound(f"no ledger of scheme {scheme}: there are {', '.join(SCHEMES)}")
    return "log", url
