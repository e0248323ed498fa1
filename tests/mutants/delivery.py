"""More planted bugs: deliveries to users' sinks, and the ready sinks; see `planted`."""

from tests.mutants.edits import cell, delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_DELIVERY = "tests/client/delivery/test_delivery.py"
_ASKING = "tests/client/spark/test_asking.py"
_KAFKA = "tests/client/delivery/test_kafka.py"
_COLLATIONS = "tests/client/delivery/test_collations.py"

DELIVERY: tuple[Mutant, ...] = (
    one(
        "records in doubt of a dead writer are written again without asking the sink",
        "oncegate_spark.delivery.deliver::Delivery._written",
        without("*claimed.in_doubt"),
        f"{_DELIVERY}::test_rows_of_a_dead_writer_are_found_in_the_sink_and_not_written_again",
    ),
    one(
        "a lost answer of the sink is taken for a failure, and all is written again",
        "oncegate_spark.delivery.deliver::Writing._put",
        delete("missing = self._missing(missing, {record.id for record in missing}, failed)"),
        f"{_DELIVERY}::test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again",
    ),
    one(
        "a lost answer of the sink is taken for success",
        "oncegate_spark.delivery.deliver::Writing._put",
        replace_statement("failed = error", "return"),
        f"{_DELIVERY}::test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again",
    ),
    one(
        "a refusal frees what an earlier try, or an earlier holder, may have written",
        "oncegate_spark.delivery.deliver::Writing._put",
        replace("failed is None and is_whole", "True"),
        f"{_DELIVERY}::test_a_refusal_after_a_lost_answer_or_beside_what_is_there_frees_nothing",
    ),
    one(
        "a task writes again what a dead one may have written, and the sink is not asked",
        "oncegate_spark.spark.writers.settler::AskingSettler.hand_over",
        replace("doubt or record.id in self._handed", "record.id in self._handed"),
        f"{_ASKING}::test_rows_of_a_dead_task_are_found_and_the_rest_is_written",
    ),
    one(
        "a task looks an instant up by the text that it has in its session's time zone",
        "oncegate_spark.spark.writers.settler::_text",
        replace("value.astimezone(UTC)", "value"),
        f"{_ASKING}::test_an_id_has_one_text_whatever_the_sessions_time_zone_or_the_columns_scale",
    ),
    one(
        "a conflict frees what is in doubt beside it",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._give_back",
        replace("claimed.verdicts.takeovers", "claimed.verdicts.takeovers < 0"),
        f"{_ASKING}::test_a_conflict_beside_what_a_dead_task_has_written_leaves_that_in_doubt",
    ),
    one(
        "a task frees ids that are in doubt",
        "oncegate_spark.spark.writers.settler::AskingSettler.let_go",
        replace("not claimed.verdicts.takeovers and (not self._handed)", "True"),
        f"{_ASKING}::test_a_claim_that_came_late_and_holds_what_is_in_doubt_is_not_released",
    ),
    one(
        "a task leaves what a sink has refused to its lease",
        "oncegate_spark.spark.writers.settler::AskingSettler.hand_over",
        delete("self.attempt.release(...)"),
        f"{_ASKING}::test_a_refusal_frees_the_claimed_ids_and_reports_that_nothing_was_written",
    ),
    one(
        "a resolver frees what the sink has",
        "oncegate_spark.delivery.deliver::Resolver._resolve",
        replace("'complete' if record_id in present else 'release'", "'release'"),
        f"{_DELIVERY}::test_a_resolver_completes_what_the_sink_has_and_frees_what_it_has_not",
    ),
    one(
        "a resolver omits the ids that its namespace holds for a dead writer",
        "oncegate_spark.delivery.deliver::Resolver._resolve",
        delete("total.held += claimed.verdicts.unsettled"),
        f"{_DELIVERY}::test_a_resolver_reports_the_lease_expiry_of_its_namespace",
    ),
    one(
        "a transaction that the rows function undid is reported as written",
        "oncegate_spark.delivery.database::DatabaseSink.write",
        delete("self._check_open(...)"),
        "tests/client/delivery/test_database.py::test_an_error_that_the_rows_function_catches_undoes_everything_and_is_raised",
    ),
    one(
        "ids that stay where the rows failed are taken for written",
        "oncegate_spark.delivery.database::DatabaseSink.write",
        delete("is_entered = True"),
        "tests/client/delivery/test_database.py::test_ids_with_a_failed_rollback_are_reported_as_unknown",
    ),
    one(
        "a refusal claims that nothing was written although an earlier request may have",
        "oncegate_spark.delivery.http_sink::HttpSink.write",
        replace("record.id not in doubtful", "True"),
        "tests/client/delivery/test_http.py::"
        "test_a_refusal_after_a_request_that_may_have_paid_is_unknown_and_frees_nothing",
    ),
    one(
        "a record that Kafka's client refuses is reported as in doubt",
        "oncegate_spark.delivery.kafka::KafkaSink._failed",
        replace(
            "is_committing and (error is None or not error.txn_requires_abort())",
            "error is None or not error.txn_requires_abort()",
        ),
        f"{_KAFKA}::test_a_record_that_brokers_refuse_aborts_its_transaction_and_frees_its_ids",
    ),
    one(
        "a topic that brokers do not list is taken for an empty one",
        "oncegate_spark.delivery.kafka::_start_offsets",
        replace("described.error is not None", "described is None"),
        f"{_KAFKA}::test_a_topic_unknown_to_the_brokers_is_not_taken_for_an_empty_one",
    ),
    one(
        "each request has a key of its own",
        "oncegate_spark.delivery.http_sink::HttpSink._sent",
        replace("record.id", "f'{record.id} {self._connection is None}'"),
        "tests/client/delivery/test_http.py::test_a_request_without_an_answer_is_sent_again_under_its_key_and_paid_once",
    ),
    one(
        "an answer without a verdict is taken for a refusal",
        "oncegate_spark.delivery.http_sink::HttpSink._write",
        replace("status >= 500 or status in _LATER", "status in _LATER"),
        "tests/client/delivery/test_http.py::test_a_server_that_only_fails_leaves_the_record_in_doubt",
    ),
    one(
        "a late writer replaces a file",
        "oncegate_spark.delivery.folder::FolderSink._write",
        replace("os.link", "os.replace"),
        "tests/client/delivery/test_folder.py::test_a_writer_that_wakes_up_late_replaces_nothing",
    ),
    one(
        "ids are committed before their rows",
        "oncegate_spark.delivery.database::DatabaseSink.write",
        replace_statement(
            "with self._cursor() as cursor:\n    ...",
            (
                "with self._cursor() as cursor:\n"
                "    cursor.executemany(self._insert, [(record_id,) for record_id in ids])\n"
                "    is_entered = True\n"
                "    connection.commit()\n"
                "self._rows(cursor, records)"
            ),
        ),
        "tests/client/delivery/test_database.py::test_rows_that_the_database_refuses_leave_no_id_and_are_free",
    ),
    one(
        "a topic is read before its possible writer is fenced",
        "oncegate_spark.delivery.kafka::KafkaSink.find",
        delete("self._fenced()"),
        f"{_KAFKA}::test_a_dead_writers_committed_records_are_found_and_its_open_transaction_is_ended",
    ),
    one(
        "a topic is read only up to another writer's open transaction",
        "oncegate_spark.delivery.kafka::_end_offsets",
        cell("'isolation.level'", "'read_committed'"),
        f"{_KAFKA}::test_records_after_another_writers_open_transaction_are_waited_for",
    ),
    one(
        "two processes of one machine have one number",
        "oncegate_spark.delivery.event_ids::EventIds.__init__",
        replace("gateway.driver(DRIVER + self.server).register().epoch", "1"),
        "tests/client/delivery/test_event_ids.py::test_processes_of_one_machine_never_make_the_same_id_twice_whatever_their_clocks",
    ),
    one(
        "ids go back with the clock",
        "oncegate_spark.delivery.event_ids::EventIds.next",
        replace("max(self._wall_ms(), self._last_ms)", "self._wall_ms()"),
        "tests/client/delivery/test_event_ids.py::test_ids_of_one_process_grow_also_when_its_clock_goes_back",
    ),
    one(
        "an id that was forgotten meanwhile is written as new",
        "oncegate_spark.delivery.event_ids::Horizon.stale",
        replace("made_ms <= oldest_ms", "made_ms <= 0"),
        "tests/client/delivery/test_event_ids.py::test_an_id_older_than_the_horizon_is_stale_and_not_written_as_new",
    ),
    one(
        "a file that is there is not found",
        "oncegate_spark.delivery.folder::FolderSink.find",
        replace("{record_id for record_id in ids if self.path(record_id).exists()}", "set()"),
        "tests/client/delivery/test_folder.py::test_rows_of_a_dead_writer_are_found",
    ),
    one(
        "a refused row leaves its transaction open",
        "oncegate_spark.delivery.database::DatabaseSink.close",
        without("connection.rollback"),
        f"{_COLLATIONS}::test_cursor_of_the_rows_function_that_stays_open_locks_nothing",
    ),
    one(
        "ids of MySQL are compared by the server's collation",
        "oncegate_spark.delivery.database::_COLUMNS",
        cell("'mysql'", "'varchar(700)'"),
        f"{_COLLATIONS}::test_ids_that_collations_take_as_equal_are_written_each",
    ),
    one(
        "a table that is there is not tried",
        "oncegate_spark.delivery.database::DatabaseSink._check_table",
        replace("self._fault(_ASCII) if wrong is None else wrong", "''"),
        f"{_COLLATIONS}::test_a_table_that_merges_distinct_ids_is_refused_and_stays_unchanged",
    ),
    one(
        "ids are tried without trailing blanks",
        "oncegate_spark.delivery.database::_ASCII",
        without("'a '"),
        f"{_COLLATIONS}::test_a_table_that_merges_distinct_ids_is_refused_and_stays_unchanged",
    ),
    one(
        "ids are tried without case",
        "oncegate_spark.delivery.database::_ASCII",
        without("'A'"),
        f"{_COLLATIONS}::test_a_table_that_merges_distinct_ids_is_refused_and_stays_unchanged",
    ),
    one(
        "a table without transactions is taken",
        "oncegate_spark.delivery.database::DatabaseSink._fault",
        replace("self._equal_to(cursor, ids[0])", "False"),
        f"{_COLLATIONS}::test_a_table_that_merges_distinct_ids_is_refused_and_stays_unchanged",
    ),
    one(
        "an id that is equal by a collation is there",
        "oncegate_spark.delivery.database::DatabaseSink.find",
        replace("record_id in self._equal_to(cursor, record_id)", "self._equal_to(cursor, record_id)"),
        f"{_COLLATIONS}::test_id_that_is_equal_by_a_collation_is_not_there",
    ),
    one(
        "an error in a look leaves its connection open",
        "oncegate_spark.delivery.database::DatabaseSink.find",
        delete("self.close()", nth=2),
        f"{_COLLATIONS}::test_connections_are_closed_after_each_kind_of_error",
    ),
    one(
        "a request that failed halfway leaves its connection",
        "oncegate_spark.delivery.http_sink::HttpSink._sent",
        replace("BaseException", "(OSError, http.client.HTTPException)"),
        "tests/client/delivery/test_http.py::test_body_that_cannot_be_sent_leaves_no_connection_with_half_a_request",
    ),
)
