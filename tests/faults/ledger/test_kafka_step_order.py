"""Steps of owners of a ledger on Kafka of which one has to be durable before the next: each step fails once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from oncegate.core.errors import KeyMismatch, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.namespaces import Generation, KafkaListed, KafkaNamespace, NamespaceTopic
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard import opening
from oncegate.ledgers.kafka.shard.direct import DirectTopic
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.server.holders import Changes
from oncegate.ports import DropRanges
from tests.model.kafka.clients import replace_clients
from tests.model.kafka.clock import current
from tests.model.kafka.truth import LEDGER, Truth
from tests.model.kafka.users import range_of
from tests.model.kafka.world import Process, Setup, World

NAME = "p.default/1"


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_clients(monkeypatch)


class Steps(World):
    """Executes each request at once. `fates`: of the next request that begins so; `before`: what comes before it."""

    def __init__(self) -> None:
        super().__init__(Setup(losing=0.0), 0)
        self.loop.close()  # a test has a loop of its own
        self.fates: dict[str, str] = {}
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}

    async def waits(self, process: Process, what: str, due_s: float = 0.0) -> str:
        for beginning in [one for one in self.before if what.startswith(one)]:
            await self.before.pop(beginning)()
        for beginning in [one for one in self.fates if what.startswith(one)]:
            return self.fates.pop(beginning)
        return "done"

    def process(self, name: str) -> Process:
        process = Process(self, name)
        current.set(process)
        return process

    def list_of(self, process: Process) -> NamespaceTopic:
        return NamespaceTopic({"process": process}, "p", process.place.deadlines)

    async def listed(self) -> KafkaListed:
        return await self.list_of(self.process("looker")).refresh()


@asynccontextmanager
async def opened(steps: Steps, name: str, place: KafkaPlace | None = None) -> AsyncIterator[KafkaLedger]:
    """Opens the ledger as a gateway of this name does, and leaves it as if it had died."""
    process = steps.process(name)
    place, listed = place or process.place, steps.list_of(process)
    found = await opening.open_place(place, listed, lambda _: [])
    yield KafkaLedger(place, found, listed, UserTopics({"process": process}, "", "p"), DirectTopic(place, ""))


async def test_an_opening_whose_entry_of_ownership_is_lost_proves_nothing_and_leaves_the_witness_before() -> None:
    steps = Steps()
    async with opened(steps, "first"):
        pass
    before = await steps.listed()
    steps.fates[f"commits {NAME}/2"] = "lost"
    with pytest.raises(LedgerDown):
        async with opened(steps, "second"):
            pass
    after = await steps.listed()
    assert (before.generation(NAME).proved, after.generation(NAME).proved) == (1, 1)
    assert after.witnesses == before.witnesses


async def test_what_an_owner_commits_until_it_is_fenced_is_known_to_the_next_owner() -> None:
    steps = Steps()
    async with opened(steps, "first") as first:
        steps.before[f"starts {NAME}/1"] = lambda: first.append([b"a"], [])
        async with opened(steps, "second") as second:
            assert [bytes(one.body) async for some in second.replay(1) for one in some] == [b"a"]
            with pytest.raises(LedgerFenced):
                await first.append([b"b"], [])


async def test_the_witness_before_stays_listed_until_that_of_the_next_owner_is() -> None:
    steps = Steps()
    async with opened(steps, "first"):
        pass
    steps.fates[f"puts w/{NAME}/2"] = "lost"
    with pytest.raises(LedgerDown):
        async with opened(steps, "second"):
            pass
    assert set((await steps.listed()).witnesses[NAME]) == {1}
    async with opened(steps, "third"):
        assert set((await steps.listed()).witnesses[NAME]) == {3}


async def test_a_witness_that_could_not_be_written_is_written_by_the_next_upkeep() -> None:
    steps = Steps()
    async with opened(steps, "owner") as ledger:
        await ledger.append([b"a"], [])
        steps.fates[f"puts w/{NAME}/1"] = "lost"
        for serial in (1, 2):
            await ledger.keep_up()
            assert (await steps.listed()).witnesses[NAME][1].serial == serial


async def test_generations_that_could_not_be_proved_are_proved_by_the_next_upkeep() -> None:
    steps = Steps()
    async with opened(steps, "owner") as ledger:
        steps.fates[f"commits {NAME}/1"] = "lost"
        with pytest.raises(LedgerFull):
            await ledger.append([b"a"], [])
        await ledger.append([b"b"], [])
        steps.fates["starts p.namespaces"] = "lost"
        for proved in (1, 2):
            await ledger.keep_up()
            assert (await steps.listed()).generation(NAME).proved == proved


async def test_stages_that_could_not_be_deleted_are_deleted_by_the_next_upkeep() -> None:
    steps, staged = Steps(), range_of(b"row-0/1")
    async with opened(steps, "owner") as ledger:
        await ledger.append([b"stage"], [staged])
        await ledger.append([b"drop"], [DropRanges((staged.range_id,))])
        end = steps.brokers.log(Truth.STAGES).end
        steps.fates["shortens"] = "lost"
        for start in (0, end - 1):
            await ledger.keep_up()
            assert steps.brokers.log(Truth.STAGES).start == start


async def test_a_ledger_of_another_key_has_no_entry_of_ownership_of_who_was_refused() -> None:
    steps = Steps()
    async with opened(steps, "owner"):
        pass
    end, process = steps.brokers.log(Truth.FRAMES).end, steps.process("other")
    keys = process.place.keys
    listed = KafkaNamespace(LEDGER, "p.default", keys.wrap(bytes(31) + b"x"))
    with pytest.raises(KeyMismatch):
        async with opened(
            steps, "other", KafkaPlace("default", listed, {"process": process}, process.place.deadlines, keys)
        ):
            pass
    assert steps.brokers.log(Truth.FRAMES).end == end


async def test_a_change_of_the_list_is_decided_upon_all_that_was_written_before_its_id_was_taken() -> None:
    def counted(listed: KafkaListed) -> Changes:
        return [("g/counter", Generation(listed.generation("counter").highest + 1))]

    async def others() -> None:
        await steps.list_of(steps.process("other")).change(counted)

    steps = Steps()
    steps.before["starts p.namespaces"] = others
    await asyncio.wait_for(steps.list_of(steps.process("one")).change(counted), 60)
    assert (await steps.listed()).generation("counter").highest == 2
