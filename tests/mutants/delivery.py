"""More planted bugs: deliveries to sinks of users', and the sinks that are ready; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_ROOM = f"{CLIENT}/delivery"
_DELIVERY = "tests/client/delivery/test_delivery.py"
_ASKING = "tests/client/spark/test_asking.py"
_KAFKA = "tests/client/delivery/test_kafka.py"

DELIVERY: tuple[Mutant, ...] = (
    one(
        "what a dead writer may have written is written again, and the sink is not asked",
        f"{_ROOM}/deliver.py",
        "{*claimed.in_doubt, *claimed.unchecked, *before}",
        "{*claimed.unchecked, *before}",
        f"{_DELIVERY}::test_what_a_dead_writer_has_written_is_found_in_the_sink_and_not_written_again",
    ),
    one(
        "a lost answer of the sink is taken for a failure, and all is written again",
        f"{_ROOM}/writing.py",
        "            missing = self._missing(missing, {record.id for record in missing}, failed)\n",
        "",
        f"{_DELIVERY}::test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again",
    ),
    one(
        "a lost answer of the sink is taken for success",
        f"{_ROOM}/writing.py",
        "                failed = error\n",
        "                return\n",
        f"{_DELIVERY}::test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again",
    ),
    one(
        "a refusal frees what an earlier try, or an earlier holder, may have written",
        f"{_ROOM}/writing.py",
        "                if failed is None and is_whole:\n",
        "                if True:\n",
        f"{_DELIVERY}::test_a_refusal_after_a_lost_answer_or_beside_what_is_there_frees_nothing",
    ),
    one(
        "a task writes again what a dead one may have written, and the sink is not asked",
        f"{CLIENT}/spark/writers/deliveries/settler.py",
        "if doubt or one.id in self._handed}",
        "if one.id in self._handed}",
        f"{_ASKING}::test_what_a_dead_task_has_written_is_found_and_the_rest_is_written",
    ),
    one(
        "a task looks an instant up by the text that it has in its session's time zone",
        f"{CLIENT}/spark/writers/deliveries/settler.py",
        "value.astimezone(UTC)).replace(",
        "value).replace(",
        f"{_ASKING}::test_an_id_has_one_text_whatever_the_sessions_time_zone_or_the_columns_scale",
    ),
    one(
        "a conflict frees what is in doubt beside it",
        f"{CLIENT}/protocol/calls/attempt.py",
        "        if claimed.verdicts.takeovers:\n            error",
        "        if claimed.verdicts.takeovers < 0:\n            error",
        f"{_ASKING}::test_a_conflict_beside_what_a_dead_task_has_written_leaves_that_in_doubt",
    ),
    one(
        "a task frees ids that are in doubt",
        f"{CLIENT}/spark/writers/deliveries/settler.py",
        "        if not claimed.verdicts.takeovers and not self._handed:\n",
        "        if True:\n",
        f"{_ASKING}::test_a_claim_that_came_late_and_holds_what_is_in_doubt_is_not_released",
    ),
    one(
        "a task leaves what a sink has refused to its lease",
        f"{CLIENT}/spark/writers/deliveries/settler.py",
        "            self.attempt.release(claimed)\n",
        "",
        f"{_ASKING}::test_a_refusal_frees_what_was_claimed_and_says_that_nothing_was_written",
    ),
    one(
        "a resolver frees what the sink has",
        f"{_ROOM}/resolver.py",
        '"complete" if one in found else "release"',
        '"release"',
        f"{_DELIVERY}::test_a_resolver_completes_what_the_sink_has_and_frees_what_it_has_not",
    ),
    one(
        "a resolver says nothing of what its namespace keeps for a dead writer",
        f"{_ROOM}/resolver.py",
        "                total.held += claimed.verdicts.unsettled\n",
        "",
        f"{_DELIVERY}::test_a_resolver_tells_what_its_namespace_keeps_for_a_dead_writer",
    ),
    one(
        "a transaction that the rows function has undone is told as written",
        f"{_ROOM}/database.py",
        "            self._check_open(ids[-1])\n",
        "",
        "tests/client/delivery/test_database.py::test_an_error_that_the_rows_function_catches_undoes_all_and_is_told",
    ),
    one(
        "ids that stay where the rows failed are taken for written",
        f"{_ROOM}/database.py",
        "            is_entered = True\n",
        "",
        "tests/client/delivery/test_database.py::test_ids_that_stay_where_the_rows_failed_are_told_as_unknown",
    ),
    one(
        "a refusal says that nothing was written, of what an earlier request may have",
        f"{_ROOM}/http_sink.py",
        "                if record.id not in doubtful:\n",
        "                if True:\n",
        "tests/client/delivery/test_http.py::"
        "test_a_refusal_of_what_an_earlier_request_may_have_paid_is_told_as_unknown_and_frees_nothing",
    ),
    one(
        "a record that Kafka's client refuses is told as in doubt",
        f"{_ROOM}/kafka.py",
        "        if is_committing and (error is None or not error.txn_requires_abort()):\n",
        "        if error is None or not error.txn_requires_abort():\n",
        f"{_KAFKA}::test_a_record_that_brokers_refuse_aborts_its_transaction_and_frees_its_ids",
    ),
    one(
        "a topic that brokers do not tell of is taken for an empty one",
        f"{_ROOM}/kafka_reader.py",
        "    if described.error is not None:  #",
        "    if described is None:  #",
        f"{_KAFKA}::test_a_topic_that_brokers_do_not_tell_of_is_not_taken_for_an_empty_one",
    ),
    one(
        "each request has a key of its own",
        f"{_ROOM}/http_sink.py",
        "        key = idempotency_key(record.id)\n",
        "        key = idempotency_key(f'{record.id} {self._connection is None}')\n",
        "tests/client/delivery/test_http.py::test_a_request_without_an_answer_is_sent_again_under_its_key_and_paid_once",
    ),
    one(
        "an answer that says nothing is taken for a refusal",
        f"{_ROOM}/http_sink.py",
        "        if status >= 500 or status in _LATER:\n",
        "        if status in _LATER:\n",
        "tests/client/delivery/test_http.py::test_a_server_that_only_fails_leaves_the_record_in_doubt",
    ),
    one(
        "a late writer replaces a file",
        f"{_ROOM}/folder.py",
        "                os.link(beside, path)\n",
        "                os.replace(beside, path)\n",
        "tests/client/delivery/test_folder.py::test_a_writer_that_wakes_up_late_replaces_nothing",
    ),
    one(
        "ids are committed before their rows",
        f"{_ROOM}/database.py",
        "            self._rows(cursor, records)\n",
        "            connection.commit()\n            self._rows(cursor, records)\n",
        "tests/client/delivery/test_database.py::test_rows_that_the_database_refuses_leave_no_id_and_are_free",
    ),
    one(
        "a topic is read before whoever may still be writing it is fenced",
        f"{_ROOM}/kafka.py",
        "        self._fenced()\n        wanted",
        "        wanted",
        f"{_KAFKA}::test_a_dead_writers_committed_records_are_found_and_its_open_transaction_is_ended",
    ),
    one(
        "a topic is read only up to another writer's open transaction",
        f"{_ROOM}/kafka_reader.py",
        '"isolation.level": "read_uncommitted"',
        '"isolation.level": "read_committed"',
        f"{_KAFKA}::test_what_stands_behind_another_writers_open_transaction_is_waited_for",
    ),
    one(
        "two processes of one machine have one number",
        f"{_ROOM}/event_ids.py",
        "self.process = gateway.driver(DRIVER + self.server).register().epoch",
        "self.process = 1",
        "tests/client/delivery/test_event_ids.py::test_processes_of_one_machine_never_make_one_id_twice_whatever_their_clocks_say",
    ),
    one(
        "ids go back with the clock",
        f"{_ROOM}/event_ids.py",
        "now_ms = max(self._wall_ms(), self._last_ms)",
        "now_ms = self._wall_ms()",
        "tests/client/delivery/test_event_ids.py::test_ids_of_one_process_grow_also_when_its_clock_goes_back",
    ),
    one(
        "an id that is forgotten by now is written as new",
        f"{_ROOM}/event_ids.py",
        "if made_ms <= oldest_ms}",
        "if made_ms <= 0}",
        "tests/client/delivery/test_event_ids.py::test_an_id_older_than_the_horizon_is_stale_and_not_written_as_new",
    ),
    one(
        "a file that is there is not found",
        f"{_ROOM}/folder.py",
        "        return {one for one in ids if self.path(one).exists()}\n",
        "        return set()\n",
        "tests/client/delivery/test_folder.py::test_what_a_dead_writer_has_written_is_found",
    ),
)
