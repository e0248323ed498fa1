"""What processes of a walk do: gateways that open and use the ledger, a standby that reads it, and the walk itself."""

from contextlib import aclosing, suppress

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull, OncegateError
from oncegate.ledgers.kafka.namespaces import NamespaceList
from oncegate.ledgers.kafka.reading import Trimmed
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard import opening
from oncegate.ledgers.kafka.shard.blobs import Blobs, location
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.snapshot_pieces import encode_piece
from oncegate.ports import WriteRange
from tests.model.kafka.world import ALONE_STEPS, LEDGER, Process, World
from tests.model.kit.replies import Broken

IDS = tuple(b"id-%02d" % number for number in range(4))
OPENINGS_MAX = 12


class NoChanges:
    """In place of a snapshot under way: nothing changes while it is written."""

    changes_since: tuple[()] = ()

    def changed(self, changes: object) -> None:
        """Nothing is kept."""


class Gateway:
    """Owns the ledger until it is fenced or in doubt. `known`: its memory, of entries that are there."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.known: set[bytes] = set()
        self.opened = 0
        self.wrote = 0

    async def live(self, _: Process) -> None:
        for _ in range(OPENINGS_MAX):
            listed = NamespaceList({"process": self.process}, "p", self.process.place.deadlines)
            try:
                opened = await opening.open_place(self.process.place, listed, lambda _: [])
                ledger = KafkaLedger(self.process.place, opened, listed, UserTopics({}, "", "p."))
                self.known = {bytes(one.body) async for some in ledger.replay(1) for one in some}
                self.opened += 1
                await self._serve(ledger)
            except (LedgerFull, LedgerDown) as error:
                self.world.note(f"{self.process.name} opens anew: {error.detail}")

    async def _serve(self, ledger: KafkaLedger) -> None:
        """Raises LedgerDown, LedgerFenced at its end."""
        while True:
            what = self.world.rng.choice(
                (self._grant, self._grant, self._ask, self._write, self._keep_up, self._collect)
            )
            with suppress(LedgerFull):
                await what(ledger)

    async def _append(self, ledger: KafkaLedger, entry: bytes, *ranges: WriteRange) -> None:
        try:
            await ledger.append([entry], list(ranges))
        except (LedgerFull, LedgerFenced) as error:
            self.world.note(f"{self.process.name}: {entry!r} is refused: {error.detail}")
            self.world.truth.hear(entry, refused=True)
            raise
        self.world.note(f"{self.process.name}: {entry!r} is acknowledged")
        self.wrote += 1
        self.known.add(entry)
        self.world.truth.hear(entry, refused=False)

    async def _grant(self, ledger: KafkaLedger) -> None:
        """Somebody asks for an id: it is granted once, by an entry."""
        one = self.world.rng.choice(IDS)
        if any(entry.startswith(one) for entry in self.known):
            await self._write(ledger)
            return
        await self._append(ledger, one + self.world.rng.randbytes(6).hex().encode())
        truth = self.world.truth
        truth.granted[one] += 1
        if truth.granted[one] > 1:
            raise Broken("GRANTED", f"{one!r} is granted twice")

    async def _ask(self, ledger: KafkaLedger) -> None:
        """Somebody asks for an entry; "not there" is told behind a commit that began after the question."""
        before = sorted(self.world.truth.acknowledged)
        if not before:
            await self._write(ledger)
            return
        asked = self.world.rng.choice(before)
        if self.world.setup.probing:
            await self._append(ledger, b"probe" + self.world.rng.randbytes(6).hex().encode())
        else:
            await self.process.turn("answers from memory")
        if asked not in self.known:
            raise Broken("DENIED", f"{self.process.name} denies {asked!r}, which was acknowledged before")

    async def _write(self, ledger: KafkaLedger) -> None:
        """Rows and an entry."""
        range_id = self.world.rng.randbytes(16)
        await self._append(ledger, b"rows" + range_id.hex().encode(), WriteRange(range_id, "s", 1, range_id))

    async def _keep_up(self, ledger: KafkaLedger) -> None:
        await self.process.turn("keeps up")
        try:
            await ledger.keep_up()
        except OncegateError as error:
            ledger.end(error)

    async def _collect(self, ledger: KafkaLedger) -> None:
        """As `KafkaLedger.compact` does, without its threads: a piece of entries, a piece of the catalog, the frame."""
        mark, entries = ledger.mark, sorted(self.known)
        if mark.position <= ledger.compacted_position:
            await self._write(ledger)
            return
        places = []
        for piece in (entries, list(ledger._catalog.pieces())):
            data = encode_piece(piece)
            (offset,) = await ledger._write_piece(Blobs(self.process.place.states, [data]))
            places.append((location(offset, data),))
        async with ledger._one:
            ledger._require_alive()
            ledger._taking = NoChanges()  # type: ignore[assignment]
            try:
                if ledger.mark == mark:
                    await ledger._replace(mark, (places[0], places[1]))
            finally:
                ledger._taking = None
        self.world.note(f"{self.process.name} collects up to {mark.position}")


class Standby:
    """Reads the ledger on and on, and owns nothing."""

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
                        async with aclosing(opening.frames_of(found, place, first, end)) as frames:
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
    """Two gateways and a standby, then more; in the end everything wakes, and one that opens alone can write."""
    for _ in range(2):
        start_gateway(world)
    world.start("standby", lambda process: Standby(process).live(process))
    await world.settle()
    for _ in range(world.setup.steps):
        world.disturb()
        if world.rng.random() < world.setup.starting or not world.step():
            start_gateway(world)
        await world.settle()
    # Records of a lost abort keep a partition from being read further: it is safe, and stands still.
    if not world.setup.leaderless:
        await alone(world)


def start_gateway(world: World) -> Gateway:
    """One more gateway, which lives as soon as the world settles."""
    found = Gateway(Process(world, ""))

    async def live(process: Process) -> None:
        found.process = process
        await found.live(process)

    world.start(f"G{len(world.processes)}", live)
    return found


async def writes(world: World, newest: list[Gateway]) -> None:
    """Somebody writes, once the newest gateways have opened the ledger or were told that another has."""
    await world.settle()
    before = None
    for _ in range(ALONE_STEPS):
        written = len(world.truth.acknowledged)
        if before is None and all(one.opened or one.process.is_over for one in newest):
            before = written
        if before is not None and written > before:
            return
        if not world.step():
            raise Broken("ENDS", "nobody owns the ledger, and nobody asks for it")
        await world.settle()
    raise Broken("ENDS", f"nobody has written after {ALONE_STEPS} steps without a fault")


async def meet(world: World, first_steps: int, second_steps: int) -> None:
    """Two gateways without faults: one sleeps after so many steps, the other after so many of its own, and so on."""
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
    """Nothing fails any more, and two gateways open at once."""
    world.note("-- from here on nothing fails")
    world.steady = True
    while world.late:
        world.deliver_late()
    for process in world.processes:
        process.asleep = False
        process.dead = process.dead or world.rng.random() < 0.5
    await writes(world, [start_gateway(world), start_gateway(world)])
    for process in world.processes:
        process.dead = True
    await writes(world, [start_gateway(world)])
    world.truth.look()
    world.truth.require_named()
