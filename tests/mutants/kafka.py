"""Planted bugs of transactions on Kafka."""

from tests.mutants.edits import Text, delete, insert, replace, replace_statement, shift
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/faults/kafka/test_guard.py"
_PRODUCER = "tests/faults/kafka/test_producer.py"
_ASKED = "tests/faults/kafka/test_security.py"
_SETTINGS = "tests/faults/kafka/test_security_settings.py"
_BATCH_TESTS = "tests/faults/kafka/test_record_batch.py"
_ROW_TESTS = "tests/faults/kafka/test_row_columns.py"
_BROKER_TESTS = "tests/faults/kafka/test_rows_on_a_broker.py"
_OWNERS = "tests/faults/kafka/test_ledger_ownership.py"
_TOPIC_CHECKS = "tests/faults/ledger/test_kafka_topic_checks.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"

# Sends an EndTxn again after its answer was lost.
END_AGAIN = """
try:
    answer = await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
except KafkaError:
    node = await self._found_coordinator()
    answer = await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
"""

KAFKA: tuple[Mutant, ...] = (
    one(
        "a produce request omits its number of batches",
        "oncegate.ledgers.kafka.client::parts_of",
        delete("yield Int32.encode(len(value))", nth=1),
        "tests/faults/kafka/test_connection.py"
        "::test_the_parts_of_a_produce_request_are_byte_for_byte_what_aiokafka_encodes",
    ),
    one(
        "a transaction is committed without its batches' own outcomes",
        "oncegate.ledgers.kafka.transactions.sending::Sending.offsets",
        replace_statement(
            "return list(await asyncio.gather(...))",
            ("await asyncio.wait([future for *_, future in self._sent])\nreturn [0 for _ in self._sent]"),
        ),
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "an unexpected error of a producer is not reported",
        "oncegate.ledgers.kafka.transactions.producer::Producer._done",
        delete("if not task.cancelled() and (error := task.exception()) is not None:\n    ..."),
        "tests/faults/kafka/test_producer.py::test_an_unexpected_error_fails_what_is_queued_and_what_comes_later",
    ),
    one(
        "a producer that was dropped queues batches for ever",
        "oncegate.ledgers.kafka.transactions.producer::Producer.send",
        delete("if self._stopped is not None:\n    ..."),
        "tests/faults/kafka/test_producer.py::test_a_producer_that_was_dropped_takes_no_batch",
    ),
    one(
        "a commit whose answer is lost is sent again",
        "oncegate.ledgers.kafka.transactions.producer::Producer.end",
        replace_statement("answer = await self._client.send(...)", END_AGAIN),
        f"{_TESTS}::test_a_commit_whose_answer_is_lost_is_in_doubt_and_sent_once",
    ),
    one(
        "records are written before the coordinator knows of their partition",
        "oncegate.ledgers.kafka.transactions.producer::Producer._pump",
        replace("self._id is None or one in self._added", "True"),
        f"{_PRODUCER}::test_a_partition_that_is_being_added_holds_up_no_other",
    ),
    one(
        "a batch on its way is sent to the next leader too",
        "oncegate.ledgers.kafka.transactions.producer::Producer._pump",
        replace("one not in self._sent", "True"),
        f"{_PRODUCER}::test_a_batch_on_its_way_is_not_sent_to_the_next_leader",
    ),
    one(
        "a partition that is being added holds up all others",
        "oncegate.ledgers.kafka.transactions.producer::Producer._pump",
        replace("self._spawn(self._add(...))", "await self._add([one for one in queued if one not in self._added])"),
        f"{_PRODUCER}::test_a_partition_that_is_being_added_holds_up_no_other",
    ),
    one(
        "an ended epoch is reported as an unspecific error",
        "oncegate.ledgers.kafka.transactions.producer::Producer._error",
        replace("kind is InvalidProducerEpoch", "False"),
        f"{_TESTS}::test_a_newer_producer_of_the_same_id_fences_an_older_one",
    ),
    one(
        "a producer continues after a transaction that failed",
        "oncegate.ledgers.kafka.transactions.guard::Guard._commit",
        delete("await self.close()"),
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "a caller that goes away stops its transaction",
        "oncegate.ledgers.kafka.transactions.guard::Guard.commit",
        replace("uncancelled(self._commit(batches, then))", "self._commit(batches, then)"),
        f"{_TESTS}::test_a_commit_continues_when_its_caller_disconnects",
    ),
    one(
        "a fenced producer gets a retryable error",
        "oncegate.ledgers.kafka.transactions.guard::Guard._send",
        replace("ProducerFenced", "ZeroDivisionError"),
        f"{_TESTS}::test_a_newer_producer_of_the_same_id_fences_an_older_one",
    ),
    one(
        "a refused connection is reported as a timeout",
        "oncegate.ledgers.kafka.watch::Watch.refusal",
        replace("next(iter(self._refusing.values()), None)", "None"),
        f"{_ASKED}::test_a_wrong_password_is_reported_with_the_user_and_where_to_look",
    ),
    one(
        "a topic without a right is found out by its batch alone",
        "oncegate.ledgers.kafka.transactions.producer::Producer._add",
        delete("if refused:\n    ..."),
        f"{_ASKED}::test_a_topic_without_a_right_is_reported_alone_and_nothing_is_written",
    ),
    one(
        "a transactional id that a leader refuses is named as the topic",
        "oncegate.ledgers.kafka.transactions.producer::Producer._error",
        replace("kind is TransactionalIdAuthorizationFailed", "False"),
        f"{_PRODUCER}::test_a_leader_that_refuses_the_transactional_id_is_reported_with_the_id",
    ),
    one(
        "a partition that was not added is written",
        "oncegate.ledgers.kafka.transactions.producer::Producer._add",
        replace("OperationNotAttempted.errno in (code for _, errors in answer.errors for _, code in errors)", "False"),
        f"{_PRODUCER}::test_a_partition_that_the_coordinator_did_not_add_is_not_written",
    ),
    one(
        "a commit that the broker has refused is in doubt",
        "oncegate.ledgers.kafka.transactions.guard::Guard._end",
        replace("isinstance(error, TransactionalIdAuthorizationFailed)", "False"),
        f"{_ASKED}::test_a_transactional_id_that_loses_its_right_before_the_commit_is_not_written",
    ),
    one(
        "a quota is not reported",
        "oncegate.ledgers.kafka.watch::Watch.answered",
        replace("getattr(answer, 'throttle_time_ms', 0)", "0"),
        f"{_ASKED}::test_a_quota_that_is_too_small_is_reported_with_what_to_raise",
    ),
    one(
        "an earlier refusal is reported for a later transaction",
        "oncegate.ledgers.kafka.watch::Watch.begin",
        replace("{}", "getattr(self, '_refusing', {})"),
        "tests/faults/kafka/test_watch.py::test_an_earlier_refusal_is_not_reported_for_a_later_failure",
    ),
    one(
        "an earlier quota is reported for a later transaction",
        "oncegate.ledgers.kafka.watch::Watch.is_throttled",
        replace("self._began", "0"),
        "tests/faults/kafka/test_watch.py::test_a_quota_that_ended_before_the_transaction_began_is_not_reported",
    ),
    one(
        "one broker that refuses ends what others would carry",
        "oncegate.ledgers.kafka.watch::Watch.not_connected",
        replace("not any((session.connected() for session in self._sessions))", "True"),
        "tests/faults/kafka/test_watch.py::test_one_broker_that_refuses_ends_no_wait_while_another_is_connected",
    ),
    one(
        "a session that ends soon is used on",
        "oncegate.ledgers.kafka.watch::Watch.begin",
        replace("session.until <= self._began", "False"),
        f"{_ASKED}::test_a_session_that_ends_soon_is_renewed_before_a_transaction",
    ),
    one(
        "a password is logged",
        "oncegate.ledgers.kafka.security::_names_no_password",
        replace(
            ("not any((type(argument).__name__.startswith('SaslAuthenticateRequest') for argument in arguments))"),
            "True or not any((type(argument).__name__.startswith('SaslAuthenticateRequest') for argument in arguments))",
        ),
        f"{_SETTINGS}::test_the_proof_of_a_user_is_not_logged",
    ),
    one(
        "a password is kept from the first start on",
        "service/oncegate/ledgers/kafka/security.py",
        Text(
            "def _password(path: Path) -> str:\n", "@__import__('functools').cache\ndef _password(path: Path) -> str:\n"
        ),
        f"{_SETTINGS}::test_a_user_is_given_to_the_client_with_the_password_of_the_file",
    ),
    one(
        "a parameter that does nothing is taken",
        "oncegate.ledgers.kafka.security::Security.__post_init__",
        replace("given and (not counts)", "False"),
        f"{_SETTINGS}::test_what_cannot_be_used_is_refused_by_its_name",
    ),
    one(
        "a producer's sequence turns negative",
        "oncegate.ledgers.kafka.record_batch::RecordBatch.of_producer",
        replace("sequence & _SEQUENCES", "sequence"),
        f"{_BATCH_TESTS}::test_a_sequence_continues_from_0_after_the_last",
    ),
    one(
        "a batch is cut past its available room",
        "oncegate.ledgers.kafka.record_batch::_cuts",
        replace("before + room", "before + 2 * room"),
        f"{_BATCH_TESTS}::test_records_are_cut_into_batches_that_a_broker_takes_and_lose_nothing",
    ),
    one(
        "a null is written as an empty value",
        "oncegate.ledgers.kafka.record_batch::_write_field",
        replace("_put(out, place, length)", "_put(out, place, max(length, 0))"),
        f"{_BATCH_TESTS}::test_a_batch_is_byte_for_byte_what_the_builder_makes",
    ),
    one(
        "a row's own headers begin where another's do",
        "oncegate.ledgers.kafka.record_batch::_write_row_headers",
        replace("range(firsts[row], firsts[row] + counts[row])", "range(firsts[0], firsts[0] + counts[row])"),
        f"{_BATCH_TESTS}::test_headers_of_each_row_are_byte_for_byte_what_the_builder_makes",
    ),
    one(
        "headers of a row take no room in a batch",
        "oncegate.ledgers.kafka.record_batch::_cuts",
        replace("own_bytes + _OVERHEAD_BYTES", "0 * own_bytes + _OVERHEAD_BYTES"),
        f"{_BATCH_TESTS}::test_headers_of_each_row_count_where_records_are_cut",
    ),
    one(
        "a key's hash is taken with its sign's bit",
        "oncegate.ledgers.kafka.rows.partitions::partitions_of",
        replace("murmur2(columns.keys) & 2147483647", "murmur2(columns.keys)"),
        f"{_ROW_TESTS}::test_a_key_decides_the_partition_and_rows_without_one_follow_the_turn",
    ),
    one(
        "an empty key goes by turns",
        "oncegate.ledgers.kafka.rows.partitions::partitions_of",
        replace("columns.keys.lengths < 0", "columns.keys.lengths < 1"),
        f"{_ROW_TESTS}::test_a_key_decides_the_partition_and_rows_without_one_follow_the_turn",
    ),
    one(
        "a partition that a topic has not is taken",
        "oncegate.ledgers.kafka.rows.partitions::check_partitions",
        replace("(given < 0) | (given >= most)", "given > most"),
        f"{_ROW_TESTS}::test_a_partition_that_a_topic_has_not_is_refused_by_its_row",
    ),
    one(
        "a column beside Kafka's contract is left out unsaid",
        "oncegate.ledgers.kafka.rows.contract::check_schema",
        insert(
            "continue",
            before=(
                "raise SchemaMismatch(f\"column {field.name!r} is none of a Kafka record's, "
                "which are {', '.join(_TYPES)}: select to_json(struct(*)) AS value, or drop "
                'it{_NOTHING}")'
            ),
        ),
        f"{_ROW_TESTS}::test_a_schema_beside_the_contract_is_refused_by_the_columns_name",
    ),
    one(
        "rows of a partition change their order",
        "oncegate.ledgers.kafka.rows.partitions::shares",
        replace(
            "np.argsort(places.astype(np.min_scalar_type(places.max())), kind='stable')",
            "np.argsort(places.astype(np.min_scalar_type(places.max())), kind='stable')[::-1]",
        ),
        f"{_ROW_TESTS}::test_rows_go_to_the_topic_and_the_partition_that_they_name_in_their_order",
    ),
    one(
        "a row's sequence is that of the row beside it",
        "oncegate.ledgers.kafka.rows.partitions::records_of",
        replace("_some(field, rows)", "_some(field, np.arange(len(rows)))"),
        "tests/faults/kafka/test_row_marks.py::test_each_row_keeps_its_own_sequence_and_digest_after_its_own_headers_wherever_it_goes",
    ),
    one(
        "a record's headers are written in this machine's order of bytes",
        "oncegate.ledgers.kafka.rows.marks::marks_of",
        replace("_sequences(origin, at, rows).astype('>u8')", "_sequences(origin, at, rows).astype('<u8')"),
        "tests/faults/kafka/test_row_marks.py::test_headers_have_the_bytes_of_the_golden_file",
    ),
    one(
        "a stream is sent without waiting for its answers",
        "oncegate.ledgers.kafka.transactions.sending::Sending.room_for",
        replace(
            ("self._unanswered and sum(self._unanswered.values()) + batch.encoded.size() > self._bytes_max"),
            ("not self._unanswered and sum(self._unanswered.values()) + batch.encoded.size() > self._bytes_max"),
        ),
        f"{_BROKER_TESTS}::test_a_batch_that_is_refused_ends_the_stream_with_its_partition",
    ),
    one(
        "the location of rows is that of their last batch",
        "oncegate.ledgers.kafka.rows.stream::RowStream.written",
        replace("last._replace(rows=last.rows + count)", "last._replace(first_offset=offset, rows=last.rows + count)"),
        f"{_BROKER_TESTS}::test_both_clients_read_what_was_written_in_every_compression",
    ),
    one(
        "LZ4 blocks depend on one another",
        "oncegate.ledgers.kafka.compression::_lz4",
        replace(
            "cramjam.lz4.Compressor(level=_LEVEL, content_checksum=False, block_linked=False)",
            "cramjam.lz4.Compressor(level=_LEVEL, content_checksum=False, block_linked=True)",
        ),
        f"{_BROKER_TESTS}::test_both_clients_read_what_was_written_in_every_compression",
    ),
    one(
        "an append in doubt is reported as refused without a check",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "True"),
        f"{_OWNERS}::test_an_append_whose_answer_is_lost_is_found_written",
    ),
    one(
        "an append in doubt is reported as written without a check",
        "oncegate.ledgers.kafka.shard.writer::FrameWriter._decide",
        replace("not self.fold.holds(end)", "False"),
        f"{_OWNERS}::test_an_append_that_the_broker_never_ended_is_refused_and_stays_unwritten",
    ),
    one(
        "the producers before an owner are not ended",
        "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
        delete("await self._end_all(...)"),
        f"{_OWNERS}::test_an_owner_that_was_followed_writes_nothing_and_leaves_its_successor_alone",
    ),
    one(
        "an opener that slept does not ask who came after it",
        "oncegate.ledgers.kafka.shard.ownership::Ownership.begin",
        delete("self._require_highest(...)"),
        f"{_OWNERS}::test_a_gateway_that_slept_between_its_number_and_its_producer_owns_nothing",
    ),
    Mutant(
        "a fenced owner takes the next generation",
        (
            ("oncegate.ledgers.kafka.shard.ownership::Ownership._take", delete("if self.generation:\n    ...")),
            (
                "oncegate.ledgers.server.election::Election.lead",
                replace("self._stands_by or self._has_led or self._is_followed", "False"),
            ),
        ),
        (f"{_OWNERS}::test_an_owner_in_doubt_that_was_followed_leaves_its_successor_alone",),
    ),
    one(
        "a ledger is not compared with its witness",
        "oncegate.ledgers.fold::Fold.require_whole",
        replace("witness is not None", "False"),
        f"{_DAMAGE}::test_a_ledger_that_ends_before_its_witness_never_serves",
        f"{_DAMAGE}::test_a_ledger_of_another_history_than_its_witness_saw_never_serves",
    ),
    one(
        "a recreated topic is taken for a new ledger",
        "oncegate.ledgers.fold::Fold.require_whole",
        replace("proved and (not len(self._links))", "False"),
        f"{_DAMAGE}::test_a_recreated_ledger_never_serves",
    ),
    one(
        "a ledger without its first frames serves",
        "oncegate.ledgers.fold::Fold.require_whole",
        replace(
            "compacted is None and len(self._links) and (self.chain_before(1) != FIRST_CHAIN)",
            "False and self.chain_before(1) != FIRST_CHAIN",
        ),
        f"{_DAMAGE}::test_a_ledger_whose_first_frames_are_gone_never_serves",
    ),
    one(
        "rows that are still needed are deleted with what a collection replaced",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten",
        replace("self._catalog.lowest_offset(OUTPUTS)", "self._fold.ledger_from"),
        f"{_DAMAGE}::test_compacted_records_are_deleted_and_the_rest_is_read",
    ),
    one(
        "a key is written bare although there is a master key",
        "oncegate.ledgers.keys::Keys.wrap",
        replace("_WRAPPED + aes_key_wrap(self._masters[0], key) if self._masters else _BARE + key", "_BARE + key"),
        f"{_DAMAGE}::test_a_bare_key_is_in_no_topic_of_a_ledger_with_a_master_key",
    ),
    one(
        "a topic that a broker does not know yet has no partitions",
        "oncegate.ledgers.kafka.topics::Topics._wrong",
        replace("one['error_code']", "False", nth=1),
        f"{_TOPIC_CHECKS}::test_a_topic_that_a_broker_does_not_know_yet_is_described_again_and_is_not_called_wrong",
        f"{_TOPIC_CHECKS}::test_any_other_error_of_a_description_is_raised_and_no_topic_is_called_wrong",
    ),
    one(
        "a topic that stays unknown is asked for a moment less than the limit",
        "oncegate.ledgers.kafka.topics::Topics.wrong",
        shift("now_s() > until"),
        f"{_TOPIC_CHECKS}::test_a_topic_that_stays_unknown_is_an_error_of_the_broker_after_a_while",
    ),
    one(
        "the settings of topics are not asked",
        "oncegate.ledgers.kafka.topics::Topics._wrong",
        replace("{one.name: one.wrong(found[one.name], replicas[one.name]) for one in topics}", "{}"),
        f"{_DAMAGE}::test_topics_that_would_lose_something_are_refused_by_name",
    ),
)
