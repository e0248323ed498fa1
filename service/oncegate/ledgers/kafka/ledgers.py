"""The ledgers below one prefix of a Kafka cluster: listed, created, opened, and kept up by one clock."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

from aiokafka.errors import KafkaConnectionError, KafkaError
from msgspec.structs import replace

from oncegate.core.errors import (
    BadRequest,
    LedgerBusy,
    LedgerDamaged,
    LedgerDown,
    LedgerFenced,
    NotFound,
    OncegateError,
)
from oncegate.ledgers.kafka.address import Address, parse_address
from oncegate.ledgers.kafka.direct.topic import DirectTopic
from oncegate.ledgers.kafka.followed import UNREADABLE, FollowedTopics
from oncegate.ledgers.kafka.namespaces import (
    DIRECT_PARTITIONS,
    Listed,
    Namespace,
    NamespaceList,
    direct_topic,
    topic_names,
    topics_of_name,
)
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import reader
from oncegate.ledgers.kafka.record_batch import warm_up
from oncegate.ledgers.kafka.rows.stage_cache import StageCache
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.opening import open_place
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.topics import COMPACTED, KEPT, topics_of
from oncegate.ledgers.keys import KEY_BYTES, Keys, read_keys
from oncegate.ledgers.pause import pause
from oncegate.ledgers.server.election import Election
from oncegate.ledgers.server.following import Followable, Following
from oncegate.ledgers.server.holders import Changes
from oncegate.ports import Followed, OpenLedger

# What matters of its lines the ledger tells by its own errors; without a handler Python prints them raw.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
# How long a witness may lag behind its ledger.
WITNESS_S = 1.0
# How often the settings of topics are checked beside each opening.
CHECK_S = 3_600.0
DEFAULT = "default"
# How the name of a topic of lanes ends; with the number of those that had its namespace's name.
_DIRECT = re.compile(r"\.direct(\.\d+)?")


class KafkaLedgers:
    """Implements `ports.Ledgers` and `ports.Standbys` over the topics below one prefix. Made by `open_kafka`."""

    def __init__(self, address: Address, keys: Keys, listed: NamespaceList) -> None:
        self._address = address
        self._keys = keys
        self._list = listed
        self._changing = asyncio.Lock()
        self._open: dict[str, set[KafkaLedger]] = {}
        self._stage_cache = StageCache(address.stage_cache_mib << 20)
        self._election = Election(listed, address.takeover_ms, self._followed_by)
        self._election.start()
        self._keeper = asyncio.create_task(self._keep_up(), name="witnesses")

    def names(self) -> list[str]:
        """Implements the port's `Ledgers.names`, of the list as it was last read."""
        return sorted(name for name, one in self._list.listed.namespaces.items() if not one.deleted)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`; topics that somebody has made for it are taken where they are empty.

        LedgerDamaged: topics of that name hold something, and the list does not know them. Recovering: it stands by.
        """
        self._election.require_lead()
        async with self._changing:
            with unreachable(self._address):
                used = await self._used_topics(namespace)
                made = Namespace(os.urandom(16), "", self._keys.wrap(key or os.urandom(KEY_BYTES)))
                await self._list.change(lambda listed: self._created(listed, namespace, made, used))
                await self._make_topics(self._place(namespace))

    async def _used_topics(self, namespace: str) -> set[str]:
        """Topics whose names begin as a namespace's do, and that hold records or once did."""
        async with topics_of(self._address) as topics:
            there = await topics.names()
        begin = topics_of_name(self._address.prefix, namespace)
        mine = [name for name in there if name.startswith(f"{begin}.")]
        if not mine:
            return set()
        async with reader(self._address.settings) as readers:
            found = [Partition(name, number) for name in mine for number in range(_partitions(name, begin))]
            return {one.topic for one in found if await readers.bounds(one) != (0, 0)}

    def _created(self, listed: Listed, namespace: str, made: Namespace, used: set[str]) -> Changes:
        before = listed.namespaces.get(namespace)
        if before is not None and not before.deleted:
            return []
        # The topics of a deleted namespace stay, for a person to look at.
        number = 1 if before is None else before.number + 1
        one = Namespace(made.ledger, topics_of_name(self._address.prefix, namespace), made.key, number, direct=True)
        if found := sorted(used & {*topic_names(one), direct_topic(one)}):
            raise LedgerDamaged(
                f"topics {', '.join(found)} hold records, and {self._list.partition.topic} does not list their "
                "namespace: nothing was made, put the list back, or remove these topics"
            )
        return [(f"n/{namespace}", one)]

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`: its topics stay, and nothing names them. Recovering: as above."""
        self._election.require_lead()
        async with self._changing:
            if self._open.get(namespace):
                raise LedgerBusy(f"namespace {namespace} is open; nothing was deleted")
            with unreachable(self._address):
                await self._list.change(lambda listed: self._deleted(listed, namespace))

    def _deleted(self, listed: Listed, namespace: str) -> Changes:
        one = self._listed(namespace)
        return [(f"n/{namespace}", Namespace(one.ledger, one.topics, one.key, one.number, deleted=True))]

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Implements the port's `Ledgers.open`; NotFound, KeyMismatch, LedgerFenced, LedgerFull and LedgerDown too."""
        async with self._owned(namespace, None) as (opened, _):
            yield opened

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`; NotFound, KeyMismatch, LedgerDown."""
        self._election.stand_by()
        with unreachable(self._address):
            place = await self._listed_place(namespace)
        async with AsyncExitStack() as stack:

            async def take_over(warm: Fold | None) -> tuple[OpenLedger, Fold]:
                return await stack.enter_async_context(self._owned(namespace, warm))

            topic, fold = place.frames.topic, Fold(place.listed.ledger, place.frames.topic)
            shard = FollowedTopics(place, fold)
            stack.push_async_callback(shard.close)
            following = Following(Followable(topic, fold, shard, UNREADABLE, take_over), self._election)
            yield following.followed(place.keys.unwrap(place.listed.key), place.listed.ledger)

    async def _listed_place(self, namespace: str) -> KafkaPlace:
        """The place of a namespace as the list has it now; its topics are made where nobody has owned it yet."""
        await self._list.refresh()
        place = self._place(namespace)
        if not self._list.listed.generation(place.name).proved:
            await self._make_topics(place)
        return place

    @asynccontextmanager
    async def _owned(self, namespace: str, warm: Fold | None) -> AsyncIterator[tuple[OpenLedger, Fold]]:
        """Opens a ledger, fences who had it before, and closes it in the end. `warm`: as in `open_place`."""
        with unreachable(self._address):
            place = await self._listed_place(namespace)
            if not place.listed.direct:
                place = await self._with_lanes(namespace)
            await self._check_topics(place)
            opened = await open_place(place, self._list, self._election.lead, warm)
            await self._rewrap(namespace, opened.key)
        address = self._address
        sending_ms = address.deadlines.sending_ms
        topics = UserTopics(address.settings, address.bootstrap, address.prefix, address.compression, sending_ms)
        direct = DirectTopic(place, address.bootstrap)
        ledger = KafkaLedger(place, opened, self._list, topics)
        self._open.setdefault(namespace, set()).add(ledger)
        try:
            found = OpenLedger(
                ledger,
                opened.key,
                ledger.epoch,
                ledger.require_owner,
                ledger,
                compacted=ledger.compacted_position,
                row_topics=topics,
                direct=direct,
                fenced_by_appends=True,
            )
            yield found, opened.fold
        finally:
            self._open[namespace].discard(ledger)
            await ledger.close()
            await topics.close()
            await direct.close()

    async def _rewrap(self, namespace: str, key: bytes) -> None:
        """Wraps a key anew that was wrapped with the master key before this one, so that that one may go."""
        wrapped = self._keys.wrap(key)

        def rewrapped(listed: Listed) -> Changes:
            one = listed.namespaces[namespace]
            return [] if one.key == wrapped else [(f"n/{namespace}", replace(one, key=wrapped))]

        if self._listed(namespace).key != wrapped:
            await self._list.change(rewrapped)

    async def _with_lanes(self, namespace: str) -> KafkaPlace:
        """Makes the topic of lanes of a namespace that is older than those, and lists that it has one."""
        async with topics_of(self._address) as topics:
            await topics.make([direct_topic(self._listed(namespace))], KEPT, DIRECT_PARTITIONS)

        def listed(known: Listed) -> Changes:
            return [(f"n/{namespace}", replace(known.namespaces[namespace], direct=True))]

        await self._list.change(listed)
        return self._place(namespace)

    def _listed(self, namespace: str) -> Namespace:
        found = self._list.listed.namespaces.get(namespace)
        if found is None or found.deleted:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        return found

    def _place(self, namespace: str) -> KafkaPlace:
        one, address = self._listed(namespace), self._address
        return KafkaPlace(namespace, one, address.settings, address.deadlines, self._keys, self._stage_cache)

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

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while True:
            await pause(WITNESS_S)
            due = loop.time() >= checked + CHECK_S
            # Side by side: one whose brokers do not answer holds no other up.
            ledgers = [ledger for several in self._open.values() for ledger in several]
            await asyncio.gather(*(self._keep_one_up(ledger, due) for ledger in ledgers))
            checked = loop.time() if due else checked

    async def _keep_one_up(self, ledger: KafkaLedger, checking: bool) -> None:
        """Ends a ledger whose topics would lose something or lost it, or whose upkeep raises what nobody expects."""
        try:
            await ledger.keep_up()
            if checking:
                with suppress(KafkaError, OSError):
                    await self._check_topics(ledger.place)
                    await ledger.check_frames()
        except OncegateError as error:
            ledger.give_up(error)
        except Exception as error:
            ledger.give_up(LedgerDown(f"the upkeep of {ledger.place.frames.topic} failed ({error!r}); open it anew"))

    def _followed_by(self, why: LedgerFenced) -> None:
        """Another gateway owns the ledgers from now on: none of them takes anything more."""
        for ledger in [ledger for several in self._open.values() for ledger in several]:
            ledger.end(why)

    async def close(self) -> None:
        """Says goodbye, and lets go of the list; every ledger was closed before."""
        await self._election.close()
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        await self._list.close()


def _partitions(topic: str, begin: str) -> int:
    """How many partitions a topic has whose name begins as a namespace's do; it may be another namespace's."""
    return DIRECT_PARTITIONS if _DIRECT.fullmatch(topic.removeprefix(begin)) else 1


@contextmanager
def unreachable(address: Address) -> Iterator[None]:
    """Says LedgerDown where the brokers are away; that is tried again."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise LedgerDown(f"{address.shown} cannot be used now: {_reason(error)}") from error


def _reason(error: KafkaError | OSError) -> str:
    """What went wrong; where no broker was there to connect to, in words, for the client's name all of them again."""
    if isinstance(error, KafkaConnectionError) and "bootstrap" in str(error):
        return "none of these brokers can be connected to"
    return repr(error)


@asynccontextmanager
async def open_kafka(
    place: str, create: bool = False, witness: str | None = None, reserve_bytes: int = 0
) -> AsyncIterator[KafkaLedgers]:
    """Opens the ledgers below a prefix. `reserve_bytes` is for disks.

    Raises BadRequest: the URL is wrong; LedgerDamaged; NotFound: there is no list, and `create` is false; LedgerDown:
    no broker is reached.
    """
    address = parse_address(place)
    if witness is not None:
        raise BadRequest("a witness is of ledgers in folders; ledgers on Kafka keep theirs in PREFIX.namespaces")
    keys = read_keys(address.master_key, address.old_master_key)
    async with AsyncExitStack() as stack:
        listed = NamespaceList(address.settings, address.prefix, address.deadlines)
        stack.push_async_callback(listed.close)
        with unreachable(address):
            await _require_list(address, listed.partition.topic, create)
            await listed.begin()
        # Not on the loop: a start that finds no compiled kernels compiles for seconds.
        await asyncio.to_thread(warm_up)
        ledgers = KafkaLedgers(address, keys, listed)
        stack.pop_all()
        stack.push_async_callback(ledgers.close)
        if create and not listed.listed.namespaces:
            await ledgers.create(DEFAULT)
        yield ledgers


async def _require_list(address: Address, topic: str, create: bool) -> None:
    """Makes the list of namespaces where nothing is below the prefix yet."""
    async with topics_of(address) as topics:
        there = await topics.names()
        if topic not in there:
            if others := sorted(name for name in there if name.startswith(f"{address.prefix}.")):
                raise LedgerDamaged(
                    f"topic {topic} is missing, and {', '.join(others)} are there; nothing was made: put the list "
                    "back from a copy, or choose another prefix"
                )
            if not create:
                raise NotFound(f"there are no ledgers at {address.shown}")
            await topics.make([topic], COMPACTED)
        await topics.check([topic], COMPACTED)
