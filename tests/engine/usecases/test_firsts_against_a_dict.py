"""Row offsets and results against dictionaries: a returned offset is that of the row, a returned result the first one.

Requests share an append, which the disk may refuse. Between them leases expire, the ledger is compacted, and the
gateway restarts.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import LedgerFull, ReleasedClaim, UnknownClaim
from oncegate.engine.commit.room import PROBE_MS
from oncegate.engine.requests import ClaimRequest, ProduceRequest, ProduceResult, TakeRequest, TopicRequest
from tests.support.ledger_tools import SEED
from tests.support.located import ids_of, places, results
from tests.support.memory_gateway import GatedLedgers, Served, id16, rows_of, serving, verdicts_of, wait_until

GATEWAYS, STEPS = 3, 30
IDS = 40
PARTITIONS = {"topic": 1, "other": 3}
LOCATED_ENTRIES = 3
Place = tuple[str, int, int]


@dataclass
class Truth:
    """The expected answers. `place`: of each row as read from the topics. `done`: each id's claim, empty if
    unclaimed."""

    place: dict[int, Place] = field(default_factory=dict)
    read_to: dict[tuple[str, int], int] = field(default_factory=dict)
    done: dict[int, bytes] = field(default_factory=dict)
    holder: dict[int, bytes] = field(default_factory=dict)
    ended: set[bytes] = field(default_factory=set)
    result: dict[bytes, bytes | None] = field(default_factory=dict)
    # For each row: its entry, the ledger's end before the request, and whether the entry has other rows.
    entry: dict[int, tuple[Place, int, bool]] = field(default_factory=dict)
    written: dict[bytes, set[int]] = field(default_factory=dict)


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed, self.truth = random.Random(seed), seed, Truth()
        self.tokens = self.places = self.unknown = self.results = self.refused = self.compacted = 0
        self.asked: list[tuple[str, bytes, list[int], str]] = []
        self.claims: list[bytes] = []
        self.served: Served

    async def life(self, ledgers: GatedLedgers) -> None:
        async with serving(ledgers, collect_bytes=1, located_entries=LOCATED_ENTRIES) as self.served:
            for topic, partitions in PARTITIONS.items():
                await self.served.namespace.topics.create(TopicRequest(topic, partitions), self.served.deadline())
            for _ in range(STEPS):
                await self.step()

    async def step(self) -> None:
        served, rng = self.served, self.rng
        what = rng.random()
        if what < 0.25:
            served.clock.advance(rng.choice([10_000, 40_000, 40_000, 10**6]))
        compacts = what > 0.93
        if compacts:
            served.disk.collect_gate.clear()
            self.compact()
        await self.together(rng.randrange(1, 5))
        if compacts:
            served.disk.collect_gate.set()
            await wait_until(lambda: not served.shard.snapshotter.compacting)
            self.compacted += 1
        await self.read()

    def compact(self) -> None:
        scheduler = self.served.shard.scheduler
        scheduler._snapshot_bytes = 0
        scheduler.compact()

    async def together(self, count: int) -> None:
        """Makes requests the later of which are decided before the first is durable, and checks their answers
        afterwards."""
        served, begun = self.served, list[tuple[Any, Callable[[Any], None]]]()
        before = served.namespace.mark.position
        served.disk.hold()
        served.disk.faults = ["full"] if self.rng.random() < 0.08 else []
        for _ in range(count):
            request, learn = self.request(before)
            begun.append((await served.begin(request), learn))
        await served.disk.release()
        told = []
        for task, learn in begun:
            try:
                told.append((await task, learn))
            except LedgerFull:
                self.refused += 1
            except (UnknownClaim, ReleasedClaim) as error:
                told.append((error, learn))
        checks = [learn(answer) for answer, learn in told]
        await self.read()
        for check in checks:
            if check is not None:
                check()
        if served.disk.faults or not served.shard.group_commit.open:
            served.disk.faults = []
            served.clock.advance(PROBE_MS)
            await wait_until(lambda: served.shard.group_commit.open)

    def request(self, before: int) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        rng = self.rng
        kind = rng.choice(["claim", "claim", "produce", "produce", "take", "settle", "settle"])
        if kind == "settle" and self.claims:
            return self.settle()
        self.tokens += 1
        token, topic = id16(self.tokens), rng.choice(["topic", "topic", "other"])
        numbers = [rng.randrange(IDS) + 10 * (self.tokens // 8) for _ in range(rng.choice([1, 1, 2, 4, 8]))]
        if kind == "produce" and rng.random() < 0.6:
            # Claimed ids, possibly taken over, among new ones: the entry has their order.
            held = sorted(self.truth.holder)
            numbers += rng.sample(held, min(3, len(held)))
            rng.shuffle(numbers)
        if self.asked and rng.random() < 0.15:
            kind, token, numbers, topic = rng.choice(self.asked)
        elif kind != "settle":
            self.asked.append((kind, token, numbers, topic))
        if kind == "produce":
            return self.produce(token, numbers, topic, before)
        if kind == "take":
            return self.take(numbers)
        return self.claim(token, numbers)

    def claim(self, token: bytes, numbers: list[int]) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        ask = ClaimRequest(token, 1, ids_of(self.served, numbers), locate=True)

        def learn(answer: Any) -> Callable[[], None]:
            self.decided(numbers, answer)
            for number, verdict in zip(numbers, verdicts_of(answer), strict=True):
                if verdict.startswith("GRANTED"):
                    assert answer.claim is not None
                    self.truth.holder[number] = answer.claim
            if answer.claim is not None:
                self.claims.append(answer.claim)
            return self.check(numbers, answer)

        return self.served.shard.claims.claim(ask, self.served.deadline()), learn

    def take(self, numbers: list[int]) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        owner = self.rng.choice([b"o" * 16, b"p" * 16])
        ask = TakeRequest(owner, ids_of(self.served, numbers), locate=True)

        def learn(answer: Any) -> Callable[[], None]:
            for number, verdict in zip(numbers, verdicts_of(answer), strict=True):
                if verdict.startswith("GRANTED"):
                    assert self.truth.done.get(number, owner) == owner
                    self.truth.done[number] = owner
                    self.truth.holder.pop(number, None)
            return self.check(numbers, answer)

        return self.served.shard.claims.take(ask, self.served.deadline()), learn

    def produce(
        self, token: bytes, numbers: list[int], topic: str, before: int
    ) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        rows, namespace = rows_of(*numbers), self.served.namespace
        keys = namespace.row_fingerprints.keys_of(rows.batches[0], ["n"]) if PARTITIONS[topic] > 1 else None
        ask = ProduceRequest(topic, token, 1, rows, ids_of(self.served, numbers), keys, locate=True)

        def learn(answer: Any) -> Callable[[], None]:
            self.decided(numbers, answer)
            granted = {
                number
                for number, verdict in zip(numbers, verdicts_of(answer), strict=True)
                if verdict.startswith("GRANTED")
            }
            for number in granted:
                self.truth.done[number] = b""
                self.truth.holder.pop(number, None)
            assert answer.rows == len(granted)
            earlier = set(self.truth.written.get(token, ()))
            self.truth.written[token] = earlier | granted

            def check() -> None:
                place = self.truth.place
                for span in answer.spans:
                    within = {(topic, span.partition, span.first_offset + row) for row in range(span.rows)}
                    for number in granted:
                        if place[number] in within:
                            entry = (topic, span.partition, span.first_offset)
                            self.truth.entry[number] = (entry, before, span.rows > 1)
                told = {
                    (topic, span.partition, span.first_offset + row)
                    for span in answer.before
                    for row in range(span.rows)
                }
                assert not told or told == {place[number] for number in earlier}, self.seed
                self.check(numbers, answer)()

            return check

        return namespace.records.produce(ask, self.served.deadline()), learn

    def settle(self) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        rng, truth = self.rng, self.truth
        claim, verb = rng.choice(self.claims[-8:]), rng.choice([Verb.COMPLETE, Verb.COMPLETE, Verb.RELEASE])
        result = rng.choice([None, rng.randbytes(3), b"same"]) if verb is Verb.COMPLETE else None

        def learn(answer: Any) -> None:
            ids = [number for number, holder in truth.holder.items() if holder == claim]
            if isinstance(answer, UnknownClaim | ReleasedClaim):
                assert not ids or claim in truth.ended, (self.seed, claim)
                return
            if claim not in truth.ended:
                truth.ended.add(claim)
                assert answer.settled == len(ids), self.seed
                for number in ids:
                    del truth.holder[number]
                    if answer.state is ClaimState.DONE:
                        truth.done[number] = claim
                if answer.state is ClaimState.DONE:
                    truth.result[claim] = result
            if verb is Verb.COMPLETE and ids_of_claim(truth, claim):
                first = truth.result[claim]
                assert answer.result == first, self.seed
                assert answer.other_result == (result is not None and result != first), self.seed

        return self.served.shard.claims.settle(verb, claim, self.served.deadline(), result), learn

    def decided(self, numbers: list[int], answer: Any) -> None:
        for number, verdict in zip(numbers, verdicts_of(answer), strict=True):
            if verdict != "SAME":
                assert verdict.startswith("DUPLICATE") == (number in self.truth.done), (self.seed, number, verdict)

    def check(self, numbers: list[int], answer: Any) -> Callable[[], None]:
        """Compares the answer once the topics are read."""

        def check() -> None:
            verdicts, truth = verdicts_of(answer), self.truth
            duplicates = [n for n, verdict in zip(numbers, verdicts, strict=True) if verdict.startswith("DUPLICATE")]
            several = {truth.entry[n][0] for n in duplicates if n in truth.entry and truth.entry[n][2]}
            told = zip(numbers, verdicts, places(answer), results(answer), strict=True)
            for number, verdict, place, result in told:
                if not verdict.startswith("DUPLICATE"):
                    is_written = isinstance(answer, ProduceResult) and verdict.startswith("GRANTED")
                    assert (place, result) == (truth.place[number] if is_written else None, None), self.seed
                    continue
                assert result == truth.result.get(truth.done[number]), (self.seed, number)
                self.results += result is not None
                if place is None and number in truth.place:
                    self.unknown += 1
                    _, before, with_others = truth.entry[number]
                    is_compacted = before < self.served.shard.marks.compacted_to
                    assert with_others, (self.seed, number)
                    assert is_compacted or len(several) > LOCATED_ENTRIES, (self.seed, number)
                else:
                    assert place == truth.place.get(number), (self.seed, number)
                    self.places += place is not None

        return check

    async def read(self) -> None:
        """Reads new rows of the topics and checks that no id occurs twice."""
        for topic, partitions in PARTITIONS.items():
            for partition in range(partitions):
                key = topic, partition
                offset = self.truth.read_to.get(key, 0)
                fetched = await self.served.namespace.topics.fetch(topic, partition, offset, 1_000, 1 << 40)
                for chunk in fetched.chunks:
                    rows = pa.ipc.open_stream(chunk.data).read_all()["n"].to_pylist()
                    for row, number in enumerate(rows, chunk.first_offset):
                        assert number not in self.truth.place, (self.seed, number)
                        self.truth.place[number] = (topic, partition, row)
                        self.truth.read_to[key] = row + 1


def ids_of_claim(truth: Truth, claim: bytes) -> list[int]:
    return [number for number, one in truth.done.items() if one == claim]


async def test_returned_offsets_and_results_are_those_of_the_first_and_are_unknown_only_where_marked() -> None:
    print("seed", SEED)
    walk, ledgers = Walk(SEED), GatedLedgers()
    ledgers._stores["default"].key = bytes(32)
    for _ in range(GATEWAYS):
        await walk.life(ledgers)
    counts = {
        "places": walk.places,
        "unknown": walk.unknown,
        "results": walk.results,
        "refused": walk.refused,
        "compacted": walk.compacted,
    }
    print(counts)
    assert min(counts.values()) > 2, counts
