"""Planted bugs of records that clients write themselves: cells, proofs and the order of steps."""

from tests.mutants.edits import cell, delete, replace, shift, without
from tests.mutants.mutant import Mutant, one

_ENGINE = "tests/engine/usecases/test_direct_lanes.py"
_TRIMS = "tests/engine/usecases/test_direct_trims.py"
_KAFKA = "tests/faults/kafka/test_direct.py"
_TIMES = "tests/faults/kafka/test_direct_times.py"
_RIGHTS = "tests/faults/kafka/test_direct_rights.py"

_NOTES = "tests/client/spark/test_lane_acks.py"

DIRECT: tuple[Mutant, ...] = (
    one(
        "a lane is acked before the commit log names its batch",
        "oncegate_spark.spark.writers.direct.acked::Noted.seen",
        replace("self.batch > committed", "self.batch > committed + 1"),
        f"{_NOTES}::test_a_batch_is_acked_once_the_commit_log_names_it_and_never_before",
    ),
    one(
        "a checkpoint that was set back keeps its later acks",
        "oncegate_spark.spark.writers.direct.acked::Noted.seen",
        replace("self.acked_batch > committed", "self.acked_batch < -1"),
        f"{_NOTES}::test_of_a_checkpoint_that_was_set_back_nothing_later_is_known",
    ),
    one(
        "a query never acks its lanes",
        "oncegate_spark.spark.writers.direct.lanes::TaskLanes._written",
        replace("lane.transaction.ask(first, last, acked)", "lane.transaction.ask(first, last)"),
        f"{_KAFKA}::test_a_query_acks_the_batches_in_its_commit_log_with_its_next_questions",
    ),
    one(
        "a row below its lane's ack is dropped silently",
        "oncegate_spark.spark.writers.direct.lanes::TaskLanes._written",
        replace("first <= acked", "first < 0"),
        f"{_KAFKA}::test_rows_that_come_behind_their_ack_fail_their_task_and_are_not_dropped",
    ),
    one(
        "a row's absence is reported before the topic was read",
        "oncegate.core.direct::ASK",
        replace("QuestionOutcome.READ_ON", "QuestionOutcome.NOT_THERE"),
        f"{_ENGINE}::test_committed_sequences_are_duplicates_and_the_rest_is_absent",
    ),
    one(
        "a row's absence is reported without proof",
        "oncegate.core.direct::ASK",
        replace("QuestionOutcome.COMMIT", "QuestionOutcome.NOT_THERE"),
        f"{_ENGINE}::test_an_absence_is_answered_after_an_append_that_began_after_the_reading",
        f"{_ENGINE}::test_an_owner_that_was_followed_while_it_slept_denies_nothing",
    ),
    one(
        "a lane's record is reported before its entry",
        "oncegate.core.direct::_FOUND",
        replace("QuestionOutcome.COMMIT", "QuestionOutcome.DUPLICATE"),
        f"{_ENGINE}::test_a_duplicate_is_answered_once_its_entry_is_durable",
    ),
    one(
        "an entered row is reported as absent",
        "oncegate.core.direct::_ENTERED",
        replace("QuestionOutcome.DUPLICATE", "QuestionOutcome.READ_ON"),
        "tests/core/test_direct_tables.py::test_only_permanently_entered_sequences_are_reported_as_duplicates",
    ),
    one(
        "a foreign record is passed over",
        "oncegate.core.direct::ENTER",
        replace("Entering.REFUSE", "Entering.ENTER"),
        f"{_ENGINE}::test_a_record_that_is_no_lanes_holds_its_partition_and_is_named",
    ),
    one(
        "rows written twice are not reported",
        "oncegate.core.direct::ENTER",
        replace("Entering.ENTER_AND_WARN", "Entering.ENTER"),
        f"{_ENGINE}::test_sequences_written_twice_are_reported_and_logged",
    ),
    one(
        "rows written twice are not counted",
        "oncegate.engine.usecases.direct.entering::DirectEntering._enter",
        delete("journal.counts.add(...)"),
        f"{_ENGINE}::test_sequences_written_twice_are_reported_and_logged",
    ),
    Mutant(
        "rows of lanes that were undone stay counted",
        (
            ("oncegate.index.lanes::LaneIndex._enter.undo", without("self.rows")),
            ("oncegate.index.lanes::LaneIndex._enter.undo", without("rows")),
        ),
        ("tests/index/test_lanes.py::test_entries_are_undone_newest_first",),
    ),
    one(
        "a right that a lane's writer lacks is taken for a broker's trouble",
        "oncegate_spark.direct.transaction::Heard.refusal",
        replace("(error, self._record, self._connection)", "()"),
        f"{_RIGHTS}::test_a_writer_needs_each_right_of_the_plan_and_no_other",
        f"{_RIGHTS}::test_a_wrong_password_is_reported_and_not_retried",
    ),
    one(
        "unwritten rows are acked",
        "oncegate.core.direct::_BEYOND",
        replace("Acking.REFUSE", "Acking.ENTER"),
        f"{_ENGINE}::test_unwritten_sequences_are_not_acked",
    ),
    one(
        "an ack covers what was not read yet",
        "oncegate.core.direct::_UNREAD",
        replace("Acking.READ_ON", "Acking.ENTER"),
        f"{_ENGINE}::test_a_record_that_was_not_read_yet_is_no_copy_of_what_is_acked",
    ),
    one(
        "an ack of holes changes nothing",
        "oncegate.core.direct::_OPEN",
        replace("Acking.ENTER", "Acking.NOTHING"),
        f"{_ENGINE}::test_acked_sequences_are_one_interval_and_its_gaps_are_reported_as_written",
    ),
    one(
        "records are trimmed before their entry",
        "oncegate.core.direct::TRIM",
        cell(
            "EntryState.QUEUED",
            (
                "Cell(Trimming.TRIM, 'a record is kept until its entry is durable', 'nothing "
                "else says that it was written (P1)')"
            ),
        ),
        f"{_TRIMS}::test_an_owner_that_was_followed_trims_nothing",
    ),
    one(
        "records are trimmed unproven",
        "oncegate.core.direct::TRIM",
        cell(
            "EntryState.DURABLE",
            (
                "Cell(Trimming.TRIM, 'an owner that was followed deletes nothing', 'its "
                "successor may be reading there (P1)')"
            ),
        ),
        f"{_TRIMS}::test_an_owner_that_was_followed_trims_nothing",
    ),
    one(
        "a lane's proof began before the reading",
        "oncegate.engine.usecases.direct.lanes::DirectLanes.ask",
        replace("reached.since", "0"),
        f"{_ENGINE}::test_an_absence_is_answered_after_an_append_that_began_after_the_reading",
    ),
    one(
        "records taken back count as read",
        "oncegate.engine.usecases.direct.lanes::DirectLanes.ask",
        replace("self._index.next_offset(lane.partition) < reached.next_offset", "False"),
        f"{_ENGINE}::test_records_undone_by_a_refused_append_are_read_again",
    ),
    one(
        "who asks later shares a reading that has begun",
        "oncegate.engine.usecases.direct.entering::DirectEntering._turn",
        delete("del self._next[partition]"),
        f"{_ENGINE}::test_all_who_ask_while_a_partition_is_read_share_the_next_reading",
    ),
    one(
        "a sleeper takes trimmed records for damage",
        "oncegate.engine.usecases.direct.entering::DirectEntering._turn",
        delete("await self._journal.group_commit.owned(...)"),
        f"{_ENGINE}::test_an_owner_that_misses_what_its_successor_has_trimmed_is_not_damaged",
    ),
    one(
        "a question waits for ever",
        "oncegate.engine.usecases.direct.lanes::DirectLanes._read_on",
        replace(
            "ASK_MS if deadline.left_ms is None else min(ASK_MS, deadline.left_ms)",
            "None if deadline.left_ms is None else min(ASK_MS, deadline.left_ms)",
        ),
        f"{_ENGINE}::test_a_question_without_a_deadline_has_one",
    ),
    one(
        "a topic of lanes takes rows",
        "oncegate.engine.usecases.topics::Topics.creation",
        replace("self.journal.index.lanes.writes(topic)", "False"),
        f"{_ENGINE}::test_a_topic_is_written_one_way",
    ),
    one(
        "lanes are forgotten by a snapshot",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("lanes.restore", "bool"),
        "tests/index/test_lanes.py::test_lanes_come_back_from_a_snapshot_with_where_they_are_read_on",
    ),
    Mutant(
        "a lane is read to its stable end",
        (
            ("oncegate.ledgers.kafka.shard.direct::DirectTopic.read", replace("(low, end)", "((low, _), end)")),
            (
                "oncegate.ledgers.kafka.shard.direct::DirectTopic.read",
                replace("await reader.bounds(at)", "(await reader.bounds(at), await reader.stable_end(at))"),
            ),
        ),
        (f"{_KAFKA}::test_another_lanes_open_transaction_holds_a_question_until_its_deadline",),
    ),
    one(
        "a writer asks and does not start",
        "oncegate_spark.direct.transaction::LaneTransaction.__init__",
        cell("'transactional.id'", "f'{lane.transactional_id}-{id(self)}'"),
        f"{_KAFKA}::test_a_twin_that_starts_later_fences_the_one_before",
    ),
    one(
        "rows are committed without their record",
        "oncegate_spark.direct.transaction::LaneTransaction.commit",
        delete("self._producer.produce(...)"),
        f"{_KAFKA}::test_each_row_is_written_once_however_often_it_is_brought",
    ),
    one(
        "a row that no broker accepts is reported as unknown",
        "oncegate_spark.direct.transaction::LaneTransaction._failed",
        replace("error.txn_requires_abort() or self._is_open", "error.txn_requires_abort()"),
        f"{_KAFKA}::test_a_row_that_no_broker_takes_is_refused_and_nothing_is_unknown",
    ),
    one(
        "a transaction may end before its commit",
        "oncegate_spark.direct.transaction::transaction_time",
        replace("max(TRANSACTION_MS, longest_ms)", "TRANSACTION_MS"),
        "tests/client/spark/test_direct.py::"
        "test_a_transaction_is_open_for_a_minute_and_never_shorter_than_its_commit_may_take",
    ),
    one(
        "a transaction as long as its commit is refused",
        "oncegate_spark.direct.transaction::transaction_time",
        shift("given_ms < longest_ms"),
        "tests/client/spark/test_direct.py::"
        "test_a_transaction_is_open_for_a_minute_and_never_shorter_than_its_commit_may_take",
    ),
    one(
        "a transaction that was too slow is reported as a twin's",
        "oncegate_spark.direct.transaction::LaneTransaction._failed",
        shift("self._open_ms >= self._transaction_ms"),
        f"{_TIMES}::test_a_transaction_ended_by_brokers_for_being_slow_is_reported_with_the_line_to_write",
    ),
)
