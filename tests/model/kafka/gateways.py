"""Processes of a walk: gateways that open and use the ledger, a standby that reads it, and the walk itself."""

from collections.abc import Sequence
from contextlib import aclosing, suppress

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull, OncegateError
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.reading import Trimmed
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard import blobs, opening
from oncegate.ledgers.kafka.shard.direct import DirectTopic
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.replay import Fold
from oncegate.ledgers.snapshot_pieces import encode_piece
from oncegate.ports import OutputChange, WriteRange
from tests.model.kafka.truth import LEDGER
from tests.model.kafka.users import STAGE, Sender
from tests.model.kafka.world import ALONE_STEPS, Process, World
from tests.model.kit.replies import Broken

IDS = tuple(b"id-%02d" % number for number in range(4))
LEASE = b"lease "
OPENINGS_MAX = 12


class NoChanges:
    """Replaces a snapshot under way: nothing changes while it is written."""

    changes_since: tuple[()] = ()

    def changed(self, changes: object) -> None:
        """Ignores the change."""


class Gateway:
    """Owns the ledger until it is fenced or in doubt. `known`: the entries in its memory."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.known: set[bytes] = set()
        self.opened = 0
        self.wrote = 0
        self.owned_s = 0.0

    async def live(self, _: Process) -> None:
        for _ in range(OPENINGS_MAX):
            listed = NamespaceTopic({"process": self.process}, "p", self.process.place.deadlines)
            try:
                opened = await opening.open_place(self.process.place, listed, lambda _: [])
                ledger = KafkaLedger(
                    self.process.place, opened, listed, topics := self.topics(), DirectTopic(self.process.place, "")
                )
                self.known = {bytes(one.body) async for some in ledger.replay(1) for one in some}
                await self.serve(ledger, topics)
            except (LedgerFull, LedgerDown) as error:
                self.world.note(f"{self.process.name} opens anew: {error.detail}")

    def topics(self) -> UserTopics:
        return UserTopics({"process": self.process}, "", "p")

    async def serve(self, ledger: KafkaLedger, topics: UserTopics) -> None:
        """Serves until it fails. Raises LedgerDown, LedgerFenced."""
        self.opened += 1
        self.owned_s = self.world.now_s()
        self._require_all(ledger)
        acts = [
            self._grant,
            self._grant,
            self._ask,
            self._write,
            self._keep_up,
            self._collect,
            self._lease,
            self._renew,
        ]
        if self.world.setup.sending:
            sender = Sender(self, topics)
            acts += [*[sender.send] * 4, *[sender.stage] * 2, *[sender.publish] * 3]
        while True:
            with suppress(LedgerFull):
                await self.world.rng.choice(acts)(ledger)

    def _require_all(self, ledger: KafkaLedger) -> None:
        """Checks that the gateway knows all entries of the ledger up to its own entry of ownership."""
        there = self.world.truth.entries_up_to(ledger._fold.end.serial)
        if there is not None and self.known != there:
            raise Broken("KNOWN", f"{self.process.name} owns it and does not know {sorted(there ^ self.known)}")

    def knows(self, beginning: bytes) -> bool:
        return any(entry.startswith(beginning) for entry in self.known)

    async def append(
        self,
        ledger: KafkaLedger,
        entries: Sequence[bytes],
        changes: Sequence[OutputChange] = (),
        values: Sequence[bytes] = (),
    ) -> None:
        """Appends entries. `values`: the rows that go to users' topics with them."""
        try:
            await ledger.append(list(entries), list(changes))
        except (LedgerFull, LedgerFenced) as error:
            self.world.note(f"{self.process.name}: {entries} are refused: {error.detail}")
            self._tell(entries, values, refused=True)
            self._require_forgotten(ledger, changes)
            raise
        self.world.note(f"{self.process.name}: {entries} are acknowledged")
        self.wrote += 1
        self.known.update(entries)
        self._tell(entries, values, refused=False)

    def _require_forgotten(self, ledger: KafkaLedger, changes: Sequence[OutputChange]) -> None:
        """Checks that the ledger has no location for rows whose append was refused."""
        for change in changes:
            with suppress(KeyError):
                if isinstance(change, WriteRange):
                    (at,) = ledger._catalog.waiting([change.range_id])
                    raise Broken("TOLD", f"a location is returned for rows of a refused append: {at}")

    def _tell(self, entries: Sequence[bytes], values: Sequence[bytes], refused: bool) -> None:
        for entry in entries:
            self.world.truth.hear(entry, refused)
        for value in values:
            self.world.truth.users.hear(value, refused, is_staged=self.knows(STAGE + value))

    async def _grant(self, ledger: KafkaLedger) -> None:
        """Grants an id once, by an entry."""
        one = self.world.rng.choice(IDS)
        if self.knows(one):
            await self._write(ledger)
            return
        await self.append(ledger, [one + self._nonce()])
        truth = self.world.truth
        truth.granted[one] += 1
        if truth.granted[one] > 1:
            raise Broken("GRANTED", f"{one!r} is granted twice")

    async def _ask(self, ledger: KafkaLedger) -> None:
        """Asks for an entry. "Not there" requires a commit that began after the question."""
        await self.process.turn("is asked")
        before = sorted(self.world.truth.acknowledged)
        if not before:
            await self._write(ledger)
            return
        asked = self.world.rng.choice(before)
        await self._prove(ledger, self.world.setup.probing)
        if asked not in self.known:
            raise Broken("DENIED", f"{self.process.name} denies {asked!r}, which was acknowledged before")

    async def _lease(self, ledger: KafkaLedger) -> None:
        """Grants an expired lease to another holder, by an entry; the numbers order the holders."""
        holder = LEASE + b"%03d " % (len(self._holders()) + 1) + self._nonce()
        await self.append(ledger, [holder])
        self.world.truth.holder = max(self.world.truth.holder, holder)

    async def _renew(self, ledger: KafkaLedger) -> None:
        """Renews the lease of the holder known here, after a commit that began later."""
        await self.process.turn("is asked")
        asked, held = max(self._holders(), default=b""), self.world.truth.holder
        await self._prove(ledger, self.world.setup.renewing)
        if asked and held > asked:
            raise Broken("RENEWED", f"{self.process.name} renews {asked!r}, and {held!r} holds it")

    def _holders(self) -> list[bytes]:
        return [entry for entry in self.known if entry.startswith(LEASE)]

    async def _prove(self, ledger: KafkaLedger, proving: bool) -> None:
        if proving:
            await self.append(ledger, [b"probe" + self._nonce()])
        else:
            await self.process.turn("answers from memory")

    def _nonce(self) -> bytes:
        return self.world.rng.randbytes(6).hex().encode()

    async def _write(self, ledger: KafkaLedger) -> None:
        """Appends rows and an entry."""
        range_id = self.world.rng.randbytes(16)
        await self.append(ledger, [b"rows" + range_id.hex().encode()], [WriteRange(range_id, "s", 1, range_id)])

    async def _keep_up(self, ledger: KafkaLedger) -> None:
        await self.process.turn("keeps up")
        try:
            await ledger.keep_up()
        except OncegateError as error:
            ledger.end_beside(error)

    async def _collect(self, ledger: KafkaLedger) -> None:
        """Compacts like `KafkaLedger.compact`, but without threads: a piece of entries, a piece of the catalog, the
        frame."""
        mark, entries = ledger.mark, sorted(self.known)
        if mark.position <= ledger.compacted_position:
            await self._write(ledger)
            return
        places = []
        for piece in (entries, list(ledger._catalog.pieces())):
            places.append((await ledger._write_piece(encode_piece(piece)),))
        async with ledger._one:
            ledger.end.check()
            ledger._taking = NoChanges()  # type: ignore[assignment]
            try:
                if ledger.mark == mark:
                    await ledger._replace(mark, (places[0], places[1]))
            finally:
                ledger._taking = None
        self.world.note(f"{self.process.name} collects up to {mark.position}")


class Standby:
    """Reads the ledger continuously and owns nothing."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world

    async def live(self, _: Process) -> None:
        place = self.process.place
        while True:
            fold = Fold(LEDGER, "the standby")
            try:
                async with opening.reader(place.settings) as found:
                    first, _ = await found.bounds(place.frames)
                    while True:
                        end = await found.stable_end(place.frames)
                        async with aclosing(blobs.frames_of(found, place, first, end)) as frames:
                            async for frame in frames:
                                fold.take(frame)
                        first = max(first, end)
                        self._require_truth(fold)
            except (Trimmed, KafkaError, OSError):
                await self.process.turn("begins to read again")

    def _require_truth(self, fold: Fold) -> None:
        end = fold.end
        if end.serial and (end.serial, end.chain) not in self.world.truth.ends:
            raise Broken("STANDBY", f"it has read up to frame {end.serial} of another history")


async def walk(world: World) -> None:
    """Runs two gateways and a standby, then more. At the end all wake, and a gateway that opens alone can write."""
    for _ in range(2):
        start_gateway(world)
    world.start("standby", lambda process: Standby(process).live(process))
    await world.settle()
    for _ in range(world.setup.steps):
        world.disturb()
        if world.rng.random() < world.setup.starting or not world.step():
            start_gateway(world)
        await world.settle()
    await alone(world)


def start_gateway(world: World) -> Gateway:
    """Adds a gateway, which starts when the world settles."""
    found = Gateway(Process(world, ""))

    async def live(process: Process) -> None:
        found.process = process
        await found.live(process)

    world.start(f"G{len(world.processes)}", live)
    return found


async def writes(world: World, newest: list[Gateway]) -> None:
    """Checks that an entry is written after the newest gateways have opened the ledger or lost it to another."""
    await world.settle()
    before = None
    for _ in range(ALONE_STEPS):
        if world.stands_still():
            return
        written = len(world.truth.acknowledged)
        if before is None and all(one.opened or one.process.is_over for one in newest):
            before = written
        if before is not None and written > before:
            return
        if not world.step():
            raise Broken("ENDS", "the ledger has no owner and no candidate")
        await world.settle()
    raise Broken("ENDS", f"no gateway has written after {ALONE_STEPS} steps without a fault")


async def meet(world: World, first_steps: int, second_steps: int) -> None:
    """Runs two gateways without faults: one sleeps after `first_steps`, the other after `second_steps`, and so on."""
    one, other = start_gateway(world), start_gateway(world)
    await world.settle()
    for gateway, steps in ((one, first_steps), (other, second_steps), (one, ALONE_STEPS), (other, ALONE_STEPS)):
        wrote = gateway.wrote
        for _ in range(steps):
            if gateway.wrote > wrote + 1 or not world.step(gateway.process):
                break
            await world.settle()
    await writes(world, [start_gateway(world)])


async def alone(world: World) -> None:
    """Ends all faults and lets two gateways open at once."""
    world.heal()
    if world.stands_still():
        return
    for process in world.processes:
        process.dead = process.dead or world.rng.random() < 0.5
    for newest in (2, 1):
        await writes(world, [start_gateway(world) for _ in range(newest)])
        if world.stands_still():
            return
        for process in world.processes:
            process.dead = True
    world.truth.look()
    world.truth.require_named()
