"""More planted bugs: what Spark's driver finds and tells; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_TARGET = "tests/client/spark/test_target.py"
_OBSERVE = "tests/client/spark/test_observe.py"
_HABITS = "tests/client/spark/test_habits.py"
_WAITING = "tests/spark/test_source_waiting.py"
_GUARANTEES = "tests/client/spark/test_guarantees.py"
_FITTED = "tests/client/spark/test_columns.py"
_COLUMNS = f"{CLIENT}/spark/writers/columns"

SPARK_DRIVER: tuple[Mutant, ...] = (
    one(
        "a write mode that keeps less than is wanted is taken",
        f"{CLIENT}/spark/options/guarantees.py",
        "    if ORDER.index(PROMISES[write].guarantee) < ORDER.index(wanted):\n",
        "    if ORDER.index(PROMISES[write].guarantee) > ORDER.index(wanted):\n",
        f"{_GUARANTEES}::test_what_no_mode_or_not_the_given_one_keeps_is_refused",
    ),
    one(
        "effectively once is promised of a user's sink",
        f"{CLIENT}/spark/options/guarantees.py",
        '        if "sink" in raw:\n            raise BadOption(OWN_SINK)\n',
        '        if "sink" in raw:\n            return "claim"\n',
        f"{_GUARANTEES}::test_what_no_mode_or_not_the_given_one_keeps_is_refused",
    ),
    one(
        "a table's options are taken by a read that says where",
        f"{CLIENT}/spark/options/tables.py",
        "    if not _says_nothing(given):\n        return dict(given)\n",
        "",
        f"{_HABITS}::test_a_read_that_says_where_takes_nothing_of_a_table",
    ),
    one(
        "a write takes its target from the columns' table",
        f"{CLIENT}/spark/datasource.py",
        "        tables.check_write(self.given, is_stream=False)\n",
        "        self.given = tables.of_a_read(self.given, schema)\n",
        "tests/spark/test_sql.py::test_no_write_goes_to_a_table_by_its_name_alone",
    ),
    one(
        "Kafka's JSON of another topic is read",
        f"{CLIENT}/spark/readers/offsets.py",
        "    if list(given) != [topic]:\n",
        "    if topic not in given:\n",
        "tests/spark/test_source_offsets.py::test_kafkas_json_for_another_topic_is_refused",
    ),
    one(
        "Kafka's numbers for the ends change places",
        f"{CLIENT}/spark/readers/offsets.py",
        "KAFKA_EARLIEST, KAFKA_LATEST = -2, -1",
        "KAFKA_LATEST, KAFKA_EARLIEST = -2, -1",
        "tests/spark/test_source_offsets.py::test_kafkas_json_of_offsets_is_read_with_its_numbers_for_the_ends",
    ),
    one(
        "one of two limits is passed over",
        f"{CLIENT}/spark/options/habits.py",
        "        if ours.setdefault(our_name.lower(), value) != value:\n",
        "        if ours.setdefault(our_name.lower(), value) is None:\n",
        f"{_HABITS}::test_what_contradicts_itself_is_refused",
    ),
    one(
        "a stream that waited begins at the end",
        f"{CLIENT}/spark/readers/offsets.py",
        "    return from_json(start) if start else dict.fromkeys(ends.high, 0)\n",
        "    return from_json(start) if start else dict(ends.high)\n",
        f"{_WAITING}::test_a_stream_waits_for_its_topic_and_reads_it_from_the_first_row",
    ),
    one(
        "a stream waits for a namespace that nobody made",
        f"{CLIENT}/spark/readers/common.py",
        "        _check_here(gateway, topic)  # a namespace that is not there says so itself: nothing will come to it\n",
        "",
        f"{_WAITING}::test_what_cannot_be_waited_for_is_said",
    ),
    one(
        "a topic that was read and is gone is waited for",
        f"{CLIENT}/spark/readers/stream.py",
        "        ends = self._ends() if start else self._ends_if_there()\n",
        "        ends = self._ends_if_there()\n",
        f"{_WAITING}::test_what_cannot_be_waited_for_is_said",
    ),
    one(
        "a write of no rows makes no topic",
        f"{CLIENT}/spark/datasource.py",
        "    return not any(message.rows for message in messages if message is not None)\n",
        "    return False\n",
        "tests/client/spark/test_target.py::test_a_write_of_no_rows_makes_the_topic_that_a_write_of_rows_would_make",
    ),
    one(
        "register warns of the installed package",
        f"{CLIENT}/__init__.py",
        "    with pickling.unwarned(spark):\n",
        "    if True:\n",
        "tests/spark/test_habits.py::test_register_does_not_warn_where_the_package_is_installed",
    ),
    one(
        "a write begins without a question",
        f"{CLIENT}/spark/writers/target.py",
        "    fit = check_target(options, schema)\n",
        "    fit = AS_THEY_COME\n",
        f"{_TARGET}::test_a_namespace_that_nobody_made_is_found_before_any_task",
    ),
    one(
        "a topic of other columns is found by the tasks",
        f"{_COLUMNS}/planning.py",
        "        if not self.strange and not self.narrower:\n",
        "        if True:\n",
        f"{_TARGET}::test_columns_that_differ_from_the_topics_are_found_before_any_task",
    ),
    one(
        "rows go into their topic's columns by place",
        f"{_COLUMNS}/planning.py",
        "        columns = tuple((places[column], self.theirs.field(name)) for name, column in self.pairs.items())\n",
        "        columns = tuple((place, self.theirs.field(name)) for place, name in enumerate(self.pairs))\n",
        f"{_FITTED}::test_another_order_a_column_left_out_and_a_narrower_type_are_mended",
    ),
    one(
        "rows are sent in the types that they came in",
        f"{_COLUMNS}/fitting.py",
        "        arrays = [_converted(batch.column(place), field) for place, field in self.columns]\n"
        "        return pa.RecordBatch.from_arrays(arrays, schema=schema)\n",
        "        arrays = [batch.column(place) for place, _ in self.columns]\n"
        "        return pa.RecordBatch.from_arrays(arrays, names=schema.names)\n",
        f"{_FITTED}::test_another_order_a_column_left_out_and_a_narrower_type_are_mended",
    ),
    one(
        "a bigint goes into a double, rounded",
        f"{_COLUMNS}/widening.py",
        "_WHOLE_IN_FLOAT = {pa.float32(): 16, pa.float64(): 32}",
        "_WHOLE_IN_FLOAT = {pa.float32(): 16, pa.float64(): 64}",
        f"{_FITTED}::test_only_a_type_that_holds_every_value_is_wider",
    ),
    one(
        "columns are added to a topic that nobody asked to change",
        f"{CLIENT}/spark/writers/target.py",
        "        if options.merges and topic is not None:\n",
        "        if topic is not None:\n",
        f"{_FITTED}::test_new_columns_are_added_when_asked_for",
    ),
    one(
        "a session that tells names apart by case has them taken for one another",
        f"{_COLUMNS}/fitting.py",
        "        if self.folded and task.is_case_sensitive:\n",
        "        if False:\n",
        f"{_FITTED}::test_names_are_taken_without_regard_to_case_where_the_session_does",
    ),
    one(
        "a null inside goes where the topic takes none",
        f"{_COLUMNS}/fitting.py",
        "    if _has_forbidden_null(made):\n",
        "    if False:\n",
        f"{_FITTED}::test_a_null_inside_where_the_topic_takes_none_is_refused",
    ),
    one(
        "a collation is lost in silence",
        f"{CLIENT}/spark/writers/types.py",
        " or COLLATED in name\n",
        "\n",
        f"{_TARGET}::test_a_collation_is_refused_by_name_where_a_topic_would_lose_it",
    ),
    one(
        "ids that a collation holds for equal are told apart",
        f"{CLIENT}/spark/writers/__init__.py",
        "    if COLLATED in kind:\n",
        "    if False:\n",
        f"{_TARGET}::test_a_collation_is_refused_by_name_where_a_topic_would_lose_it",
    ),
    one(
        "rows without columns come to the tasks",
        f"{CLIENT}/spark/writers/__init__.py",
        "    if not names:\n",
        "    if False:\n",
        f"{_TARGET}::test_rows_without_columns_are_refused",
    ),
    one(
        "a row too large by its types comes to the tasks",
        f"{CLIENT}/spark/writers/target.py",
        '        if options.write != "claim" and max(columns, size_bytes) > _WIDE:\n',
        "        if False:\n",
        f"{_TARGET}::test_a_row_too_large_by_its_types_is_refused",
    ),
    one(
        "dedup looks for the package in no worker's Python",
        f"{CLIENT}/spark/dedup.py",
        "    pickling.check_workers(df.sparkSession)\n",
        "",
        "tests/client/spark/test_dedup.py::test_dedup_looks_at_the_workers_python_and_the_types_on_the_driver",
    ),
    one(
        "dedup takes a type that no Python task reads",
        f"{CLIENT}/spark/dedup.py",
        "    check_types(df.schema, False)\n",
        "",
        "tests/client/spark/test_dedup.py::test_dedup_looks_at_the_workers_python_and_the_types_on_the_driver",
    ),
    one(
        "a type inside of another is not looked at",
        f"{CLIENT}/spark/writers/types.py",
        '        yield from _leaves(f"{path}.element", kind.elementType)\n',
        "        return\n",
        f"{_TARGET}::test_a_type_that_cannot_be_written_is_refused_with_its_column",
    ),
    one(
        "no TLS there, and tried again for two minutes",
        f"{CLIENT}/protocol/effort.py",
        "        if failure.fix is not None:\n",
        "        if False:\n",
        "tests/client/protocol/test_effort.py::test_what_no_further_try_can_mend_ends_the_first",
    ),
    one(
        "the first write of a batch is taken for a deleted checkpoint",
        f"{CLIENT}/spark/writers/staged.py",
        " and first.by_query and done.first_of_app\n",
        " and first.by_query\n",
        "tests/client/spark/test_staged_commit.py::"
        "test_rows_before_the_first_batch_warn_of_a_deleted_checkpoint_unless_they_are_of_this_batch",
    ),
    one(
        "only an unnamed write can be the first of a query",
        f"{CLIENT}/spark/writers/staged.py",
        " and first.by_query and done.first_of_app\n",
        " and first.by_query and done.first_of_app and not first.name.write_id\n",
        "tests/client/spark/test_staged_commit.py::"
        "test_rows_before_the_first_batch_warn_of_a_deleted_checkpoint_unless_they_are_of_this_batch",
    ),
    one(
        "another write of the same batch makes no difference to the first of an app",
        "service/oncegate/index/committed_names.py",
        "        return self._by_app[name.app, name.topic] == (name in self.last)\n",
        "        return True\n",
        "tests/engine/usecases/test_commits.py::"
        "test_the_first_commit_of_an_app_to_a_topic_says_so_and_so_does_its_repeat",
    ),
    one(
        "a name that is one of the last no more counts on for its app",
        "service/oncegate/index/committed_names.py",
        "        self._by_app[name.app, name.topic] -= 1\n",
        "        pass\n",
        "tests/index/test_names_against_a_dict.py::"
        "test_what_is_told_of_a_name_is_what_a_dictionary_says_through_refusals_and_saves",
    ),
    one(
        "an audit takes rows without an id for duplicates",
        f"{CLIENT}/spark/audit/report.py",
        "        return self.rows - self.without_id - self.ids\n",
        "        return self.rows - self.ids\n",
        "tests/client/spark/test_audit_report.py::test_the_numbers_add_up",
    ),
    one(
        "an audit takes an empty id for an id",
        f"{CLIENT}/spark/audit/count.py",
        "        lacking = lacking | reduce(and_, (F.length(column) == 0 for column in ids))\n",
        "        pass\n",
        "tests/spark/test_audit.py::test_copies_distances_and_rows_without_an_id_are_counted",
    ),
    one(
        "a batch of which nothing is written passes in silence",
        f"{CLIENT}/spark/writers/by_id.py",
        "        if total.row_count and total.suppressed == total.row_count:\n",
        "        if False:\n",
        "tests/client/spark/test_ids_writer.py::test_a_write_of_which_nothing_is_new_warns_and_says_why",
    ),
    one(
        "a replay of a staged batch passes in silence",
        f"{CLIENT}/spark/writers/staged.py",
        '    if done.outcome == "DUPLICATE" and done.suppressed_rows:\n',
        "    if False:\n",
        "tests/client/spark/test_staged_commit.py::test_one_line_per_batch_tells_what_became_of_its_rows",
    ),
    one(
        "counts of an older run are taken for those of a replay",
        f"{CLIENT}/spark/observe/counts.py",
        '        if left["run"] == run and (',
        "        if (",
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_told_once",
    ),
    one(
        "counts of a batch that is not done are told with the one before",
        f"{CLIENT}/spark/observe/counts.py",
        "(upto is None or batch <= upto)",
        "True",
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_told_once",
    ),
    one(
        "of two writes of a batch only the last is told",
        f"{CLIENT}/spark/observe/counts.py",
        "(*found.get(batch, ()), WriteCounts(",
        "(WriteCounts(",
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_told_once",
    ),
    one(
        "a staged replay is counted as written",
        f"{CLIENT}/spark/writers/staged.py",
        "        written=rows if is_new else 0,\n",
        "        written=rows,\n",
        f"{_OBSERVE}::test_a_staged_replay_counts_as_suppressed_and_a_named_write_says_its_name",
    ),
    one(
        "tasks do not know who observes them",
        f"{CLIENT}/spark/task_identity.py",
        "        observed=context.getLocalProperty(OBSERVED),\n",
        "",
        "tests/spark/test_observe.py::"
        "test_of_a_hundred_rows_of_which_52_are_written_48_are_written_and_a_replay_writes_none",
    ),
    Mutant(
        "a commit publishes what a dead attempt has staged too",
        (
            (
                "service/oncegate/engine/usecases/batches.py",
                "            stage = self._index.stage(request.name, winner.token)\n            if winner.chunks == 0 or stage is None:\n",
                "            pass\n        for stage in self._index.stages.get(request.name, {}).values():\n            if not stage.chunks:\n",
            ),
            (
                "service/oncegate/engine/usecases/batches.py",
                " for stage in stages if stage.token not in won for part in stage.parts]",
                " for stage in stages if False for part in stage.parts]",
            ),
        ),
        (
            "tests/spark/test_kinds_of_jobs.py::"
            "test_every_output_is_there_once_after_a_kill_and_a_replay[repartition-staged]",
        ),
    ),
    one(
        "an offset that is trimmed and is not is asked for without end",
        f"{CLIENT}/spark/readers/fetch.py",
        "error.low_offset <= left.start",
        "error.low_offset < left.start",
        "tests/spark/test_source_readers.py::"
        "test_an_answer_that_offsets_are_trimmed_which_it_says_are_kept_fails_the_task",
    ),
    one(
        "a promise that a namespace lowers is not warned of",
        f"{CLIENT}/spark/writers/target.py",
        '    if "lowered_by" in of_mode:\n',
        "    if False:\n",
        f"{_TARGET}::test_a_namespace_whose_settings_leave_less_of_the_promise_is_warned_of_before_any_task",
    ),
    one(
        "a sink whose open raised is not closed",
        f"{CLIENT}/spark/writers/claim.py",
        "        with closing(made):\n            _named(made.open)(context)\n",
        "        _named(made.open)(context)\n        with closing(made):\n",
        "tests/client/spark/test_writers.py::test_a_sink_is_closed_once_whatever_its_calls_raised",
    ),
)
