"""Planted bugs of a ledger on Kafka that the crash matrix sees, and of healing what brokers left open."""

from tests.mutants.mutant import Mutant, one

_KAFKA = "service/oncegate/ledgers/kafka"
_MATRIX = "tests/matrix/test_matrix.py::test_a_gateway_over_kafka_that_is_struck_loses_and_doubles_nothing"
_FULL_STAGES = "tests/faults/kafka/test_full_stages.py"
_NAMED = "tests/faults/kafka/test_named_records.py"
_USERS = "tests/faults/kafka/test_user_markers.py"
_LAST = "tests/faults/kafka/test_last_epochs.py"
_MARKERS = "tests/faults/kafka/test_lost_markers.py"

KAFKA_MATRIX: tuple[Mutant, ...] = (
    one(
        "a gateway sends EndTxn again whose answer is lost",
        f"{_KAFKA}/transactions/producer.py",
        "            if self.ends_sent > 1:\n",
        "            if self.ends_sent > 2:\n",
        f"{_MATRIX}[end-answer-lost-0]",
    ),
    one(
        "what brokers have committed stays open",
        f"{_KAFKA}/markers/healing.py",
        "            await self._brokers.write_commit_marker(one)\n",
        "            await self._brokers.refresh()\n",
        f"{_MARKERS}::test_an_opener_writes_the_markers_of_what_was_acknowledged",
    ),
    one(
        "what nobody knows any more is taken for committed",
        f"{_KAFKA}/markers/healing.py",
        "        if state.producer_id != one.producer_id or state.epoch > one.epoch + 1:\n",
        "        if state.producer_id != one.producer_id or state.epoch > one.epoch + 9:\n",
        f"{_MARKERS}::test_what_several_starts_have_hidden_is_told_and_never_served",
    ),
    one(
        "what a producer of the last epoch left open is taken for committed",
        f"{_KAFKA}/markers/healing.py",
        "        if state.producer_id != one.producer_id or state.epoch > one.epoch + 1:\n",
        "        if state.epoch > one.epoch + 1:\n",
        f"{_LAST}::test_a_marker_that_was_forgotten_at_the_last_epoch_is_told_and_never_guessed",
    ),
    one(
        "what a producer of the last epoch left open is another's",
        f"{_KAFKA}/markers/brokers.py",
        "        is_later = self.producer_id != one.producer_id or self.epoch > one.epoch\n",
        "        is_later = self.epoch > one.epoch\n",
        f"{_LAST}::test_a_marker_that_was_forgotten_at_the_last_epoch_is_told_and_never_guessed",
    ),
    one(
        "an owner goes on with a producer that has lost its broker",
        f"{_KAFKA}/shard/writer.py",
        "        if self._guard.is_worn:\n",
        "        if self._guard.closed:\n",
        f"{_MARKERS}::test_an_owner_writes_them_before_it_goes_on",
    ),
    one(
        "a start of a producer does not say what became of users' rows",
        f"{_KAFKA}/markers/user_partitions.py",
        "            if state.name == NOTHING_UNDER_WAY:\n",
        "            if state.name != NOTHING_UNDER_WAY:\n",
        f"{_USERS}::test_an_opener_writes_them_in_every_topic_that_frames_name",
    ),
    one(
        "rows that were aborted are taken for committed",
        f"{_KAFKA}/markers/user_partitions.py",
        "        if (one.producer_id, one.epoch + 1) in self._ended:\n",
        "        if any(producer_id == one.producer_id for producer_id, _ in self._ended):\n",
        f"{_USERS}::test_rows_of_an_aborted_transaction_are_never_shown",
    ),
    one(
        "the id of a transaction that was aborted is used again",
        f"{_KAFKA}/shard/ownership.py",
        '        return f"{self._name}/{generation}"\n',
        '        return f"{self._name}/1"\n',
        f"{_USERS}::test_a_later_commit_shows_no_rows_that_were_aborted_before_it",
    ),
    one(
        "frames do not tell an opener where rows went to",
        f"{_KAFKA}/shard/fold.py",
        "        self.sent_to.add([Partition(change.topic, change.partition)])\n",
        "        self.sent_to.add([])\n",
        f"{_USERS}::test_an_opener_writes_them_in_every_topic_that_frames_name",
    ),
    one(
        "readers of users' topics wait for the next append",
        f"{_KAFKA}/shard/ledger.py",
        "        if not (self._writer.is_worn and len(self._fold.sent_to)):\n",
        "        if self._writer.is_worn or len(self._fold.sent_to):\n",
        f"{_USERS}::test_an_owner_writes_them_without_an_append",
    ),
    one(
        "what a producer came to is asked after its next start alone",
        f"{_KAFKA}/shard/ownership.py",
        "            self.user_partitions.ended(before)\n",
        "",
        f"{_USERS}::test_what_one_opener_has_left_undone_the_next_one_does",
    ),
    one(
        "rows that were aborted stay open where their marker was lost",
        f"{_KAFKA}/markers/user_partitions.py",
        "            if one in unwritten:\n",
        "            if False:\n",
        f"{_USERS}::test_rows_of_an_aborted_transaction_are_never_shown",
    ),
    one(
        "rows that a frame names are given up",
        f"{_KAFKA}/shard/unwritten.py",
        "        if (partition, offset) in self._named or lowest < 0:\n",
        "        if lowest < 0:\n",
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
        f"{_USERS}::test_what_several_starts_have_hidden_is_named_and_stops_no_ledger",
    ),
    one(
        "rows are given up whose frame may have been deleted",
        f"{_KAFKA}/shard/unwritten.py",
        "        return lowest < offset or self._oldest_generation <= generation\n",
        "        return True\n",
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
        f"{_USERS}::test_what_frames_may_have_named_that_were_deleted_is_never_given_up",
    ),
    one(
        "rows are given up of which brokers did not say where they lie",
        f"{_KAFKA}/shard/unwritten.py",
        "        if (partition, offset) in self._named or lowest < 0:\n",
        "        if (partition, offset) in self._named:\n",
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
    ),
    one(
        "a broker that is away is asked about topics",
        f"{_KAFKA}/topics.py",
        "            if await self._client.ready(node):\n",
        "            if node:\n",
        "tests/faults/kafka/test_leaderless_topic.py::test_any_broker_that_is_there_is_asked_about_topics",
    ),
    one(
        "nobody looks where a transaction was under way that no frame names",
        f"{_KAFKA}/shard/ownership.py",
        "            self.user_partitions.look_at(one for state in before for one in state.partitions if self._is_users(one))\n",
        "",
        "tests/faults/kafka/test_leaderless_topic.py::test_readers_go_on_behind_an_abort_that_met_no_leader",
    ),
    one(
        "an owner waits for stages that have no leader",
        f"{_KAFKA}/shard/ownership.py",
        "is_away_allowed=self._is_owner)",
        "is_away_allowed=False)",
        f"{_FULL_STAGES}::test_claims_go_on_while_only_the_stages_are_full_and_nothing_of_a_half_is_left",
    ),
    one(
        "what is open in stages is told by no frame",
        f"{_KAFKA}/markers/healing.py",
        "            if one.partition in self._later.partitions:\n",
        "            if False:\n",
        f"{_FULL_STAGES}::test_claims_go_on_while_only_the_stages_are_full_and_nothing_of_a_half_is_left",
    ),
    one(
        "stages that a frame names are given up",
        f"{_KAFKA}/shard/unwritten.py",
        "            elif isinstance(change, Wrote) and change.location.length:\n",
        "            elif False:\n",
        f"{_NAMED}::test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it",
    ),
)
