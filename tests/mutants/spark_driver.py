"""More planted bugs: the checks and messages of Spark's driver; see `planted`."""

from tests.mutants.edits import cell, delete, replace, replace_statement, shift, without
from tests.mutants.mutant import Mutant, one

_TARGET = "tests/client/spark/test_target.py"
_OBSERVE = "tests/client/spark/test_observe.py"
_HABITS = "tests/client/spark/test_habits.py"
_WAITING = "tests/spark/test_source_waiting.py"
_GUARANTEES = "tests/client/spark/test_guarantees.py"
_FITTED = "tests/client/spark/test_columns.py"

SPARK_DRIVER: tuple[Mutant, ...] = (
    one(
        "a write mode that keeps less than is wanted is taken",
        "oncegate_spark.spark.options.guarantees::chosen_write",
        replace(
            "ORDER.index(PROMISES[write].guarantee) < ORDER.index(wanted)",
            "ORDER.index(PROMISES[write].guarantee) > ORDER.index(wanted)",
        ),
        f"{_GUARANTEES}::test_what_no_mode_or_not_the_given_one_keeps_is_refused",
    ),
    one(
        "effectively once is promised of a user's sink",
        "oncegate_spark.spark.options.guarantees::_mode_for",
        replace_statement("raise BadOption(OWN_SINK)", "return 'claim'"),
        f"{_GUARANTEES}::test_what_no_mode_or_not_the_given_one_keeps_is_refused",
    ),
    one(
        "a read that names its source uses a table's options",
        "oncegate_spark.spark.options.tables::of_a_read",
        delete("if not _says_nothing(options):\n    ..."),
        f"{_HABITS}::test_a_read_with_a_location_ignores_the_tables_options",
    ),
    one(
        "a write takes its target from the columns' table",
        "oncegate_spark.spark.datasource::OncegateSource.writer",
        replace_statement("tables.check_write(...)", "self.given = tables.of_a_read(self.given, schema)"),
        "tests/spark/test_sql.py::test_no_write_goes_to_a_table_by_its_name_alone",
    ),
    one(
        "Kafka's JSON of another topic is read",
        "oncegate_spark.spark.readers.offsets::_from_kafka",
        replace("list(topics) != [topic]", "topic not in topics"),
        "tests/spark/test_source_offsets.py::test_kafkas_json_for_another_topic_is_refused",
    ),
    one(
        "Kafka's numbers for the ends change places",
        "oncegate_spark.spark.readers.offsets",
        replace("(KAFKA_EARLIEST, KAFKA_LATEST)", "(KAFKA_LATEST, KAFKA_EARLIEST)"),
        "tests/spark/test_source_offsets.py::test_kafkas_json_of_offsets_is_read_with_its_numbers_for_the_ends",
    ),
    one(
        "one of two limits is passed over",
        "oncegate_spark.spark.options.habits::in_our_names",
        replace(
            "ours.setdefault(our_name.lower(), value) != value", "ours.setdefault(our_name.lower(), value) is None"
        ),
        f"{_HABITS}::test_what_contradicts_itself_is_refused",
    ),
    one(
        "a stream that waited begins at the end",
        "oncegate_spark.spark.readers.offsets::begun",
        replace("dict.fromkeys(ends.high, 0)", "dict(ends.high)"),
        f"{_WAITING}::test_a_stream_waits_for_its_topic_and_reads_it_from_the_first_row",
    ),
    one(
        "a stream waits for a missing namespace",
        "oncegate_spark.spark.readers.common::look",
        delete("_check_here(gateway, topic)", nth=1),
        f"{_WAITING}::test_waiting_for_an_impossible_condition_is_reported",
    ),
    one(
        "a topic that was read and is gone is waited for",
        "oncegate_spark.spark.readers.stream::StreamReader.latestOffset",
        replace("self._ends() if start else self._ends_if_there()", "self._ends_if_there()"),
        f"{_WAITING}::test_waiting_for_an_impossible_condition_is_reported",
    ),
    one(
        "a write of no rows makes no topic",
        "oncegate_spark.spark.datasource::_had_no_rows",
        replace("not any((message.rows for message in messages if message is not None))", "False"),
        "tests/client/spark/test_target.py::test_a_write_of_no_rows_makes_the_topic_that_a_write_of_rows_would_make",
    ),
    one(
        "register warns of the installed package",
        "oncegate_spark::register",
        replace_statement(
            "with pickling.unwarned(spark):\n    ...",
            "if True:\n    spark.dataSource.register(source_of(hadoop.of_session(spark)))",
        ),
        "tests/spark/test_habits.py::test_register_does_not_warn_where_the_package_is_installed",
    ),
    one(
        "a write begins without a question",
        "oncegate_spark.spark.writers.target::planned_writer",
        replace("check_target(options, schema)", "AS_THEY_COME"),
        f"{_TARGET}::test_a_missing_namespace_is_found_before_any_task",
    ),
    one(
        "a topic of other columns is found by the tasks",
        "oncegate_spark.spark.writers.columns.planning::Plan.check",
        replace("not self.strange and (not self.narrower)", "True"),
        f"{_TARGET}::test_columns_that_differ_from_the_topics_are_found_before_any_task",
    ),
    one(
        "rows go into their topic's columns by place",
        "oncegate_spark.spark.writers.columns.planning::Plan.fit",
        replace(
            "((indexes[column], self.theirs.field(name)) for name, column in self.pairs.items())",
            "((index, self.theirs.field(name)) for index, name in enumerate(self.pairs))",
        ),
        f"{_FITTED}::test_another_order_a_column_left_out_and_a_narrower_type_are_mended",
    ),
    Mutant(
        "rows are sent in the types that they came in",
        (
            (
                "oncegate_spark.spark.writers.columns.fitting::Fit._fitted",
                replace(
                    "[_converted(batch.column(index), field) for index, field in self.columns]",
                    "[batch.column(index) for index, _ in self.columns]",
                ),
            ),
            (
                "oncegate_spark.spark.writers.columns.fitting::Fit._fitted",
                replace(
                    "pa.RecordBatch.from_arrays(arrays, schema=schema)",
                    "pa.RecordBatch.from_arrays(arrays, names=schema.names)",
                ),
            ),
        ),
        (f"{_FITTED}::test_another_order_a_column_left_out_and_a_narrower_type_are_mended",),
    ),
    one(
        "a bigint goes into a double, rounded",
        "oncegate_spark.spark.writers.columns.planning::_WHOLE_IN_FLOAT",
        cell("pa.float64()", "64"),
        f"{_FITTED}::test_only_a_type_that_holds_every_value_is_wider",
    ),
    one(
        "columns are added to a topic without a request",
        "oncegate_spark.spark.writers.target::check_target",
        replace("options.merges and topic is not None", "topic is not None"),
        f"{_FITTED}::test_new_columns_are_added_when_asked_for",
    ),
    one(
        "names that differ by case are confused in a case-sensitive session",
        "oncegate_spark.spark.writers.columns.fitting::Fit.applied",
        replace("self.folded and task.is_case_sensitive", "False"),
        f"{_FITTED}::test_names_are_taken_without_regard_to_case_where_the_session_does",
    ),
    one(
        "a null inside goes where the topic takes none",
        "oncegate_spark.spark.writers.columns.fitting::_converted",
        replace("_has_forbidden_null(made)", "False"),
        f"{_FITTED}::test_a_null_inside_where_the_topic_takes_none_is_refused",
    ),
    one(
        "a collation is lost in silence",
        "oncegate_spark.spark.writers.types::check_types",
        replace(
            "kind.typeName() == 'void' or name == EMPTY or COLLATED in name",
            "kind.typeName() == 'void' or name == EMPTY",
        ),
        f"{_TARGET}::test_a_collation_is_refused_by_name_where_a_topic_would_lose_it",
    ),
    one(
        "ids that a collation considers equal are distinguished",
        "oncegate_spark.spark.writers::_check_collation",
        replace("COLLATED in kind", "False"),
        f"{_TARGET}::test_a_collation_is_refused_by_name_where_a_topic_would_lose_it",
    ),
    one(
        "rows without columns come to the tasks",
        "oncegate_spark.spark.writers::check_schema",
        replace("not names", "False"),
        f"{_TARGET}::test_rows_without_columns_are_refused",
    ),
    one(
        "a row too large by its types comes to the tasks",
        "oncegate_spark.spark.writers.target::_target_of",
        replace("options.write != 'claim' and max(columns, size_bytes) > _WIDE", "False"),
        f"{_TARGET}::test_a_row_too_large_by_its_types_is_refused",
    ),
    one(
        "dedup looks for the package in no worker's Python",
        "oncegate_spark.spark.dedup::_checked",
        delete("pickling.check_workers(...)"),
        "tests/client/spark/test_dedup.py::test_dedup_looks_at_the_workers_python_and_the_types_on_the_driver",
    ),
    one(
        "dedup takes a type that no Python task reads",
        "oncegate_spark.spark.dedup::_checked",
        delete("check_types(...)"),
        "tests/client/spark/test_dedup.py::test_dedup_looks_at_the_workers_python_and_the_types_on_the_driver",
    ),
    one(
        "a type inside of another is not looked at",
        "oncegate_spark.spark.writers.types::_leaves",
        replace_statement("yield from _leaves(f'{path}.element', kind.elementType)", "return"),
        f"{_TARGET}::test_a_type_that_cannot_be_written_is_refused_with_its_column",
    ),
    one(
        "no TLS there, and tried again for two minutes",
        "oncegate_spark.protocol.effort::Effort.failed",
        replace("failure.fix is not None", "False"),
        "tests/client/protocol/test_effort.py::test_what_no_further_try_can_mend_ends_the_first",
    ),
    one(
        "the first write of a batch is taken for a deleted checkpoint",
        "oncegate_spark.spark.writers.staged::_tell",
        replace("first.batch == '0' and first.by_query and done.first_of_app", "first.batch == '0' and first.by_query"),
        "tests/client/spark/test_staged_commit.py::"
        "test_rows_before_the_first_batch_warn_of_a_deleted_checkpoint_unless_they_are_of_this_batch",
    ),
    one(
        "only an unnamed write can be the first of a query",
        "oncegate_spark.spark.writers.staged::_tell",
        replace(
            "first.batch == '0' and first.by_query and done.first_of_app",
            ("first.batch == '0' and first.by_query and done.first_of_app and (not first.name.write_id)"),
        ),
        "tests/client/spark/test_staged_commit.py::"
        "test_rows_before_the_first_batch_warn_of_a_deleted_checkpoint_unless_they_are_of_this_batch",
    ),
    one(
        "another write of the same batch makes no difference to the first of an app",
        "oncegate.index.committed_names::CommittedNames.is_first",
        replace("self._by_app[name.app, name.topic] == (name in self.last)", "True"),
        "tests/engine/usecases/test_commits.py::"
        "test_the_first_commit_of_an_app_to_a_topic_is_marked_and_so_is_its_repeat",
    ),
    one(
        "a name that is one of the last no more counts on for its app",
        "oncegate.index.committed_names::CommittedNames._take_out",
        delete("self._by_app[name.app, name.topic] -= 1"),
        "tests/index/test_names_against_a_dict.py::"
        "test_answers_about_a_name_match_a_dictionary_through_refusals_and_saves",
    ),
    one(
        "an audit takes rows without an id for duplicates",
        "oncegate_spark.spark.audit::Audit.duplicates",
        replace("self.rows - self.without_id", "self.rows"),
        "tests/client/spark/test_audit_report.py::test_the_numbers_add_up",
    ),
    one(
        "an audit takes an empty id for an id",
        "oncegate_spark.spark.audit::_buckets",
        delete("lacking = lacking | reduce(and_, (F.length(column) == 0 for column in ids))"),
        "tests/spark/test_audit.py::test_copies_distances_and_rows_without_an_id_are_counted",
    ),
    one(
        "a batch of which nothing is written passes in silence",
        "oncegate_spark.spark.writers.by_id::ByIdWriter.record",
        replace("total.row_count and total.suppressed == total.row_count", "False"),
        "tests/client/spark/test_ids_writer.py::test_a_write_without_new_rows_warns_with_the_reason",
    ),
    one(
        "a replay of a staged batch passes in silence",
        "oncegate_spark.spark.writers.staged::_tell",
        replace("done.outcome == 'DUPLICATE' and done.suppressed_rows", "False"),
        "tests/client/spark/test_staged_commit.py::test_one_line_per_batch_explains_the_results_of_its_rows",
    ),
    one(
        "counts of an older run are taken for those of a replay",
        "oncegate_spark.spark.observe.counts::collect",
        replace("left['run'] == run and (upto is None or batch <= upto)", "upto is None or batch <= upto"),
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_reported_once",
    ),
    one(
        "counts of an unfinished batch are reported with the previous one",
        "oncegate_spark.spark.observe.counts::collect",
        replace("upto is None or batch <= upto", "True"),
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_reported_once",
    ),
    one(
        "of two writes of a batch only the last is reported",
        "oncegate_spark.spark.observe.counts::collect",
        replace("(*counts.get(batch, ()), WriteCounts(**left['counts']))", "WriteCounts(**left['counts'])"),
        f"{_OBSERVE}::test_the_counts_of_a_batch_are_those_of_its_run_and_are_reported_once",
    ),
    one(
        "a staged replay is counted as written",
        "oncegate_spark.spark.writers.staged::_counts",
        replace("rows if is_new else 0", "rows"),
        f"{_OBSERVE}::test_a_staged_replay_counts_as_suppressed_and_a_named_write_shows_its_name",
    ),
    one(
        "tasks do not know who observes them",
        "oncegate_spark.spark.task_identity::of_task",
        without("observed="),
        "tests/spark/test_observe.py::"
        "test_of_a_hundred_rows_of_which_52_are_written_48_are_written_and_a_replay_writes_none",
    ),
    Mutant(
        "a commit publishes what a dead attempt has staged too",
        (
            (
                "oncegate.engine.usecases.batches::Batches._winners_parts",
                replace_statement(
                    "for winner in request.winners:\n    ...",
                    (
                        "for winner in request.winners:\n"
                        "    pass\n"
                        "for stage in self._index.stages.get(request.name, {}).values():\n"
                        "    if not stage.chunks:\n"
                        "        continue\n"
                        "    schema = read_schema(stage.chunks[0].schema)\n"
                        "    if first_schema is None:\n"
                        "        first_schema, entries = (schema, "
                        "self._topics.creation(request.name.topic, schema))\n"
                        "    check_schema(request.name.topic, first_schema, schema)\n"
                        "    self._check_layout(request.name.topic, stage)\n"
                        "    parts += stage.parts"
                    ),
                ),
            ),
            ("oncegate.engine.usecases.batches::Batches._losers", replace("stage.token not in won", "False")),
        ),
        (
            "tests/spark/test_kinds_of_jobs.py::"
            "test_every_output_is_there_once_after_a_kill_and_a_replay[repartition-staged]",
        ),
    ),
    one(
        "an offset that is trimmed and is not is asked for without end",
        "oncegate_spark.spark.readers.common::_after_the_lost",
        shift("error.low_offset <= left.start"),
        "tests/spark/test_source_readers.py::"
        "test_an_answer_that_contradicts_itself_about_trimmed_offsets_fails_the_task",
    ),
    one(
        "a promise that a namespace lowers is not warned of",
        "oncegate_spark.spark.writers.target::_warn_of_less",
        replace("'lowered_by' in of_mode", "False"),
        f"{_TARGET}::test_a_namespace_whose_settings_leave_less_of_the_promise_is_warned_of_before_any_task",
    ),
    one(
        "a sink whose open raised is not closed",
        "oncegate_spark.spark.writers.claim::ClaimWriter._settling",
        replace_statement(
            "with closing(made):\n    ...",
            (
                "_named(made.open)(context)\n"
                "with closing(made):\n"
                "    with self._by_rows(gateway, token, task, _named(made.write), done) as settler:\n"
                "        yield settler"
            ),
        ),
        "tests/client/spark/test_writers.py::test_a_sink_is_closed_once_whatever_its_calls_raised",
    ),
)
