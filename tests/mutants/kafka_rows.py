"""Planted bugs of a ledger on Kafka that turn a row of the crash matrix red: a gateway's process, over a real broker.

Not here, since no row has a standby, or lets a broker forget the marker of an abort: two that fence each other
(`kafka_standby.py`), and one transactional id that is kept over an abort (`kafka_matrix.py`); both in `kafka_models.py` too.
"""

from tests.mutants.mutant import Mutant, one

_KAFKA = "service/oncegate/ledgers/kafka"
_SHARD = f"{_KAFKA}/shard"
_ENGINE = "service/oncegate/engine"


def _row(name: str, step: int = 0) -> str:
    """The row, and which append of its work is struck: a claim, its completion, rows."""
    return f"tests/matrix/planted_rows.py::test_a_row_of_the_matrix_holds[{name}-{step}]"


KAFKA_ROWS: tuple[Mutant, ...] = (
    one(
        "aiokafka alone ends transactions",
        f"{_KAFKA}/transactions/producer.py",
        "        self._end_once()\n",
        "",
        _row("rows-end-answer-lost"),
    ),
    one(
        "a lost answer to a commit is told as a refusal",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if self.fold is not None:\n",
        _row("end-answer-lost"),
    ),
    one(
        "a lost commit is told as written",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if self.fold is None:\n",
        _row("end-lost", 2),
    ),
    one(
        "what brokers refuse is told as written",
        f"{_SHARD}/writer.py",
        "            # Not by the brokers: rows that fitted their topic when they were taken, and do not now.\n"
        "            raise await self._refusal(error) from error\n",
        "            return None\n",
        _row("produce-held", 2),
    ),
    one(
        "an opener leaves open what its predecessor had begun",
        f"{_SHARD}/ownership.py",
        "        await self._end_all(range(max(taken.proved, 1), taken.highest))\n",
        "",
        "tests/faults/kafka/test_standby_ledger.py::test_a_transaction_that_its_owner_left_open_holds_nobody_up",
    ),
    one(
        "a witness is written before the frame that it is of",
        f"{_SHARD}/ledger.py",
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        "            end = self._fold.end\n"
        "            seen = type(end)(end.serial + 1, end.position + len(entries), bytes(16))\n"
        "            await self._list.witness(self._place.name, self.epoch, seen)\n"
        "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n",
        _row("kill-before-end", 1),
    ),
    one(
        "no frame says which rows it was written with",
        f"{_SHARD}/ledger.py",
        "                return [*changes, *sent]\n",
        "                return list(changes)\n",
        _row("answer-produce", 2),
    ),
    one(
        "rows are committed before the frame that names them",
        f"{_KAFKA}/transactions/guard.py",
        "        return offsets + await self._send(then(offsets), last)\n",
        "        if offsets:\n"
        "            await self._end()\n"
        "        return offsets + await self._send(then(offsets), last, begin=bool(offsets))\n",
        _row("kill-committed", 2),
    ),
    one(
        "a collection deletes frames before the one that stands for them",
        f"{_SHARD}/ledger.py",
        "            return await self._write_dying(self._writer.write_blob(blobs))\n",
        "            await shorten(self._place.settings, {self._place.frames: self._fold.last_offset + 1})\n"
        "            return await self._write_dying(self._writer.write_blob(blobs))\n",
        _row("collect-before"),
    ),
    one(
        "a collector deletes what only a later collection replaces",
        f"{_SHARD}/ledger.py",
        "        before = {self._place.frames: self._fold.ledger_from, self._place.states: compacted.states_from}\n",
        "        before = {self._place.frames: self._fold.last_offset, self._place.states: compacted.states_from}\n",
        _row("collect-deleted"),
    ),
    one(
        "an opener wipes stages before the ledger is its own",
        f"{_SHARD}/opening.py",
        "            read_to = await _own(",
        "            from oncegate.ledgers.kafka.shard import ledger\n"
        "            async with reader(place.settings) as found:\n"
        "                _, end = await found.bounds(place.stages)\n"
        "            await ledger.shorten(place.settings, {place.stages: end})\n"
        "            read_to = await _own(",
        _row("staged-open-ended"),
    ),
    one(
        "an owner that slept renews from memory",
        f"{_ENGINE}/commit/proven.py",
        "        if group_commit.fenced_by_appends and not _stays_true(found):\n",
        "        if found is None:\n",
        _row("sleep-told"),
    ),
    one(
        "an opener replays without the last frame",
        f"{_SHARD}/opening.py",
        "            async for frame in frames:\n                fold.take(frame)\n        return end\n",
        "            held = None\n"
        "            async for frame in frames:\n"
        "                if held is not None:\n"
        "                    fold.take(held)\n"
        "                held = frame\n"
        "        return end\n",
        _row("kill-committed", 1),
    ),
    one(
        "a batch is in memory as a whole once it is sent",
        "service/oncegate/ledgers/kafka/rows/stream.py",
        "            await self._ask(await self._topics(piece))\n",
        '            self.__dict__.setdefault("pieces", []).append(piece)\n'
        "            await self._ask(await self._topics(piece))\n",
        "tests/faults/kafka/test_large_batch.py",
    ),
)
