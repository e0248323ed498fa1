"""Planted bugs of the ledger on Kafka that the first walks of a model detect: without brokers, each by the same seeds.

Bugs that a module's own test on real brokers detects too are in `kafka*.py` under separate names.
"""

from tests.mutants.edits import delete, insert, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_WALKS = "tests/model/kafka/test_walks.py::test_the_first_walks_keep_the_invariants"
_SENDERS = f"{_WALKS}[senders, faults]"
_LEADERLESS = f"{_WALKS}[senders, partitions without leaders]"
_FORGOTTEN = f"{_WALKS}[owners, forgotten markers]"
_STANDBYS = f"{_WALKS}[standbys]"

KAFKA_MODELS: tuple[Mutant, ...] = (
    one(
        "a follower that has read no frame yet looks for the low end again",
        "oncegate.ledgers.kafka.followed::FollowedTopics._new_frames",
        replace("not self._has_begun", "not self._read_to"),
        "tests/model/kafka/test_walks.py::test_walks_that_broke_once_keep_the_invariants[standbys-47]",
    ),
    one(
        "an append in doubt is reported as refused although its rows exist",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "end is not None"),
        f"{_WALKS}[owners, faults]",
    ),
    one(
        "an append in doubt is reported as written although its rows do not exist",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "end is None"),
        f"{_WALKS}[owners, faults]",
    ),
    one(
        "one transactional id is kept over an abort",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._id",
        replace("f'{self._name}/{generation}'", "f'{self._name}/1'"),
        f"{_WALKS}[standbys, forgotten markers]",
    ),
    one(
        "frames that a collection replaces are deleted before they are named",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._replace",
        insert(
            (
                "first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
                "await shorten(self._place.settings, {self._place.frames: first[0]})"
            ),
            after=("compacted = self._compacted(mark, places, states_from, self._place.keys.wrap(self.key))"),
        ),
        f"{_WALKS}[owners, sleepers]",
    ),
    Mutant(
        "a commit without a reply is reported as refused",
        (
            (
                "oncegate.ledgers.kafka.shard.writer::FrameWriter.write",
                replace_statement("await self._read_on()", "raise await self._refusal(NotWritten('untold')) from None"),
            ),
            ("oncegate.ledgers.kafka.shard.writer::FrameWriter.write", delete("return None", nth=2)),
        ),
        (_SENDERS,),
    ),
    one(
        "a stage is given up before the frame that sends it",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        insert(
            (
                "sent = max((end_of(at) for at in ranges._waiting.values()), default=0)\n"
                "await shorten(self._place.settings, {self._place.stages: sent})"
            ),
            before="sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)",
        ),
        _SENDERS,
    ),
    one(
        "an opener gives up stages before its entry of ownership",
        "oncegate.ledgers.kafka.shard.opening::open_place",
        insert(
            (
                "from oncegate.ledgers.kafka.shard import ledger\n"
                "async with reader(place.settings) as found:\n"
                "    _, end = await found.bounds(place.stages)\n"
                "await ledger.shorten(place.settings, {place.stages: end})"
            ),
            after="require_key(...)",
        ),
        _SENDERS,
    ),
    one(
        "locations are returned for rows of a refused append",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        insert("self._fold.apply(changes)", after="self._suspend(...)"),
        _SENDERS,
    ),
    one(
        "no frame names the rows that are sent",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append.changes_of",
        replace("[*changes, *sent]", "list(changes)"),
        _SENDERS,
    ),
    one(
        "a topic that brokers refuse refuses one group after another",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._suspend",
        replace("self.topics.suspend(refused, str(error.__cause__))", "self.topics.suspend((), str(error.__cause__))"),
        f"{_WALKS}[standbys, faults]",
    ),
    one(
        "a topic that brokers refuse takes the others with it",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._suspend",
        replace(
            "self.topics.suspend(refused, str(error.__cause__))",
            "self.topics.suspend(self.topics.counts, str(error.__cause__))",
        ),
        _LEADERLESS,
    ),
    one(
        "a producer that has lost its broker writes on, and an abort takes what was acknowledged along",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._ready",
        replace("self._guard.is_worn", "self._guard.closed"),
        _FORGOTTEN,
    ),
    one(
        "two standbys are chosen, the one that was late too",
        "oncegate.ledgers.server.election::Election._elected",
        replace("self._next(listed) if (listed.holder, self._beat()) == self._seen else []", "self._next(listed)"),
        _STANDBYS,
    ),
    one(
        "standbys fence each other again and again",
        "oncegate.ledgers.server.election::Election._is_due",
        replace(
            ("not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s"),
            "True or now_s >= self._seen_s + self._takeover_s",
        ),
        _STANDBYS,
    ),
    one(
        "a standby takes its own position for the end of the ledger",
        "oncegate.ledgers.kafka.shard.opening::_read",
        delete("await _read_on(...)"),
        _STANDBYS,
    ),
    one(
        "a standby serves without what came after its last look",
        "oncegate.ledgers.server.following::Following._taken_over",
        replace("found.end.serial > serial + 1", "found.end.serial < serial"),
        _STANDBYS,
    ),
    one(
        "a witness leads the ledger that it is of",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        insert(
            (
                "end = self._fold.end\n"
                "seen = Witness(end.serial + 1, end.position + len(entries), bytes(16))\n"
                "await self._list.witness(self._place.name, self.epoch, seen)"
            ),
            before="sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)",
        ),
        f"{_WALKS}[owners, sleepers]",
    ),
    one(
        "an upkeep proves a generation that has ended none before it",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._prove",
        replace("self._writer.ownership.prove(proved)", "self._writer.ownership.prove(self.epoch)"),
        "tests/model/kafka/test_walks.py::test_walks_that_broke_once_keep_the_invariants",
    ),
    one(
        "stages that a newer owner has deleted are damage to one that slept",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._end_of",
        replace("isinstance(error, LedgerDamaged)", "isinstance(error, LedgerFull)"),
        "tests/model/kafka/test_walks.py::test_walks_that_broke_once_keep_the_invariants",
    ),
)
