"""Standbys of ledgers on Kafka: they read continuously, never fence the owner, and check the ledger at the takeover."""

import asyncio
import base64
from contextlib import aclosing, suppress

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.server import election
from oncegate.ledgers.server.holders import Beat
from oncegate.ports import Followed
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_topics import make, put, remove
from tests.support.standby_checks import CHECKS, standing_by, waiting
from tests.support.standing_by import WAIT_S, wait_until

pytestmark = pytest.mark.slow
# On a busy machine an owner may miss a beat for longer than usual; this test beats for twice as long.
TAKEOVER_MS = 5_000
BEATS = 12


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    """A long takeover time: an owner that closes announces it, and silence does not matter."""
    return Prefix(broker, "bare_key=yes&takeover_ms=600000")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_standby_keeps_its_promises(prefix: Prefix, check) -> None:
    await check(prefix)


class Contender:
    """A standby that takes over, writes while it owns the ledger, and becomes a standby again."""

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix
        self.taken_over = self.written = 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with open_kafka(self._prefix.place()) as ledgers:
            while True:
                with suppress(LedgerFenced, LedgerDown, LedgerFull):
                    async with ledgers.follow("default") as followed:
                        await self._own(followed)

    async def _own(self, followed: Followed) -> None:
        async with aclosing(followed.batches) as batches:
            async for _ in batches:
                pass
        opened, self.taken_over = followed.opened(), self.taken_over + 1
        while True:
            await opened.ledger.append([b"again"], [])
            self.written += 1


async def test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns(broker: Broker) -> None:
    """An owner keeps the ledger for several takeover times, because the other gateway sees its beats."""
    prefix = Prefix(broker, f"bare_key=yes&takeover_ms={TAKEOVER_MS}")
    listed = NamespaceTopic({"bootstrap_servers": broker.cluster.bootstrap}, prefix.name, Deadlines())
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        contenders = [Contender(prefix) for _ in range(2)]
    try:
        async with asyncio.timeout(WAIT_S):
            while max(beat.number for beat in [Beat(), *(await listed.refresh()).beats.values()]) < BEATS:
                assert sum(one.taken_over for one in contenders) <= 1, "the one takes it from the other"
                assert not any(one.task.done() for one in contenders)
        taken_over, written = zip(*[(one.taken_over, one.written) for one in contenders], strict=True)
        assert (sorted(taken_over), listed.listed.holder.term) == ([0, 1], 2)
        assert min(written) == 0 < max(written)
    finally:
        for one in contenders:
            one.task.cancel()
        await asyncio.wait([one.task for one in contenders])
        await listed.close()


async def test_of_two_gateways_that_start_at_once_the_first_takes_nothing_back(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each opens one namespace after the other; the first is superseded before it has checked the owner."""
    monkeypatch.setattr(election, "LOOK_S", 2 * WAIT_S)
    async with open_kafka(prefix.place(), create=True) as first, open_kafka(prefix.place()) as second:
        await first.create("mail")
        async with first.open("default") as older, second.open("default") as newer:
            for namespace in ("mail", "default"):
                with pytest.raises(LedgerFenced, match="owns the ledgers now; nothing was written"):
                    async with first.open(namespace):
                        pass
            async with second.open("mail") as mail:
                await mail.ledger.append([b"a"], [])
            await newer.ledger.append([b"b"], [])
            with pytest.raises(LedgerFenced):
                await older.ledger.append([b"by the older"], [])
            assert await entries(newer.ledger) == [b"b"]


async def test_a_standby_holds_the_ledger_against_its_witness(prefix: Prefix, broker: Broker) -> None:
    async with waiting(prefix) as (followed, _, going):
        ahead = {"serial": 99, "position": 98, "chain": base64.b64encode(bytes(16)).decode()}
        put(broker, f"{prefix.name}.namespaces", f"w/{prefix.name}.default/1/7", ahead)
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        with pytest.raises(LedgerDamaged, match="its witness saw frame 99"):
            await anext(followed.batches)


async def test_a_transaction_left_open_by_its_owner_blocks_no_reader(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        dying = AIOKafkaProducer(
            bootstrap_servers=broker.cluster.bootstrap,
            transactional_id=f"{prefix.name}.default/1/{owner.history.epoch}",
        )
        await dying.start()
        await dying.begin_transaction()
        await dying.send_and_wait(prefix.frames, b"never committed", partition=0)
        async with standing_by(prefix) as standby:
            await standby.has_read(b"a")
            assert not standby.task.done()
    async with standing_by(prefix) as standby:
        opened = await standby.opened()
        assert await entries(opened.ledger) == [b"a"]
    with suppress(KafkaError):
        await dying.stop()


async def test_the_entries_read_by_a_standby_do_not_vouch_for_a_topic_that_lost_them(
    prefix: Prefix, broker: Broker
) -> None:
    async with waiting(prefix) as (followed, _, going):
        remove(broker, prefix.frames)
        make(broker, prefix.frames)
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        with pytest.raises(LedgerDamaged, match="was made anew"):
            await anext(followed.batches)
