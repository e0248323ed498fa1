"""Planted bugs of owners of a ledger on Kafka, found by walks of a model."""

from tests.mutants.edits import cell, delete, insert, replace, replace_statement, swap
from tests.mutants.mutant import Mutant, one

_OWNERS = "tests/faults/kafka/test_ledger_ownership.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"
_SLEPT = "tests/faults/kafka/test_slept_collector.py"
_MARKERS = "tests/faults/kafka/test_lost_markers.py"
_OWNED = "tests/engine/commit/test_owned_before_said.py"

_REFUSALS = "tests/faults/kafka/test_refusals.py"
_REVOKED = "tests/faults/kafka/test_revoked.py::test_a_gateways_beats_go_on_when_the_right_to_write_them_is_given_back"

KAFKA_OWNERS: tuple[Mutant, ...] = (
    one(
        "an overtaken gateway takes its successor's number",
        "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
        replace("taken.holder != self._holder", "False"),
        f"{_OWNERS}::test_a_gateway_that_is_overtaken_while_it_takes_its_number_does_not_take_the_others",
    ),
    one(
        "records of a frame are counted by its batches",
        "oncegate.ledgers.kafka.shard.blobs::Blobs.records",
        replace("sum((int(batch.encoded.record_count()) for batch in self.batches))", "len(self.batches)"),
        f"{_OWNERS}::test_an_append_in_doubt_after_a_frame_of_several_records_is_decided",
    ),
    one(
        "records that a newer owner deleted are reported as damage",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._end_of",
        replace("followed", "False", nth=2),
        f"{_OWNERS}::test_records_replaced_and_deleted_by_a_newer_owner_are_no_damage",
    ),
    one(
        "a superseded owner answers from memory",
        "oncegate.engine.commit.proven::answers.decorate.proven",
        replace("group_commit.fenced_by_appends and (not _stays_true(answer))", "False"),
        f"{_OWNED}::test_a_superseded_owner_answers_nothing_that_may_be_outdated",
    ),
    one(
        "an owner that was followed denies what it does not know",
        "oncegate.engine.commit.proven::answers.decorate.proven",
        delete("await group_commit.owned(since)", nth=1),
        f"{_OWNED}::test_a_superseded_owner_answers_nothing_that_may_be_outdated",
    ),
    one(
        "an append that began before a request proves who owns the ledger after it",
        "oncegate.engine.commit.group_commit::GroupCommit.next_append",
        replace("self._begun", "self.mark.position"),
        f"{_OWNED}::test_an_append_that_began_before_the_request_proves_nothing",
    ),
    one(
        "a ledger on Kafka is taken for one that a lock owns",
        "oncegate.ledgers.server.ledger::RemoteLedger",
        delete("fenced_by_appends = True"),
        "tests/faults/kafka/test_served.py::"
        "test_a_gateway_that_slept_while_it_was_superseded_answers_nothing_from_memory",
    ),
    one(
        "the mark of a ledger without its first frames is that of a frame without entries",
        "oncegate.ledgers.fold::Fold.advance",
        replace("before.position", "self.end.position"),
        f"{_OWNERS}::test_a_mark_stays_what_it_was_once_the_frame_that_gave_it_was_deleted",
    ),
    one(
        "an owner continues in a topic that was recreated meanwhile",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter.write",
        delete("self._require_grown(...)"),
        f"{_DAMAGE}::test_a_topic_recreated_under_an_owner_ends_its_ownership_with_the_next_append",
    ),
    one(
        "frames that are gone below an owner are found at the next start alone",
        "oncegate.ledgers.kafka.ledgers::KafkaLedgers._check",
        delete("await ledger.check_frames()"),
        f"{_DAMAGE}::test_frames_that_are_deleted_under_an_owner_end_its_ownership",
    ),
    one(
        "a collector deletes frames before the one that names what replaces them",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._replace",
        insert(
            (
                "first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
                "await shorten(self._place.settings, {self._place.frames: first[0]})"
            ),
            after="fold, since = (self._fold, self._taking.changes_since)",
        ),
        f"{_SLEPT}::test_a_deletion_after_a_successor_removes_nothing_of_its_records[that goes on]",
    ),
    one(
        "a collector deletes a snapshot once another is written that no frame names yet",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._replace",
        insert(
            "await shorten(self._place.settings, {self._place.states: places[0][0].offset})",
            after="fold, since = (self._fold, self._taking.changes_since)",
        ),
        f"{_SLEPT}::test_a_deletion_after_a_successor_removes_nothing_of_its_records[that goes on]",
    ),
    one(
        "an upkeep deletes what a collection replaces that is not committed",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._replace",
        insert(
            "fold.adopt(compacted, fold.last_offset)",
            after=("compacted = self._compacted(mark, places, states_from, self._place.keys.wrap(self.key))"),
        ),
        f"{_SLEPT}::test_nothing_is_deleted_before_the_frame_that_replaces_it_is_committed",
    ),
    one(
        "a list keeps a producer with a refused record",
        "oncegate.ledgers.kafka.namespaces::NamespaceTopic._drop",
        replace("self._witnesses is producer", "self._witnesses is None"),
        _REVOKED,
    ),
    one(
        "a partition is taken for the names of two topics",
        "oncegate.ledgers.kafka.refusals::_topic",
        replace("str | TopicPartition", "str"),
        f"{_REFUSALS}::test_a_partition_that_may_not_be_read_is_reported_with_its_topic",
    ),
    one(
        "a gateway that was followed opens its ledger again",
        "oncegate.core.lifecycle::ENDS",
        cell("Event.FENCED", "Cell(End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN, Reopen.SOON), '', '')"),
        "tests/core/test_lifecycle.py::test_each_event_gives_callers_the_outcome_written_here",
        "tests/engine/recovery/test_unknown_end.py::test_a_fenced_owner_stays_down_and_writes_nothing",
    ),
    one(
        "a namespace that is down for its successor is one that recovers",
        "oncegate.engine.gateway::_refusal",
        replace("Stop | LedgerFenced", "Stop"),
        "tests/engine/recovery/test_unknown_end.py::test_a_fenced_owner_stays_down_and_writes_nothing",
    ),
    one(
        "a gateway that was followed keeps its callers",
        "oncegate.transports.http.problems::response",
        replace("BodyTooSlow | ELSEWHERE", "BodyTooSlow"),
        "tests/transports/http/test_problems.py",
    ),
    Mutant(
        "an opener asks who came after it before its own producer is started",
        (
            (
                "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
                replace_statement(
                    "await guard.start()",
                    (
                        "try:\n"
                        "    await self._list.refresh()\n"
                        "    self._require_highest(self._list.listed)\n"
                        "    await guard.start()\n"
                        "except BaseException:\n"
                        "    await guard.close()\n"
                        "    raise"
                    ),
                ),
            ),
            (
                "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
                delete(
                    "try:\n"
                    "    await self._list.refresh()\n"
                    "    self._require_highest(self._list.listed)\n"
                    "except BaseException:\n"
                    "    await guard.close()\n"
                    "    raise"
                ),
            ),
        ),
        (f"{_OWNERS}::test_a_gateway_that_slept_between_its_number_and_its_producer_owns_nothing",),
    ),
    one(
        "a deletion that failed is taken for done",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten",
        insert(
            "self._shortened_to = compacted.position",
            after=("if compacted is None or compacted.position <= self._shortened_to or self._replays:\n    ..."),
        ),
        f"{_OWNERS}::test_compacted_records_are_deleted_after_a_deletion_that_failed",
    ),
    one(
        "an opener starts the ids before it before it heals what they wrote",
        "oncegate.ledgers.kafka.shard.ownership::Ownership._end_all",
        delete("await markers.heal(ids)", nth=1),
        f"{_MARKERS}::test_forgotten_markers_are_healed_even_after_a_start_without_healing",
    ),
    one(
        "a change of the list starts its id before it repairs the list",
        "oncegate.ledgers.kafka.namespaces::NamespaceTopic._start",
        delete("await markers.heal([guard.transactional_id])", nth=1),
        f"{_MARKERS}::test_the_list_of_namespaces_is_healed_as_well",
    ),
    one(
        "a ledger of lanes is closed once its readers are gone",
        "oncegate.ledgers.kafka.shard.direct::DirectTopic.close",
        swap("self._closed = True", "for partition in list(self._readers):\n    ..."),
        "tests/faults/kafka/test_direct_topic.py::test_a_reading_that_comes_while_the_ledger_is_closed_is_refused",
    ),
    one(
        "a question about topics counts as answered when it is asked",
        "oncegate.ledgers.kafka.rows.user_topics::UserTopics._ask",
        insert(
            "self._asked.update(dict.fromkeys(topics, now_s() + FRESH_S))",
            before=(
                "try:\n"
                "    admin = await self._connected()\n"
                "    found = {one['topic']: self._partitions(one) for one in await "
                "admin.describe_topics(list(topics))}\n"
                "    await self._require_room(admin, topics)\n"
                "except (KafkaError, OSError) as error:\n"
                "    await self._disconnect()\n"
                "    why = refusal_of(error, self._caller) or repr(error)\n"
                "    raise LedgerFull(f\"topics {', '.join(topics)} cannot be asked about now "
                '({why}); {_NOTHING}") from error'
            ),
        ),
        "tests/faults/kafka/test_topics_of_users.py::"
        "test_a_question_about_a_topic_that_brokers_did_not_answer_is_asked_again",
    ),
)
