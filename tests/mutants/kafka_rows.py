"""Planted bugs of a ledger on Kafka that turn a row of the crash matrix red: a gateway's process, over a real broker.

Not here, since no row has a standby, or lets a broker forget the marker of an abort: two that fence each other
(`kafka_standby.py`), and one transactional id that is kept over an abort (`kafka_matrix.py`); both in `kafka_models.py` too.
"""

from tests.mutants.edits import cell, delete, insert, replace, replace_statement
from tests.mutants.mutant import Mutant, one


def _row(name: str, step: int = 0) -> str:
    """Returns the test of a row; `step`: the append of its work that is struck: a claim, its completion, rows."""
    return f"tests/matrix/planted_rows.py::test_a_row_of_the_matrix_holds[{name}-{step}]"


KAFKA_ROWS: tuple[Mutant, ...] = (
    one(
        "a lost answer to a commit is reported as a refusal",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "self.fold is not None"),
        _row("end-answer-lost"),
    ),
    one(
        "a lost commit is reported as written",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "self.fold is None"),
        _row("end-lost", 2),
    ),
    one(
        "an append that brokers refuse is reported as written",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter.write",
        replace_statement("raise await self._refusal(error) from error", "return None"),
        _row("produce-held", 2),
    ),
    one(
        "an opener leaves open what its predecessor had begun",
        "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
        delete("await self._end_all(...)"),
        "tests/faults/kafka/test_standby_ledger.py::test_a_transaction_left_open_by_its_owner_blocks_no_reader",
    ),
    one(
        "a witness is written before the frame that it is of",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        insert(
            (
                "end = self._fold.end\n"
                "seen = type(end)(end.serial + 1, end.position + len(entries), bytes(16))\n"
                "await self._list.witness(self._place.name, self.epoch, seen)"
            ),
            before="sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)",
        ),
        _row("kill-before-end", 1),
    ),
    one(
        "no frame names the rows written with it",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append.changes_of",
        replace("[*changes, *sent]", "list(changes)"),
        _row("answer-produce", 2),
    ),
    one(
        "rows are committed before the frame that names them",
        "oncegate.ledgers.kafka.transactions.guard::Guard._write",
        replace_statement(
            "return offsets + await self._send(then(offsets), last)",
            ("if offsets:\n    await self._end()\nreturn offsets + await self._send(then(offsets), last)"),
        ),
        _row("kill-committed", 2),
    ),
    one(
        "a collection deletes frames before their replacement is written",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._write_piece",
        insert(
            ("await shorten(self._place.settings, {self._place.frames: self._fold.last_offset + 1})"),
            after="self.end.check()",
        ),
        _row("collect-before"),
    ),
    one(
        "a collector deletes what only a later collection replaces",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten",
        cell("self._place.frames", "self._fold.last_offset"),
        _row("collect-deleted"),
    ),
    one(
        "an opener wipes stages before the ledger is its own",
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
        _row("staged-open-ended"),
    ),
    one(
        "an owner that slept renews from memory",
        "oncegate.engine.commit.proven::answers.decorate.proven",
        replace("group_commit.fenced_by_appends and (not _stays_true(answer))", "answer is None"),
        _row("sleep-told"),
    ),
    one(
        "an opener replays without the last frame",
        "oncegate.ledgers.kafka.shard.opening::read_frames",
        replace_statement(
            "async for frame in frames:\n    ...",
            (
                "held = None\n"
                "async for frame in frames:\n"
                "    if held is not None:\n"
                "        fold.take(held)\n"
                "    held = frame"
            ),
        ),
        _row("kill-committed", 1),
    ),
    one(
        "a batch is in memory as a whole once it is sent",
        "oncegate.ledgers.kafka.rows.stream::RowStream.batches",
        insert("self.__dict__.setdefault('pieces', []).append(piece)", before="await self._ask(...)"),
        "tests/faults/kafka/test_large_batch.py",
    ),
)
