"""Planted bugs of transactions on Kafka."""

from tests.mutants.mutant import Mutant, one

_TRANSACTIONS = "service/oncegate/ledgers/kafka/transactions"
_GUARD = f"{_TRANSACTIONS}/guard.py"
_TESTS = "tests/faults/kafka/test_guard.py"
_SECURITY = "service/oncegate/ledgers/kafka/security.py"
_WATCH = "service/oncegate/ledgers/kafka/watch.py"
_ASKED = "tests/faults/kafka/test_security.py"
_SETTINGS = "tests/faults/kafka/test_security_settings.py"
_BATCHES = "service/oncegate/ledgers/kafka/record_batch.py"
_BATCH_TESTS = "tests/faults/kafka/test_record_batch.py"
_ROWS = "service/oncegate/ledgers/kafka/rows"
_ROW_TESTS = "tests/faults/kafka/test_row_columns.py"
_BROKER_TESTS = "tests/faults/kafka/test_rows_on_a_broker.py"
_SHARD = "service/oncegate/ledgers/kafka/shard"
_OWNERS = "tests/faults/kafka/test_ledger_ownership.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"

KAFKA: tuple[Mutant, ...] = (
    one(
        "a produce request does not say how many batches it has",
        "service/oncegate/ledgers/kafka/connection.py",
        "        yield Int32.encode(len(value))\n        for item in value:\n",
        "        for item in value:\n",
        "tests/faults/kafka/test_connection.py"
        "::test_the_parts_of_a_produce_request_are_byte_for_byte_what_aiokafka_encodes",
    ),
    one(
        "a transaction is committed without its batches' own outcomes",
        f"{_TRANSACTIONS}/sending.py",
        "        return [told.offset for told in await asyncio.gather(*(future for *_, future in self._sent))]\n",
        "        await asyncio.wait([future for *_, future in self._sent])\n        return [0 for _ in self._sent]\n",
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "a commit whose answer is lost is sent again",
        f"{_TRANSACTIONS}/producer.py",
        "            if self.ends_sent > 1:\n",
        "            if self.ends_sent > 2:\n",
        f"{_TESTS}::test_a_commit_whose_answer_is_lost_is_in_doubt_and_sent_once",
    ),
    one(
        "a producer goes on after a transaction that ended badly",
        _GUARD,
        "            except BaseException:\n                await self.close()\n                raise\n",
        "            except BaseException:\n                raise\n",
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "a caller that goes away stops its transaction",
        _GUARD,
        "        return await uncancelled(self._commit(batches, then))\n",
        "        return await self._commit(batches, then)\n",
        f"{_TESTS}::test_a_commit_goes_on_when_its_caller_goes_away",
    ),
    one(
        "a fenced producer is told as one that may try again",
        _GUARD,
        "        except ProducerFenced as error:\n",
        "        except ZeroDivisionError as error:\n",
        f"{_TESTS}::test_a_newer_producer_of_the_same_id_fences_an_older_one",
    ),
    one(
        "what brokers refuse of a connection is told as a time that passed",
        _WATCH,
        "            return next(iter(self._refusing.values()), None)\n",
        "            return None\n",
        f"{_ASKED}::test_a_wrong_password_is_told_with_the_user_and_where_to_look",
    ),
    one(
        "a topic without a right is found out by its batch alone",
        f"{_TRANSACTIONS}/producer.py",
        "            error_transaction(error)\n            watch.refused(error)\n",
        "            error_transaction(error)\n",
        f"{_ASKED}::test_a_topic_without_a_right_is_told_alone_and_nothing_is_written",
    ),
    one(
        "a commit that the broker has refused is in doubt",
        _GUARD,
        "            if is_definite and isinstance(error, TransactionalIdAuthorizationFailed):\n",
        "            if False:\n",
        f"{_ASKED}::test_a_transactional_id_that_loses_its_right_before_the_commit_is_not_written",
    ),
    one(
        "a quota is not told",
        _WATCH,
        '        if throttle_ms := getattr(answer, "throttle_time_ms", 0):\n',
        "        if throttle_ms := 0:\n",
        f"{_ASKED}::test_a_quota_that_is_too_small_is_told_with_what_to_raise",
    ),
    one(
        "a refusal of before is told of a later transaction",
        _WATCH,
        "        self._refusing: dict[tuple[str, int], Refusal] = {}\n",
        "        self._refusing: dict[tuple[str, int], Refusal] = getattr(self, '_refusing', {})\n",
        "tests/faults/kafka/test_watch.py::test_a_refusal_of_before_is_not_told_of_what_fails_later",
    ),
    one(
        "a quota of before is told of a later transaction",
        _WATCH,
        "        return self._throttled_until > self._began\n",
        "        return self._throttled_until > 0\n",
        "tests/faults/kafka/test_watch.py::test_a_quota_that_was_over_before_the_transaction_began_is_not_told",
    ),
    one(
        "one broker that refuses ends what others would carry",
        _WATCH,
        "            if not any(session.connected() for session in self._sessions):\n",
        "            if True:\n",
        "tests/faults/kafka/test_watch.py::test_one_broker_that_refuses_ends_no_wait_while_another_is_connected",
    ),
    one(
        "a session that ends soon is used on",
        _WATCH,
        "            if session.until <= self._began:\n",
        "            if False:\n",
        f"{_ASKED}::test_a_session_that_ends_soon_is_begun_anew_before_a_transaction",
    ),
    one(
        "a password is logged",
        _SECURITY,
        "    return not any(type(argument)",
        "    return True or not any(type(argument)",
        f"{_SETTINGS}::test_the_proof_of_a_user_is_not_logged",
    ),
    one(
        "a password is kept from the first start on",
        _SECURITY,
        "def _password(path: Path) -> str:\n",
        "@__import__('functools').cache\ndef _password(path: Path) -> str:\n",
        f"{_SETTINGS}::test_a_user_is_given_to_the_client_with_the_password_of_the_file",
    ),
    one(
        "a parameter that does nothing is taken",
        _SECURITY,
        "            if given and not counts:\n",
        "            if False:\n",
        f"{_SETTINGS}::test_what_cannot_be_used_is_refused_by_its_name",
    ),
    one(
        "a producer's sequence turns negative",
        _BATCHES,
        "        self._producer = producer_id, epoch, sequence & _SEQUENCES\n",
        "        self._producer = producer_id, epoch, sequence\n",
        f"{_BATCH_TESTS}::test_a_sequence_goes_on_from_0_where_aiokafkas_turns_negative",
    ),
    one(
        "a batch is cut behind the room that it has",
        _BATCHES,
        '        cuts.append(int(np.searchsorted(ends, before + room, side="right")))\n',
        '        cuts.append(int(np.searchsorted(ends, before + 2 * room, side="right")))\n',
        f"{_BATCH_TESTS}::test_records_are_cut_into_batches_that_a_broker_takes_and_lose_nothing",
    ),
    one(
        "a null is written as an empty value",
        _BATCHES,
        "        place = _put(out, place, length)\n        if length > 0:\n",
        "        place = _put(out, place, max(length, 0))\n        if length > 0:\n",
        f"{_BATCH_TESTS}::test_a_batch_is_byte_for_byte_what_the_builder_makes",
    ),
    one(
        "a row's own headers begin where another's do",
        _BATCHES,
        "        for item in range(firsts[row], firsts[row] + counts[row]):\n",
        "        for item in range(firsts[0], firsts[0] + counts[row]):\n",
        f"{_BATCH_TESTS}::test_headers_of_each_row_are_byte_for_byte_what_the_builder_makes",
    ),
    one(
        "headers of a row take no room in a batch",
        _BATCHES,
        "    count, sizes = len(own_bytes), own_bytes + _OVERHEAD_BYTES\n",
        "    count, sizes = len(own_bytes), 0 * own_bytes + _OVERHEAD_BYTES\n",
        f"{_BATCH_TESTS}::test_headers_of_each_row_count_where_records_are_cut",
    ),
    one(
        "a key's hash is taken with its sign's bit",
        f"{_ROWS}/partitions.py",
        "murmur2(columns.keys) & 0x7FFFFFFF",
        "murmur2(columns.keys)",
        f"{_ROW_TESTS}::test_a_key_says_the_partition_and_rows_without_one_go_where_the_turn_says",
    ),
    one(
        "an empty key goes by turns",
        f"{_ROWS}/partitions.py",
        "np.where(columns.keys.lengths < 0, turn",
        "np.where(columns.keys.lengths < 1, turn",
        f"{_ROW_TESTS}::test_a_key_says_the_partition_and_rows_without_one_go_where_the_turn_says",
    ),
    one(
        "a partition that a topic has not is taken",
        f"{_ROWS}/partitions.py",
        "((given < 0) | (given >= most))",
        "(given > most)",
        f"{_ROW_TESTS}::test_a_partition_that_a_topic_has_not_is_refused_by_its_row",
    ),
    one(
        "a column beside Kafka's contract is left out unsaid",
        f"{_ROWS}/contract.py",
        "        if field.name not in _TYPES:\n            raise SchemaMismatch(\n",
        "        if field.name not in _TYPES:\n            continue\n            raise SchemaMismatch(\n",
        f"{_ROW_TESTS}::test_a_schema_beside_the_contract_is_refused_by_the_columns_name",
    ),
    one(
        "rows of a partition change their order",
        f"{_ROWS}/shares.py",
        '    order = np.argsort(places.astype(np.min_scalar_type(places.max())), kind="stable")\n',
        '    order = np.argsort(places.astype(np.min_scalar_type(places.max())), kind="stable")[::-1]\n',
        f"{_ROW_TESTS}::test_rows_go_to_the_topic_and_the_partition_that_they_name_in_their_order",
    ),
    one(
        "a row's sequence is that of the row beside it",
        f"{_ROWS}/shares.py",
        "        [(name, _some(field, rows)) for name, field in marks],\n",
        "        [(name, _some(field, np.arange(len(rows)))) for name, field in marks],\n",
        "tests/faults/kafka/test_row_marks.py::test_each_row_keeps_its_own_sequence_and_digest_behind_its_own_headers_wherever_it_goes",
    ),
    one(
        "a record's headers are written in this machine's order of bytes",
        f"{_ROWS}/marks.py",
        'rows).astype(">u8")',
        'rows).astype("<u8")',
        "tests/faults/kafka/test_row_marks.py::test_headers_have_the_bytes_of_the_golden_file",
    ),
    one(
        "a stream is sent without waiting for its answers",
        f"{_TRANSACTIONS}/sending.py",
        "        while self._unanswered and sum",
        "        while not self._unanswered and sum",
        f"{_BROKER_TESTS}::test_a_batch_that_is_refused_ends_the_stream_with_its_partition",
    ),
    one(
        "where rows lie is told by their last batch",
        f"{_ROWS}/stream.py",
        "of_partition[-1] = last._replace(rows=last.rows + count)\n",
        "of_partition[-1] = last._replace(first_offset=offset, rows=last.rows + count)\n",
        f"{_BROKER_TESTS}::test_both_clients_read_what_was_written_in_every_compression",
    ),
    one(
        "LZ4 blocks depend on one another",
        "service/oncegate/ledgers/kafka/compression.py",
        "block_linked=False",
        "block_linked=True",
        f"{_BROKER_TESTS}::test_both_clients_read_what_was_written_in_every_compression",
    ),
    one(
        "an append in doubt is told as refused without a look",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if True:\n",
        f"{_OWNERS}::test_an_append_whose_answer_is_lost_is_found_written",
    ),
    one(
        "an append in doubt is told as written without a look",
        f"{_SHARD}/writer.py",
        "        if not self.fold.holds(end):\n",
        "        if False:\n",
        f"{_OWNERS}::test_an_append_that_the_broker_never_ended_is_refused_and_stays_unwritten",
    ),
    one(
        "the producers before an owner are not ended",
        f"{_SHARD}/ownership.py",
        "        await self._end_all(range(max(taken.proved, 1), taken.highest))\n",
        "",
        f"{_OWNERS}::test_an_owner_that_was_followed_writes_nothing_and_leaves_its_successor_alone",
    ),
    one(
        "an opener that slept does not ask who came after it",
        f"{_SHARD}/ownership.py",
        "            self._require_highest(self._list.listed)\n        except",
        "            pass\n        except",
        f"{_OWNERS}::test_a_gateway_that_slept_between_its_number_and_its_producer_owns_nothing",
    ),
    Mutant(
        "a fenced owner takes the next generation",
        (
            (
                f"{_SHARD}/ownership.py",
                "        if self.generation:\n            self._require_highest(listed)\n",
                "",
            ),
            (
                "service/oncegate/ledgers/remote/election.py",
                "        if self._stands_by or self._has_led or self._is_followed:\n            raise",
                "        if False:\n            raise",
            ),
        ),
        (f"{_OWNERS}::test_an_owner_in_doubt_that_was_followed_leaves_its_successor_alone",),
    ),
    one(
        "a ledger is not held against its witness",
        "service/oncegate/ledgers/fold.py",
        "        if witness is not None:\n",
        "        if False:\n",
        f"{_DAMAGE}::test_a_ledger_that_ends_before_its_witness_never_serves",
        f"{_DAMAGE}::test_a_ledger_of_another_history_than_its_witness_saw_never_serves",
    ),
    one(
        "a topic that was made anew is taken for a new ledger",
        "service/oncegate/ledgers/fold.py",
        "        if proved and not len(self._links):\n",
        "        if False:\n",
        f"{_DAMAGE}::test_a_ledger_that_was_made_anew_never_serves",
    ),
    one(
        "a ledger without its first frames serves",
        "service/oncegate/ledgers/fold.py",
        "        if compacted is None and len(self._links) and",
        "        if False and",
        f"{_DAMAGE}::test_a_ledger_whose_first_frames_are_gone_never_serves",
    ),
    one(
        "rows that are still needed are deleted with what a collection replaced",
        f"{_SHARD}/ledger.py",
        "        outputs_from = self._catalog.lowest_offset(OUTPUTS)\n",
        "        outputs_from = self._fold.ledger_from\n",
        f"{_DAMAGE}::test_what_a_collection_replaced_is_deleted_and_the_rest_is_read",
    ),
    one(
        "a key is written bare although there is a master key",
        "service/oncegate/ledgers/keys.py",
        "        return _WRAPPED + aes_key_wrap(self._masters[0], key) if self._masters else _BARE + key\n",
        "        return _BARE + key\n",
        f"{_DAMAGE}::test_a_bare_key_stands_in_no_topic_of_a_ledger_with_a_master_key",
    ),
    one(
        "the settings of topics are not asked",
        "service/oncegate/ledgers/kafka/topics.py",
        "        return {one.name: one.wrong(found[one.name], replicas[one.name]) for one in topics}\n",
        "        return {}\n",
        f"{_DAMAGE}::test_topics_that_would_lose_something_are_refused_by_name",
    ),
)
