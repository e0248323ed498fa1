"""Planted bugs of the ledger on Kafka that the first walks of a model see: without brokers, each by the same seeds.

Those that have a test of a module's own too, on real brokers, stand in `kafka*.py` under names of their own.
"""

from tests.mutants.mutant import Mutant, one

_KAFKA = "service/oncegate/ledgers/kafka"
_SHARD = f"{_KAFKA}/shard"
_STANDBY = "service/oncegate/ledgers/remote"
_WALKS = "tests/model/kafka/test_walks.py::test_the_first_walks_keep_the_invariants"
_SENDERS = f"{_WALKS}[senders, faults]"
_LEADERLESS = f"{_WALKS}[senders, partitions without leaders]"
_FORGOTTEN = f"{_WALKS}[owners, forgotten markers]"
_STANDBYS = f"{_WALKS}[standbys]"

KAFKA_MODELS: tuple[Mutant, ...] = (
    one(
        "an append in doubt is told as refused while its rows are there",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if end is not None:\n",
        f"{_WALKS}[owners, faults]",
    ),
    one(
        "an append in doubt is told as written while its rows are not there",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if end is None:\n",
        f"{_WALKS}[owners, faults]",
    ),
    one(
        "one transactional id is kept over an abort",
        f"{_SHARD}/ownership.py",
        '        return f"{self._name}/{generation}"\n',
        '        return f"{self._name}/1"\n',
        f"{_WALKS}[standbys, forgotten markers]",
    ),
    one(
        "what a collection replaces is deleted before it is named",
        f"{_SHARD}/ledger.py",
        "        offset = await self._write_dying(self._writer.write((), (), lambda _: [compacted, *since]))\n",
        "        first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
        "        await shorten(self._place.settings, {self._place.frames: first[0]})\n"
        "        offset = await self._write_dying(self._writer.write((), (), lambda _: [compacted, *since]))\n",
        f"{_WALKS}[owners, sleepers]",
    ),
    one(
        "what was committed, and was told nowhere, is told as refused",
        f"{_SHARD}/writer.py",
        "            await self._read_on()\n            return None\n        self._require_grown(offset)",
        "            raise await self._refusal(NotWritten('untold')) from None\n        self._require_grown(offset)",
        _SENDERS,
    ),
    one(
        "a stage is given up before the frame that sends it",
        f"{_SHARD}/ledger.py",
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        "            sent = max((end_of(at) for at in ranges._waiting.values()), default=0)\n"
        "            await shorten(self._place.settings, {self._place.stages: sent})\n"
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        _SENDERS,
    ),
    one(
        "an opener gives up stages before its entry of ownership",
        f"{_SHARD}/opening.py",
        "            read_to = await _own(",
        "            from oncegate.ledgers.kafka.shard import ledger\n"
        "            async with reader(place.settings) as found:\n"
        "                _, end = await found.bounds(place.stages)\n"
        "            await ledger.shorten(place.settings, {place.stages: end})\n"
        "            read_to = await _own(",
        _SENDERS,
    ),
    one(
        "places are told of rows whose append was refused",
        f"{_SHARD}/ledger.py",
        "                self._suspend(error)\n",
        "                self._suspend(error)\n                self._fold.apply(changes)\n",
        _SENDERS,
    ),
    one(
        "rows that are sent stand in no frame",
        f"{_SHARD}/ledger.py",
        "                return [*changes, *sent]\n",
        "                return list(changes)\n",
        _SENDERS,
    ),
    one(
        "a topic that brokers refuse refuses one group after another",
        f"{_SHARD}/ledger.py",
        "            self._topics.suspend(refused, ",
        "            self._topics.suspend((), ",
        f"{_WALKS}[standbys, faults]",
    ),
    one(
        "a topic that brokers refuse takes the others with it",
        f"{_SHARD}/ledger.py",
        "            self._topics.suspend(refused, ",
        "            self._topics.suspend(self._topics.counts, ",
        _LEADERLESS,
    ),
    one(
        "a producer that has lost its broker writes on, and an abort takes what was acknowledged along",
        f"{_SHARD}/writer.py",
        "        if self._guard.is_worn:\n",
        "        if self._guard.closed:\n",
        _FORGOTTEN,
    ),
    one(
        "two standbys are chosen, the one that was late too",
        f"{_STANDBY}/election.py",
        "return self._next(listed) if (listed.holder, self._beat()) == self._seen else []",
        "return self._next(listed)",
        _STANDBYS,
    ),
    one(
        "standbys fence each other again and again",
        f"{_STANDBY}/election.py",
        "return not holder.gateway or (beat is not None and beat.gone) or",
        "return True or",
        _STANDBYS,
    ),
    one(
        "what a standby has read is the end of the ledger",
        f"{_SHARD}/opening.py",
        "            await _read_on(place, warm)\n",
        "",
        _STANDBYS,
    ),
    one(
        "a standby serves without what came after its last look",
        f"{_STANDBY}/following.py",
        "        if found.end.serial > serial + 1:\n",
        "        if found.end.serial < serial:\n",
        _STANDBYS,
    ),
    one(
        "a witness leads the ledger that it is of",
        f"{_SHARD}/ledger.py",
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        "            end = self._fold.end\n"
        "            seen = Witness(end.serial + 1, end.position + len(entries), bytes(16))\n"
        "            await self._list.witness(self._place.name, self.epoch, seen)\n"
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        f"{_WALKS}[owners, sleepers]",
    ),
    one(
        "an upkeep proves a generation that has ended none before it",
        f"{_SHARD}/ledger.py",
        "            await self._writer.ownership.prove(proved)\n",
        "            await self._writer.ownership.prove(self.epoch)\n",
        "tests/model/kafka/test_walks.py::test_walks_that_broke_once_keep_the_invariants",
    ),
    one(
        "stages that a newer owner has deleted are damage to one that slept",
        "service/oncegate/ledgers/kafka/shard/ledger.py",
        "        if isinstance(error, LedgerDamaged):\n            try:\n                await self._require_not_followed(error)\n"
        "            except (LedgerFenced, LedgerDown) as followed:\n",
        "        if isinstance(error, LedgerFull):\n            try:\n                await self._require_not_followed(error)\n"
        "            except (LedgerFenced, LedgerDown) as followed:\n",
        "tests/model/kafka/test_walks.py::test_walks_that_broke_once_keep_the_invariants",
    ),
)
