"""Lists, creates and opens the ledgers of one topic prefix, and checks their topics."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from aiokafka.errors import KafkaConnectionError, KafkaError

from oncegate.core.errors import BadRequest, LedgerDamaged, LedgerDown, NotFound
from oncegate.ledgers.kafka.address import Address, parse_address
from oncegate.ledgers.kafka.followed import UNREADABLE, FollowedTopics
from oncegate.ledgers.kafka.namespaces import (
    DIRECT_PARTITIONS,
    KafkaListed,
    KafkaNamespace,
    NamespaceTopic,
    direct_topic,
    topic_names,
    topics_of_name,
)
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import reader
from oncegate.ledgers.kafka.record_batch import warm_up
from oncegate.ledgers.kafka.rows.stream import StageCache
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard.direct import DirectTopic
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.opening import open_place
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.replay import Fold
from oncegate.ledgers.kafka.topics import COMPACTED, KEPT, topics_of
from oncegate.ledgers.keys import Keys, read_keys
from oncegate.ledgers.server.holders import Changes
from oncegate.ledgers.server.ledgers import ServerLedgers, next_number, serving

# The ledger raises its own errors for what aiokafka logs; without a handler Python prints these lines to stderr.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
# Suffix of a lane topic's name; the number counts the namespaces that have had this name.
_DIRECT = re.compile(r"\.direct(\.\d+)?")


class KafkaLedgers(ServerLedgers[KafkaNamespace, KafkaPlace, Fold, KafkaLedger]):
    """The ledgers of one topic prefix. Created by `open_kafka`."""

    UNREADABLE = UNREADABLE

    def __init__(self, address: Address, keys: Keys) -> None:
        self._list: NamespaceTopic
        super().__init__(
            NamespaceTopic(address.settings, address.prefix, address.deadlines),
            keys,
            address.takeover_ms,
            partial(unreachable, address),
        )
        self._address = address
        self._stage_cache = StageCache(address.stage_cache_mib << 20)

    async def _begin_list(self, create: bool) -> None:
        topic = self._list.partition.topic
        async with topics_of(self._address) as topics:
            there = await topics.names()
            if topic not in there:
                if others := sorted(name for name in there if name.startswith(f"{self._address.prefix}.")):
                    raise LedgerDamaged(
                        f"topic {topic} is missing, and {', '.join(others)} are there; nothing was made: put the list "
                        "back from a copy, or choose another prefix"
                    )
                if not create:
                    raise NotFound(f"there are no ledgers at {self._address.shown}")
                await topics.make([topic], COMPACTED)
            await topics.check([topic], COMPACTED)
        await self._list.begin()
        # In a thread: without cached kernels, compilation takes seconds.
        await asyncio.to_thread(warm_up)

    async def _create(self, namespace: str, ledger: bytes, key: bytes) -> None:
        used = await self._used_topics(namespace)

        def created(listed: KafkaListed) -> Changes:
            # The topics of a deleted namespace are kept for inspection.
            if (number := next_number(listed, namespace)) is None:
                return []
            topics = topics_of_name(self._address.prefix, namespace)
            made = KafkaNamespace(ledger, topics, key, number, direct=True)
            if unlisted := sorted(used & {*topic_names(made), direct_topic(made)}):
                raise LedgerDamaged(
                    f"topics {', '.join(unlisted)} hold records, and {self._list.partition.topic} does not list their "
                    "namespace: nothing was made, put the list back, or remove these topics"
                )
            return [(f"n/{namespace}", made)]

        await self._list.change(created)
        await self._make_topics(self._location(namespace))

    async def _used_topics(self, namespace: str) -> set[str]:
        """Returns the topics with a namespace's name that contain records, or once did."""
        async with topics_of(self._address) as topics:
            there = await topics.names()
        begin = topics_of_name(self._address.prefix, namespace)
        mine = [name for name in there if name.startswith(f"{begin}.")]
        if not mine:
            return set()
        async with reader(self._address.settings) as readers:
            partitions = [Partition(name, number) for name in mine for number in range(_partitions(name, begin))]
            return {one.topic for one in partitions if await readers.bounds(one) != (0, 0)}

    def _deleted(self, listed: KafkaNamespace) -> KafkaNamespace:
        return KafkaNamespace(listed.ledger, listed.topics, listed.key, listed.number, deleted=True)

    def _location(self, namespace: str) -> KafkaPlace:
        address = self._address
        return KafkaPlace(
            namespace, self._listed(namespace), address.settings, address.deadlines, self._keys, self._stage_cache
        )

    async def _made_location(self, namespace: str) -> KafkaPlace:
        await self._list.refresh()
        place = self._location(namespace)
        if not self._list.listed.generation(place.name).proved:
            await self._make_topics(place)
        return place

    def _follow(self, location: KafkaPlace) -> tuple[Fold, FollowedTopics]:
        fold = Fold(location.listed.ledger, location.frames.topic)
        return fold, FollowedTopics(location, fold)

    async def _own(self, location: KafkaPlace, warm: Fold | None) -> KafkaLedger:
        if not location.listed.direct:
            location = await self._with_lanes(location)
        await self._check_topics(location)
        opened = await open_place(location, self._list, self._election.lead, warm)
        address, sending_ms = self._address, self._address.deadlines.sending_ms
        topics = UserTopics(address.settings, address.bootstrap, address.prefix, address.compression, sending_ms)
        return KafkaLedger(location, opened, self._list, topics, DirectTopic(location, address.bootstrap))

    async def _with_lanes(self, location: KafkaPlace) -> KafkaPlace:
        """Creates the lane topic of a namespace that predates lanes, and records it in the list."""
        async with topics_of(self._address) as topics:
            await topics.make([direct_topic(location.listed)], KEPT, DIRECT_PARTITIONS)
        await self._change(location.namespace, location.listed, direct=True)
        return self._location(location.namespace)

    async def _make_topics(self, place: KafkaPlace) -> None:
        async with topics_of(self._address) as topics:
            await topics.make([partition.topic for partition in place.partitions], KEPT)
            await topics.make([direct_topic(place.listed)], KEPT, DIRECT_PARTITIONS)

    async def _check_topics(self, place: KafkaPlace) -> None:
        wanted, lanes = [partition.topic for partition in place.partitions], direct_topic(place.listed)
        async with topics_of(self._address) as topics:
            there = await topics.names()
            if missing := [name for name in (*wanted, lanes) if name not in there]:
                raise LedgerDamaged(
                    f"topics {', '.join(missing)} of namespace {place.namespace} are missing; nothing was changed, put "
                    "them back from a copy"
                )
            await topics.check(wanted, KEPT)
            await topics.check([lanes], KEPT, DIRECT_PARTITIONS)

    async def _check(self, ledger: KafkaLedger) -> None:
        with suppress(KafkaError, OSError):
            await self._check_topics(ledger.place)
            await ledger.check_frames()


def _partitions(topic: str, begin: str) -> int:
    """Returns the partition count of a topic with a namespace's prefix;
    the topic may belong to a different namespace.
    """
    return DIRECT_PARTITIONS if _DIRECT.fullmatch(topic.removeprefix(begin)) else 1


@contextmanager
def unreachable(address: Address) -> Iterator[None]:
    """Converts KafkaError and OSError to LedgerDown, which is retriable."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise LedgerDown(f"{address.shown} cannot be used now: {_reason(error)}") from error


def _reason(error: KafkaError | OSError) -> str:
    """Describes an error; aiokafka's own text for a failed bootstrap repeats the whole broker list."""
    if isinstance(error, KafkaConnectionError) and "bootstrap" in str(error):
        return "none of these brokers can be connected to"
    return repr(error)


@asynccontextmanager
async def open_kafka(
    place: str, create: bool = False, witness: str | None = None, reserve_bytes: int = 0
) -> AsyncIterator[KafkaLedgers]:
    """Opens the ledgers of a prefix. `reserve_bytes` applies to disks only and is ignored.

    Raises:
        BadRequest: the URL is invalid.
        NotFound: there is no list of namespaces, and `create` is false.
        LedgerDamaged: the list or its topic is damaged.
        LedgerDown: no broker can be reached.
    """
    address = parse_address(place)
    if witness is not None:
        raise BadRequest("a witness is of ledgers in folders; ledgers on Kafka keep theirs in PREFIX.namespaces")
    async with serving(KafkaLedgers(address, read_keys(address.master_key, address.old_master_key)), create) as ledgers:
        yield ledgers
