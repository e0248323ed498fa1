"""The planted bugs of what clients write themselves: what a cell, a proof and an order are for."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX

_TABLE = "service/oncegate/core/direct.py"
_LANES = f"{ENGINE}/usecases/direct/lanes.py"
_ENTERING = f"{ENGINE}/usecases/direct/entering.py"
_TOPIC = "service/oncegate/ledgers/kafka/direct/topic.py"
_ENGINE = "tests/engine/usecases/test_direct_lanes.py"
_TRIMS = "tests/engine/usecases/test_direct_trims.py"
_KAFKA = "tests/faults/kafka/test_direct.py"
_TIMES = "tests/faults/kafka/test_direct_times.py"
_RIGHTS = "tests/faults/kafka/test_direct_rights.py"
_ABSENT = "    (Record.ABSENT, Reading.{}): Cell(\n        Told.{},"

_ACKED = f"{CLIENT}/spark/writers/direct/acked.py"
_TASK = f"{CLIENT}/spark/writers/direct/lanes.py"
_NOTES = "tests/client/spark/test_lane_acks.py"

DIRECT: tuple[Mutant, ...] = (
    one(
        "a lane is acked before the commit log names its batch",
        _ACKED,
        "        if self.batch > committed:\n",
        "        if self.batch > committed + 1:\n",
        f"{_NOTES}::test_a_batch_is_acked_once_the_commit_log_names_it_and_never_before",
    ),
    one(
        "a checkpoint that was set back keeps its later acks",
        _ACKED,
        "        if self.acked_batch > committed:\n",
        "        if self.acked_batch < -1:\n",
        f"{_NOTES}::test_of_a_checkpoint_that_was_set_back_nothing_later_is_known",
    ),
    one(
        "a query never acks its lanes",
        _TASK,
        "            return lane.transaction.ask(first, last, acked)\n",
        "            return lane.transaction.ask(first, last)\n",
        f"{_KAFKA}::test_a_query_acks_what_stands_in_its_commit_log_with_its_next_questions",
    ),
    one(
        "a row behind its lane's ack is dropped without a word",
        _TASK,
        "        if first <= acked:\n",
        "        if first < 0:\n",
        f"{_KAFKA}::test_rows_that_come_behind_their_ack_fail_their_task_and_are_not_dropped",
    ),
    one(
        "a lane's absence is told unread",
        _TABLE,
        _ABSENT.format("BEFORE", "READ_ON"),
        _ABSENT.format("BEFORE", "NOT_THERE"),
        f"{_ENGINE}::test_what_was_committed_is_a_duplicate_and_the_rest_is_not_there",
    ),
    one(
        "a lane's absence is told unproven",
        _TABLE,
        _ABSENT.format("READ", "COMMIT"),
        _ABSENT.format("READ", "NOT_THERE"),
        f"{_ENGINE}::test_an_absence_is_told_behind_an_append_that_began_after_the_reading",
        f"{_ENGINE}::test_an_owner_that_was_followed_while_it_slept_denies_nothing",
    ),
    one(
        "a lane's record is told before its entry",
        _TABLE,
        "_FOUND = Cell(\n    Told.COMMIT,",
        "_FOUND = Cell(\n    Told.DUPLICATE,",
        f"{_ENGINE}::test_a_duplicate_is_told_once_its_entry_is_durable",
    ),
    one(
        "what was entered is told as not there",
        _TABLE,
        "_ENTERED = Cell(\n    Told.DUPLICATE,",
        "_ENTERED = Cell(\n    Told.READ_ON,",
        "tests/core/test_direct_tables.py::test_only_what_is_entered_for_good_is_told_as_a_duplicate",
    ),
    one(
        "a foreign record is passed over",
        _TABLE,
        "        Entering.REFUSE,",
        "        Entering.ENTER,",
        f"{_ENGINE}::test_a_record_that_is_no_lanes_holds_its_partition_and_is_named",
    ),
    one(
        "what was written twice is not said",
        _TABLE,
        '        Entering.ENTER_AND_WARN,\n        "what was written twice',
        '        Entering.ENTER,\n        "what was written twice',
        f"{_ENGINE}::test_what_was_written_twice_is_told_and_said_in_the_log",
    ),
    one(
        "what was written twice is not counted",
        _ENTERING,
        "                journal.counts.add(LANE_DOUBLES)\n",
        "",
        f"{_ENGINE}::test_what_was_written_twice_is_told_and_said_in_the_log",
    ),
    one(
        "rows of lanes that were undone stay counted",
        f"{INDEX}/lanes.py",
        "            self._lanes[key], self._next[lane.partition], self.rows = lane, before, rows\n",
        "            self._lanes[key], self._next[lane.partition] = lane, before\n",
        "tests/index/test_lanes.py::test_entries_are_undone_newest_first",
    ),
    one(
        "a right that a lane's writer lacks is taken for a broker's trouble",
        f"{CLIENT}/direct/refusals.py",
        "        for one in (error, self._record, self._connection):\n",
        "        for one in ():\n",
        f"{_RIGHTS}::test_a_writer_needs_each_right_of_the_plan_and_no_other",
        f"{_RIGHTS}::test_a_wrong_password_is_told_and_not_waited_for_again",
    ),
    one(
        "what nobody wrote is acked",
        _TABLE,
        "_BEYOND = Cell(\n    Acking.REFUSE,",
        "_BEYOND = Cell(\n    Acking.ENTER,",
        f"{_ENGINE}::test_what_was_not_written_is_not_acked",
    ),
    one(
        "an ack covers what was not read yet",
        _TABLE,
        "_UNREAD = Cell(\n    Acking.READ_ON,",
        "_UNREAD = Cell(\n    Acking.ENTER,",
        f"{_ENGINE}::test_a_record_that_was_not_read_yet_is_no_copy_of_what_is_acked",
    ),
    one(
        "an ack of holes changes nothing",
        _TABLE,
        "_OPEN = Cell(\n    Acking.ENTER,",
        "_OPEN = Cell(\n    Acking.NOTHING,",
        f"{_ENGINE}::test_what_is_acked_is_one_interval_and_its_holes_are_told_as_written",
    ),
    one(
        "records are trimmed before their entry",
        _TABLE,
        "    EntryState.QUEUED: Cell(\n        Trimming.KEEP,",
        "    EntryState.QUEUED: Cell(\n        Trimming.TRIM,",
        f"{_TRIMS}::test_an_owner_that_was_followed_trims_nothing",
    ),
    one(
        "records are trimmed unproven",
        _TABLE,
        "    EntryState.DURABLE: Cell(\n        Trimming.KEEP,",
        "    EntryState.DURABLE: Cell(\n        Trimming.TRIM,",
        f"{_TRIMS}::test_an_owner_that_was_followed_trims_nothing",
    ),
    one(
        "a lane's proof began before the reading",
        _LANES,
        "                    await self._journal.group_commit.owned(reached.since)\n",
        "                    await self._journal.group_commit.owned(0)\n",
        f"{_ENGINE}::test_an_absence_is_told_behind_an_append_that_began_after_the_reading",
    ),
    one(
        "records taken back count as read",
        _LANES,
        "            if self._index.next_offset(lane.partition) < reached.next_offset:\n",
        "            if False:\n",
        f"{_ENGINE}::test_what_a_refused_append_takes_back_is_read_again",
    ),
    one(
        "who asks later shares a reading that has begun",
        _ENTERING,
        "            del self._next[partition]\n            first =",
        "            first =",
        f"{_ENGINE}::test_all_who_ask_while_a_partition_is_read_share_the_next_reading",
    ),
    one(
        "a sleeper takes trimmed records for damage",
        _ENTERING,
        "                await self._proven()\n                raise\n",
        "                raise\n",
        f"{_ENGINE}::test_an_owner_that_misses_what_its_successor_has_trimmed_is_not_damaged",
    ),
    one(
        "a question waits for ever",
        _LANES,
        "        bounded = Deadline(self._journal.clock, ASK_MS if deadline.left_ms is None else",
        "        bounded = Deadline(self._journal.clock, None if deadline.left_ms is None else",
        f"{_ENGINE}::test_a_question_without_a_deadline_has_one",
    ),
    one(
        "a topic of lanes takes rows",
        f"{ENGINE}/usecases/topics.py",
        "        if self._journal.index.lanes.writes(topic):\n",
        "        if False:\n",
        f"{_ENGINE}::test_a_topic_is_written_one_way",
    ),
    one(
        "lanes are forgotten by a snapshot",
        f"{INDEX}/snapshot/pieces.py",
        "                self._lanes.restore(",
        "                (lambda saved: None)(",
        "tests/index/test_lanes.py::test_lanes_come_back_from_a_snapshot_with_where_they_are_read_on",
    ),
    one(
        "a lane is read to its stable end",
        _TOPIC,
        "            low, end = await found.bounds(at)\n",
        "            (low, _), end = await found.bounds(at), await found.stable_end(at)\n",
        f"{_KAFKA}::test_another_lanes_open_transaction_holds_a_question_until_its_deadline",
    ),
    one(
        "a writer asks and does not start",
        f"{CLIENT}/direct/transaction.py",
        '        own = _OWN | {"transactional.id": lane.transactional_id,',
        '        own = _OWN | {"transactional.id": f"{lane.transactional_id}-{id(self)}",',
        f"{_KAFKA}::test_a_twin_that_starts_later_fences_the_one_before",
    ),
    one(
        "rows are committed without their record",
        f"{CLIENT}/direct/transaction.py",
        "            self._producer.produce(self._lane.topic, record, partition=self._lane.partition)\n",
        "",
        f"{_KAFKA}::test_each_row_is_written_once_however_often_it_is_brought",
    ),
    one(
        "a row that no broker takes is told as unknown",
        f"{CLIENT}/direct/transaction.py",
        "        if error.txn_requires_abort() or self._is_open:\n",
        "        if error.txn_requires_abort():\n",
        f"{_KAFKA}::test_a_row_that_no_broker_takes_is_refused_and_nothing_is_unknown",
    ),
    one(
        "a transaction may end before its commit",
        f"{CLIENT}/direct/transaction.py",
        "        return max(TRANSACTION_MS, longest_ms)\n",
        "        return TRANSACTION_MS\n",
        "tests/client/spark/test_direct.py::"
        "test_a_transaction_is_open_for_a_minute_and_never_shorter_than_its_commit_may_take",
    ),
    one(
        "a transaction as long as its commit is refused",
        f"{CLIENT}/direct/transaction.py",
        "    if given_ms < longest_ms:\n",
        "    if given_ms <= longest_ms:\n",
        "tests/client/spark/test_direct.py::"
        "test_a_transaction_is_open_for_a_minute_and_never_shorter_than_its_commit_may_take",
    ),
    one(
        "a transaction that was too slow is told as a twin's",
        f"{CLIENT}/direct/transaction.py",
        "            if self._open_ms >= self._transaction_ms:\n",
        "            if self._open_ms > self._transaction_ms:\n",
        f"{_TIMES}::test_a_transaction_that_brokers_ended_since_it_was_too_slow_is_told_so_with_the_line_to_write",
    ),
)
