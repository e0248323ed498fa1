"""Planted bugs of rows that go into users' topics on Kafka, and of stages that wait for it."""

from tests.mutants.mutant import Mutant, one

_ENGINE = "service/oncegate/engine/usecases"
_SHARD = "service/oncegate/ledgers/kafka/shard"
_ROWS = "service/oncegate/ledgers/kafka/rows"
_TESTS = "tests/faults/kafka/test_topics_of_users.py"
_ELSEWHERE = "tests/engine/usecases/test_rows_elsewhere.py"
_LOST = "tests/faults/kafka/test_lost_markers.py"
_WATCH = "tests/faults/kafka/test_watch.py"
_STAGES = "tests/faults/kafka/test_stages.py"
_COMPRESSED = "tests/faults/kafka/test_compressed_rows.py"
_REFUSED = f"{_TESTS}::test_rows_that_can_be_no_record_are_refused_before_any_effect"

KAFKA_TOPICS: tuple[Mutant, ...] = (
    one(
        "rows are staged that can be no record of Kafka's",
        f"{_ENGINE}/batches.py",
        "        _, topic_ids = await self._topics.fitted(topic, request.rows, request.keys, origin=origin, identified=True)\n",
        "        topic_ids = dict[str, bytes]()\n",
        _REFUSED,
    ),
    one(
        "a batch is begun that no transaction is long enough for",
        f"{_ENGINE}/topics.py",
        '{"waiting_bytes": staged_bytes, "waiting_topics": column_topics}',
        '{"waiting_topics": column_topics}',
        f"{_ELSEWHERE}::test_a_batch_that_cannot_be_sent_at_once_is_refused_before_any_effect",
    ),
    one(
        "large batches share one transaction",
        "service/oncegate/engine/commit/change.py",
        "            return change.waiting_bytes\n",
        "            return 0\n",
        f"{_ELSEWHERE}::test_what_waited_and_is_sent_counts_as_the_append_s_own_bytes",
    ),
    one(
        "a batch that is answered does not let its transaction go on",
        "service/oncegate/ledgers/kafka/watch.py",
        "            self._until = min(asyncio.get_running_loop().time() + wait_s, last)\n"
        "            self._limit.reschedule(self._until)\n",
        "            pass\n",
        f"{_WATCH}::test_a_batch_that_is_answered_lets_a_wait_go_on",
    ),
    one(
        "answers let a transaction go on until the broker aborts it",
        "service/oncegate/ledgers/kafka/watch.py",
        "            self._until = min(asyncio.get_running_loop().time() + wait_s, last)\n",
        "            self._until = asyncio.get_running_loop().time() + wait_s\n",
        f"{_WATCH}::test_no_answer_lets_a_wait_go_on_beyond_its_last_moment",
    ),
    one(
        "a transaction begins behind a broker that was lost meanwhile",
        "service/oncegate/ledgers/kafka/watch.py",
        "        return self._was_cut and self._is_beginning\n",
        "        return False\n",
        f"{_LOST}::test_a_transaction_behind_a_broker_that_ends_meanwhile_is_not_begun",
    ),
    one(
        "an owner that slept does not look whether its broker is the same",
        "service/oncegate/ledgers/kafka/watch.py",
        "        return self._was_cut or any(session.has_ended for session in self._sessions)\n",
        "        return self._was_cut\n",
        f"{_LOST}::test_an_owner_that_slept_while_they_were_forgotten_takes_nothing_along_that_was_acknowledged",
    ),
    one(
        "a producer that was idle for days is used again",
        "service/oncegate/ledgers/kafka/transactions/guard.py",
        "        return self.closed or self._watch.has_been_cut or is_forgotten\n",
        "        return self.closed or self._watch.has_been_cut\n",
        "tests/faults/kafka/test_forgotten_producers.py::test_a_producer_is_replaced_before_it_is_forgotten",
    ),
    one(
        "rows may go to the gateway's own topics",
        f"{_ROWS}/user_topics.py",
        '        if topic.startswith((f"{self._own_prefix}.", "__")):\n',
        '        if topic.startswith("__"):\n',
        _REFUSED,
    ),
    one(
        "topics that rows name are known only while the gateway that took them lives",
        f"{_SHARD}/append_ranges.py",
        "                stream = RowStream(pieces, target, topics.ask, by_row=by_row)\n",
        "                stream = RowStream(pieces, target, by_row=by_row)\n",
        f"{_TESTS}::test_a_batch_goes_to_several_topics_at_once",
    ),
    one(
        "rows go to users' topics as they are, whatever compression the URL asks for",
        f"{_SHARD}/append_ranges.py",
        "now_ms(), turn + number, topics.compression, send.origin)",
        "now_ms(), turn + number, origin=send.origin)",
        f"{_COMPRESSED}::test_rows_lie_in_batches_of_the_codec_that_the_setting_names",
    ),
    one(
        "a compression that nobody has is taken",
        "service/oncegate/ledgers/kafka/address.py",
        "    if value not in (known := get_args(Compression)):\n",
        "    if (known := get_args(Compression)) == ():\n",
        "tests/faults/kafka/test_address.py::test_what_is_wrong_with_a_url_is_said",
    ),
    one(
        "a batch is compressed that becomes larger by it",
        "service/oncegate/ledgers/kafka/record_batch.py",
        "        if len(encoded) >= len(self._encoded):\n",
        "        if not encoded:\n",
        f"{_COMPRESSED}::test_a_batch_that_would_not_become_smaller_stays_as_it_is",
    ),
    one(
        "records of users stand in no frame",
        f"{_SHARD}/ledger.py",
        "                return [*changes, *sent]\n",
        "                return [*changes]\n",
        f"{_TESTS}::test_every_record_of_users_is_named_by_a_frame",
    ),
    one(
        "a column that is an id alone has to be a part of the record",
        f"{_ENGINE}/topics.py",
        "        names = [name for name in rows.schema.names if name not in beside or name in self._elsewhere.columns.names]\n",
        "        names = list(rows.schema.names)\n",
        f"{_TESTS}::test_an_id_that_is_no_part_of_a_record_is_used_and_not_written",
    ),
    one(
        "a topic is written that takes smaller batches",
        f"{_ROWS}/user_topics.py",
        "                if not code and sizes and sizes[0] < BATCH_BYTES:\n",
        "                if not code and sizes and sizes[0] < 0:\n",
        f"{_TESTS}::test_a_topic_that_takes_smaller_batches_is_refused_by_the_setting_to_raise",
    ),
    one(
        "rows that are only counted are told as offsets",
        f"{_ENGINE}/produce.py",
        "        if not self._places.elsewhere:\n",
        "        if True:\n",
        "tests/engine/usecases/test_places_elsewhere.py::test_the_first_answer_and_the_retry_s_tell_the_same_offsets",
    ),
    one(
        "a stage that waits is deleted with one behind it",
        f"{_SHARD}/ledger.py",
        "        offset = stages_to if lowest is None else min(stages_to, lowest)\n",
        "        offset = stages_to\n",
        f"{_STAGES}::test_stages_that_are_needed_no_more_go_and_those_that_wait_stay",
    ),
    one(
        "stages lie among archives",
        f"{_SHARD}/append_ranges.py",
        "        self._topic_of = [OUTPUTS if one.range_id in published else STAGES for one in self._kept]\n",
        "        self._topic_of = [OUTPUTS for one in self._kept]\n",
        f"{_STAGES}::test_what_is_published_as_it_is_written_lies_apart",
    ),
    one(
        "first writes to the list of namespaces make a producer each, of which one is closed",
        "service/oncegate/ledgers/kafka/namespaces.py",
        "        async with self._connecting:\n            if self._witnesses is None:\n",
        "        async with asyncio.Lock():\n            if self._witnesses is None:\n",
        "tests/faults/kafka/test_ledger_ownership.py::test_first_writes_to_the_list_at_once_leave_no_connection_behind",
    ),
    one(
        "a commit asks for its topic by the first chunk alone",
        f"{_ENGINE}/batches.py",
        "        chunks = [chunk for stage in stages if stage is not None for chunk in stage.chunks.values()]\n",
        "        chunks = [stage.chunks[0] for stage in stages if stage is not None and stage.chunks]\n",
        f"{_TESTS}::test_a_stage_without_its_first_chunk_is_missing",
    ),
    Mutant(
        "a refused append goes on reading the stages that it was to send",
        (
            (
                f"{_SHARD}/append_ranges.py",
                "async with aclosing(self._pieces(send, stages)) as pieces:",
                "async with nullcontext(self._pieces(send, stages)) as pieces:",
            ),
            (
                f"{_SHARD}/append_ranges.py",
                "from contextlib import aclosing\n",
                "from contextlib import aclosing, nullcontext\n",
            ),
        ),
        ("tests/faults/kafka/test_sent_rows.py::test_a_topic_that_is_not_there_refuses_its_rows_and_no_others",),
    ),
)
