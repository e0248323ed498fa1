"""Planted bugs of rows written into users' topics on Kafka, and of stages that wait for it."""

from tests.mutants.edits import delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/faults/kafka/test_topics_of_users.py"
_ELSEWHERE = "tests/engine/usecases/test_rows_elsewhere.py"
_LOST = "tests/faults/kafka/test_lost_markers.py"
_WATCH = "tests/faults/kafka/test_watch.py"
_STAGES = "tests/faults/kafka/test_stages.py"
_COMPRESSED = "tests/faults/kafka/test_compressed_rows.py"
_REFUSED = f"{_TESTS}::test_rows_that_can_be_no_record_are_refused_before_any_effect"

KAFKA_TOPICS: tuple[Mutant, ...] = (
    Mutant(
        "rows are staged that can be no record of Kafka's",
        (
            ("oncegate.engine.usecases.batches::Batches.stage", replace("(_, topic_ids)", "topic_ids")),
            (
                "oncegate.engine.usecases.batches::Batches.stage",
                replace(
                    ("await self._topics.fitted(topic, request.rows, request.keys, origin=origin, identified=True)"),
                    "dict[str, bytes]()",
                ),
            ),
        ),
        (_REFUSED,),
    ),
    one(
        "a batch is begun that no transaction is long enough for",
        "oncegate.engine.usecases.topics::Topics.check_writable",
        without("'waiting_bytes'"),
        f"{_ELSEWHERE}::test_a_batch_that_cannot_be_sent_at_once_is_refused_before_any_effect",
    ),
    one(
        "large batches share one transaction",
        "oncegate.engine.commit.queue::_bytes_of",
        replace("change.waiting_bytes", "0"),
        f"{_ELSEWHERE}::test_what_waited_and_is_sent_counts_as_the_append_s_own_bytes",
    ),
    Mutant(
        "a batch that is answered does not let its transaction go on",
        (
            (
                "oncegate.ledgers.kafka.watch::Watch.goes_on",
                delete("self._until = min(now_s() + wait_s, last)"),
            ),
            ("oncegate.ledgers.kafka.watch::Watch.goes_on", delete("self._limit.reschedule(...)")),
        ),
        (f"{_WATCH}::test_a_batch_that_is_answered_lets_a_wait_go_on",),
    ),
    one(
        "answers let a transaction go on until the broker aborts it",
        "oncegate.ledgers.kafka.watch::Watch.goes_on",
        replace("min(now_s() + wait_s, last)", "now_s() + wait_s"),
        f"{_WATCH}::test_no_answer_lets_a_wait_go_on_beyond_its_last_moment",
    ),
    one(
        "a transaction begins on a broker that was lost meanwhile",
        "oncegate.ledgers.kafka.watch::Watch.is_lost",
        replace("self._was_cut and self._is_beginning", "False"),
        f"{_LOST}::test_a_transaction_on_a_broker_that_ends_meanwhile_is_not_begun",
    ),
    one(
        "an owner that slept does not look whether its broker is the same",
        "oncegate.ledgers.kafka.watch::Watch.has_been_cut",
        replace("self._was_cut or any((session.has_ended for session in self._sessions))", "self._was_cut"),
        f"{_LOST}::test_an_owner_that_slept_while_they_were_forgotten_takes_nothing_along_that_was_acknowledged",
    ),
    one(
        "a connection whose socket is gone is asked by its socket",
        "oncegate.ledgers.kafka.client::Session.has_ended",
        delete("if self._writer.is_closing():\n    ..."),
        "tests/faults/kafka/test_connection.py"
        "::test_a_connection_that_is_reset_has_ended_from_then_on_until_its_reader_sees_it",
    ),
    one(
        "a producer that was idle for days is used again",
        "oncegate.ledgers.kafka.transactions.guard::Guard.is_worn",
        replace("self.closed or self._watch.has_been_cut or is_forgotten", "self.closed or self._watch.has_been_cut"),
        "tests/faults/kafka/test_forgotten_producers.py::test_a_producer_is_replaced_before_it_is_forgotten",
    ),
    one(
        "rows may go to the gateway's own topics",
        "oncegate.ledgers.kafka.rows.user_topics::UserTopics._require_users",
        replace("(f'{self._own_prefix}.', '__')", "'__'"),
        _REFUSED,
    ),
    one(
        "topics that rows name are known only while the gateway that took them lives",
        "oncegate.ledgers.kafka.shard.append_ranges::AppendRanges.batches",
        without("topics.ask"),
        f"{_TESTS}::test_a_batch_goes_to_several_topics_at_once",
    ),
    one(
        "rows go to users' topics as they are, whatever compression the URL asks for",
        "oncegate.ledgers.kafka.shard.append_ranges::AppendRanges.batches",
        replace(
            ("Target(send.topic, topics.counts, wall_ms(), turn + number, topics.compression, send.origin)"),
            "Target(send.topic, topics.counts, wall_ms(), turn + number, origin=send.origin)",
        ),
        f"{_COMPRESSED}::test_rows_are_in_batches_of_the_configured_codec",
    ),
    one(
        "an unknown compression is accepted",
        "oncegate.ledgers.kafka.address::_compression",
        replace("value not in (known := get_args(Compression))", "(known := get_args(Compression)) == ()"),
        "tests/faults/kafka/test_address.py::test_errors_in_a_url_are_reported",
    ),
    one(
        "a batch is compressed that becomes larger by it",
        "oncegate.ledgers.kafka.record_batch::RecordBatch.compressed",
        replace("len(encoded) >= len(self._encoded)", "not encoded"),
        f"{_COMPRESSED}::test_a_batch_that_would_not_become_smaller_stays_as_it_is",
    ),
    one(
        "no frame names users' records",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append.changes_of",
        without("*sent"),
        f"{_TESTS}::test_every_record_of_users_is_named_by_a_frame",
    ),
    one(
        "a column that is an id alone has to be a part of the record",
        "oncegate.engine.usecases.topics::Topics.fitted",
        replace(
            ("[name for name in rows.schema.names if name not in beside or name in self._elsewhere.columns.names]"),
            "list(rows.schema.names)",
        ),
        f"{_TESTS}::test_an_id_that_is_no_part_of_a_record_is_used_and_not_written",
    ),
    one(
        "a topic is written that takes smaller batches",
        "oncegate.ledgers.kafka.rows.user_topics::UserTopics._require_room",
        replace("sizes[0] < BATCH_BYTES", "sizes[0] < 0"),
        f"{_TESTS}::test_a_topic_that_takes_smaller_batches_is_refused_by_the_setting_to_raise",
    ),
    one(
        "rows that are only counted are returned as offsets",
        "oncegate.engine.usecases.produce::Records._earlier_ranges",
        replace("not self._places.elsewhere", "True"),
        "tests/engine/usecases/test_places_elsewhere.py::test_the_first_answer_and_the_retry_s_return_the_same_offsets",
    ),
    one(
        "a waiting stage is deleted with a later one",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten_stages",
        replace("stages_to if lowest is None else min(stages_to, lowest)", "stages_to"),
        f"{_STAGES}::test_stages_that_are_needed_no_more_go_and_those_that_wait_stay",
    ),
    one(
        "stages are stored among archives",
        "oncegate.ledgers.kafka.shard.append_ranges::AppendRanges.__init__",
        replace("OUTPUTS if one.range_id in published else STAGES", "OUTPUTS"),
        f"{_STAGES}::test_rows_published_as_they_are_written_are_kept_apart",
    ),
    one(
        "first writes to the list of namespaces make a producer each, of which one is closed",
        "oncegate.ledgers.kafka.namespaces::NamespaceTopic._connected",
        replace("self._connecting", "asyncio.Lock()"),
        "tests/faults/kafka/test_ledger_ownership.py::test_first_writes_to_the_list_at_once_leave_no_connection_behind",
    ),
    one(
        "a commit asks for its topic by the first chunk alone",
        "oncegate.engine.usecases.batches::Batches._check_writable",
        replace(
            "[chunk for stage in stages if stage is not None for chunk in stage.chunks.values()]",
            "[stage.chunks[0] for stage in stages if stage is not None and stage.chunks]",
        ),
        f"{_TESTS}::test_a_stage_without_its_first_chunk_is_missing",
    ),
    Mutant(
        "a refused append continues to read the stages that it was to send",
        (
            (
                "oncegate.ledgers.kafka.shard.append_ranges::AppendRanges.batches",
                replace("aclosing(self._pieces(send, stages))", "nullcontext(self._pieces(send, stages))"),
            ),
            (
                "oncegate.ledgers.kafka.shard.append_ranges",
                replace_statement("from contextlib import aclosing", "from contextlib import aclosing, nullcontext"),
            ),
        ),
        ("tests/faults/kafka/test_sent_rows.py::test_a_topic_that_is_not_there_refuses_its_rows_and_no_others",),
    ),
)
