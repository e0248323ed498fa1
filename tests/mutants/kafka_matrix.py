"""Planted bugs of a ledger on Kafka that the crash matrix detects, and of the repair of transactions that brokers left
open."""

from tests.mutants.edits import delete, replace, replace_statement, without
from tests.mutants.kafka import END_AGAIN
from tests.mutants.mutant import Mutant, one

_MATRIX = "tests/matrix/test_matrix.py::test_a_gateway_over_kafka_that_is_struck_loses_and_doubles_nothing"
_FULL_STAGES = "tests/faults/kafka/test_full_stages.py"
_NAMED = "tests/faults/kafka/test_named_records.py"
_USERS = "tests/faults/kafka/test_user_markers.py"
_LAST = "tests/faults/kafka/test_last_epochs.py"
_MARKERS = "tests/faults/kafka/test_lost_markers.py"

KAFKA_MATRIX: tuple[Mutant, ...] = (
    one(
        "a gateway sends EndTxn again whose answer is lost",
        "oncegate.ledgers.kafka.transactions.producer::Producer.end",
        replace_statement("answer = await self._client.send(...)", END_AGAIN),
        f"{_MATRIX}[end-answer-lost-0]",
    ),
    one(
        "what brokers have committed stays open",
        "oncegate.ledgers.kafka.markers.healing::Healing._decide",
        replace("self._brokers.write_commit_marker(one)", "self._brokers.refresh()"),
        f"{_MARKERS}::test_an_opener_writes_the_markers_of_what_was_acknowledged",
    ),
    one(
        "a transaction that brokers have forgotten is taken for committed",
        "oncegate.ledgers.kafka.markers.healing::Healing._decide",
        replace("one.epoch + 1", "one.epoch + 9"),
        f"{_MARKERS}::test_outcomes_hidden_by_several_starts_are_reported_and_never_served",
    ),
    one(
        "a transaction that the last epoch's producer left open is taken for committed",
        "oncegate.ledgers.kafka.markers.healing::Healing._decide",
        replace("state.producer_id != one.producer_id or state.epoch > one.epoch + 1", "state.epoch > one.epoch + 1"),
        f"{_LAST}::test_a_marker_forgotten_at_the_last_epoch_is_reported_and_never_guessed",
    ),
    one(
        "a transaction that the last epoch's producer left open is taken for another's",
        "oncegate.ledgers.kafka.markers.brokers::State.has_followed",
        replace("self.producer_id != one.producer_id or self.epoch > one.epoch", "self.epoch > one.epoch"),
        f"{_LAST}::test_a_marker_forgotten_at_the_last_epoch_is_reported_and_never_guessed",
    ),
    one(
        "an owner keeps a producer that has lost its broker",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._ready",
        replace("self._guard.is_worn", "self._guard.closed"),
        f"{_MARKERS}::test_an_owner_writes_them_before_it_continues",
    ),
    one(
        "the outcome of an ended producer is not kept",
        "oncegate.ledgers.kafka.markers.user_partitions::UserPartitions.ended",
        replace("state.name == NOTHING_UNDER_WAY", "state.name != NOTHING_UNDER_WAY"),
        f"{_USERS}::test_an_opener_writes_them_in_every_topic_that_frames_name",
    ),
    one(
        "rows that were aborted are taken for committed",
        "oncegate.ledgers.kafka.markers.user_partitions::UserPartitions._heal_committed",
        replace(
            "(one.producer_id, one.epoch + 1) in self._ended",
            "any((producer_id == one.producer_id for producer_id, _ in self._ended))",
        ),
        f"{_USERS}::test_rows_of_an_aborted_transaction_are_never_shown",
    ),
    one(
        "the id of a transaction that was aborted is used again",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._id",
        replace("f'{self._name}/{generation}'", "f'{self._name}/1'"),
        f"{_USERS}::test_a_later_commit_shows_no_rows_that_were_aborted_before_it",
    ),
    one(
        "frames do not name the topics of rows to an opener",
        "oncegate.ledgers.kafka.shard.replay::Fold.take_sent",
        without("Partition(change.topic, change.partition)"),
        f"{_USERS}::test_an_opener_writes_them_in_every_topic_that_frames_name",
    ),
    one(
        "readers of users' topics wait for the next append",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._renew",
        replace("not (self._writer.is_worn and self._fold.sent_to)", "self._writer.is_worn or self._fold.sent_to"),
        f"{_USERS}::test_an_owner_writes_them_without_an_append",
    ),
    one(
        "a producer's outcome is asked for only after its next start",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._end_all",
        delete("self.user_partitions.ended(before)"),
        f"{_USERS}::test_markers_left_open_by_one_opener_are_written_by_the_next",
    ),
    one(
        "rows that were aborted stay open where their marker was lost",
        "oncegate.ledgers.kafka.markers.user_partitions::UserPartitions._give_up",
        replace("one in unwritten", "False"),
        f"{_USERS}::test_rows_of_an_aborted_transaction_are_never_shown",
    ),
    one(
        "rows that a frame names are given up",
        "oncegate.ledgers.kafka.shard.unwritten::NamedRecords.lacks",
        replace("(partition, offset) in self._named or lowest < 0", "lowest < 0"),
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
        f"{_USERS}::test_what_several_starts_have_hidden_is_named_and_stops_no_ledger",
    ),
    one(
        "rows are given up whose frame may have been deleted",
        "oncegate.ledgers.kafka.shard.unwritten::NamedRecords.lacks",
        replace("lowest < offset or self._oldest_generation <= generation", "True"),
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
        f"{_USERS}::test_what_frames_may_have_named_that_were_deleted_is_never_given_up",
    ),
    one(
        "rows whose location brokers did not give are given up",
        "oncegate.ledgers.kafka.shard.unwritten::NamedRecords.lacks",
        replace("(partition, offset) in self._named or lowest < 0", "(partition, offset) in self._named"),
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
    ),
    one(
        "a broker that is away is asked about topics",
        "oncegate.ledgers.kafka.topics::Admin._any_node",
        replace("await self._client.ready(node)", "node"),
        "tests/faults/kafka/test_leaderless_topic.py::test_any_broker_that_is_there_is_asked_about_topics",
    ),
    one(
        "the topics of a transaction that no frame names are not checked",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._end_all",
        delete(
            "self.user_partitions.look_at((one for state in before for one in state.partitions if one not in place.partitions))"
        ),
        "tests/faults/kafka/test_leaderless_topic.py::test_readers_go_on_behind_an_abort_that_met_no_leader",
    ),
    one(
        "an owner waits for stages that have no leader",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._end_all",
        replace("self._is_owner", "False"),
        f"{_FULL_STAGES}::test_claims_go_on_while_only_the_stages_are_full_and_nothing_of_a_half_is_left",
    ),
    one(
        "no frame names transactions open in stages",
        "oncegate.ledgers.kafka.markers.healing::Healing._decide",
        replace("one.partition in self._later.partitions", "False"),
        f"{_FULL_STAGES}::test_claims_go_on_while_only_the_stages_are_full_and_nothing_of_a_half_is_left",
    ),
    one(
        "stages that a frame names are given up",
        "oncegate.ledgers.kafka.shard.unwritten::NamedRecords.take",
        replace("isinstance(change, Wrote) and change.location.length", "False"),
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
    ),
)
