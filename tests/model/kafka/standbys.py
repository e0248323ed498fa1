"""Standby gateways of a walk: the shipped election chooses one, which takes over the ledger that it has followed."""

from contextlib import aclosing

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.followed import UNREADABLE, FollowedTopics
from oncegate.ledgers.kafka.namespaces import KafkaListed, NamespaceTopic
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard import opening
from oncegate.ledgers.kafka.shard.direct import DirectTopic
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.replay import Fold
from oncegate.ledgers.server.election import Election
from oncegate.ledgers.server.following import Followable, Following
from oncegate.ports import OpenLedger
from tests.model.kafka.gateways import Gateway
from tests.model.kafka.world import Process, World
from tests.model.kit.replies import Broken

TAKEOVER_MS = 3_000
GATEWAYS = 3
LIST = Partition("p.namespaces", 0)
# More steps than the beats of a leader and the reads of its standbys take within a takeover's time.
CALM_STEPS = 1_200


class StandingBy(Gateway):
    """A gateway with a standby, for its whole life: it follows, is elected, owns, is superseded, and so on."""

    async def live(self, _: Process) -> None:
        listed = NamespaceTopic({"process": self.process}, "p", self.process.place.deadlines)
        self.ledger: KafkaLedger | None = None
        election = Election(listed, TAKEOVER_MS, self._followed)
        election.stand_by()
        election.start()
        try:
            while True:
                try:
                    await self._turn(listed, election)
                except (LedgerDown, LedgerFenced, LedgerFull, KafkaError, OSError) as error:
                    self.world.note(f"{self.process.name} stands by again: {error!r}")
                    await self.process.turn("rests")
        finally:
            assert election._task is not None
            election._task.cancel()

    async def _turn(self, listed: NamespaceTopic, election: Election) -> None:
        await listed.refresh()
        place, topics, ledgers = self.process.place, self.topics(), list[KafkaLedger]()

        async def take_over(warm: Fold | None) -> tuple[OpenLedger, Fold]:
            opened = await opening.open_place(place, listed, election.lead, warm)
            ledgers.append(KafkaLedger(place, opened, listed, topics, DirectTopic(place, "")))
            return ledgers[0].opened(), opened.fold

        fold = Fold(place.listed.ledger, place.frames.topic)
        shard = FollowedTopics(place, fold)
        following = Following(Followable(place.frames.topic, fold, shard, UNREADABLE, take_over), election)
        self.known = set()
        try:
            async with aclosing(following.batches()) as batches:
                async for batch in batches:
                    self.known.update(bytes(one.body) for one in batch)
                    self._answer_early(election)
        finally:
            await shard.close()
        following.opened()
        (self.ledger,) = ledgers
        try:
            await self.serve(self.ledger, topics)
        finally:
            self.ledger = None

    def _answer_early(self, election: Election) -> None:
        """Without the rule: an elected gateway answers from the entries that it has followed so far."""
        denied = sorted(self.world.truth.acknowledged - self.known)
        if not self.world.setup.fenced and election.leads and denied:
            raise Broken("DENIED", f"{self.process.name} denies {denied[0]!r} before it owns the ledger")

    def _followed(self, why: LedgerFenced) -> None:
        """Ends the ledger as `KafkaLedgers` does."""
        if self.ledger is not None:
            self.ledger.end_beside(why)


class Choices:
    """Reads the elections and checks each against the beats up to then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read_to = 0
        self._listed = KafkaListed()
        self._heard_s: dict[str, list[float]] = {}

    def look(self) -> None:
        log = self._world.brokers.log(LIST)
        for _, entry in log.committed(self._read_to, log.end):
            before, beats = self._listed.holder, dict(self._listed.beats)
            self._listed.take((entry.key or b"").decode(), entry.value)
            after, (kind, _, name) = self._listed.holder, (entry.key or b"").decode().partition("/")
            if after != before and before.gateway and not (before.gateway in beats and beats[before.gateway].gone):
                self._require_silence(before.gateway, entry.at_s)
            # A removed beat was removed by another gateway.
            if kind == "o" or (kind == "b" and entry.value is not None):
                self._heard_s.setdefault(name or after.gateway, []).append(entry.at_s)
        self._read_to = max(self._read_to, log.stable)

    def _require_silence(self, gateway: str, at_s: float) -> None:
        """Checks that the former leader was silent. `at_s`: when the elected gateway began to read the beats."""
        heard_s = max((one for one in self._heard_s.get(gateway, []) if one <= at_s), default=at_s)
        if at_s < heard_s + TAKEOVER_MS / 1000:
            raise Broken("CHOSEN", f"{gateway} is followed at {at_s:.2f}, and was there at {heard_s:.2f}")

    @property
    def terms(self) -> int:
        """Returns the number of elections."""
        return self._listed.holder.term


async def calm(world: World) -> None:
    """Ends all faults and runs three gateways: one of them must get the ledger, write, and keep it."""
    world.heal()
    if world.stands_still():
        return
    for process in world.processes:
        process.dead = True
    gateways = [start(world) for _ in range(GATEWAYS)]
    await _run(world, CALM_STEPS)
    terms, wrote = world.choices.terms, sum(one.wrote for one in gateways)
    await _run(world, CALM_STEPS)
    if world.stands_still():
        return
    if world.choices.terms != terms:
        raise Broken("CALM", f"{world.choices.terms - terms} were chosen while nothing failed")
    if sum(one.wrote for one in gateways) == wrote:
        raise Broken("ENDS", f"no gateway has written in {CALM_STEPS} steps without a fault")


async def _run(world: World, steps: int) -> None:
    await world.settle()
    for _ in range(steps):
        if not world.step():
            raise Broken("ENDS", "the ledger has no owner and no candidate")
        await world.settle()


def start(world: World) -> StandingBy:
    """Adds a gateway, which starts when the world settles."""
    found = StandingBy(Process(world, ""))

    async def live(process: Process) -> None:
        found.process = process
        await found.live(process)

    world.start(f"S{len(world.processes)}", live)
    return found


async def walk_standbys(world: World) -> None:
    """Runs three standby gateways, then more. At the end three others must stay calm."""
    world.choices = Choices(world)
    for _ in range(GATEWAYS):
        start(world)
    await world.settle()
    for _ in range(world.setup.steps):
        world.disturb()
        if world.rng.random() < world.setup.starting or not world.step():
            start(world)
        await world.settle()
    await calm(world)
    world.truth.look()
    if not world.stands_still():
        world.truth.users.require_named()
