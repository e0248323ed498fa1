"""Planted bugs of Spark's contract for Kafka sinks, as `format("oncegate")` implements it."""

from tests.mutants.edits import delete, replace
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/client/spark/test_records.py"
_REFUSED = f"{_TESTS}::test_what_can_be_no_record_is_refused_with_the_line_to_write"
_OPTIONS = f"{_TESTS}::test_options_without_meaning_for_records_are_refused"

KAFKA_SINK: tuple[Mutant, ...] = (
    one(
        "the column topic is sent although the option names a topic",
        "oncegate_spark.spark.writers.columns.records::records",
        replace("decided and field.name == TOPIC_COLUMN", "False"),
        f"{_TESTS}::test_the_option_topic_goes_before_the_column",
    ),
    one(
        "the column topic is dropped although no option names a topic",
        "oncegate_spark.spark.writers.columns.records::records",
        replace("not options.by_row", "True"),
        f"{_TESTS}::test_the_column_topic_decides_where_no_option_does",
    ),
    one(
        "a topic that is part of an id decides where the row goes",
        "oncegate_spark.spark.writers.columns.records::records",
        delete("field = field.with_name(aside)"),
        f"{_TESTS}::test_a_topic_column_that_is_part_of_the_id_does_not_decide",
    ),
    one(
        "a column that no record has is dropped unsaid",
        "oncegate_spark.spark.writers.columns.records::_check_columns",
        replace("[name for name in kinds if name not in TYPES and name not in used]", "[]"),
        _REFUSED,
    ),
    one(
        "rows without a value are left to the tasks",
        "oncegate_spark.spark.writers.columns.records::_check_columns",
        replace("'value' not in kinds", "not kinds"),
        _REFUSED,
    ),
    one(
        "a column of another type is left to the tasks",
        "oncegate_spark.spark.writers.columns.records::_check_columns",
        replace("kind not in TYPES[name]", "not kind"),
        _REFUSED,
    ),
    one(
        "keyCol has no effect on records, and is accepted",
        "oncegate_spark.spark.writers.columns.records::_check_options",
        replace("options.key_names", "0"),
        _OPTIONS,
    ),
    one(
        "mergeSchema has no effect on records, and is accepted",
        "oncegate_spark.spark.writers.columns.records::_check_options",
        replace("options.merges", "0"),
        _OPTIONS,
    ),
    one(
        "ids to topics of rows meet in one set of all jobs",
        "oncegate_spark.spark.writers.columns.records::_check_options",
        replace("options.id_set is None", "options.id_set == ''"),
        f"{_TESTS}::test_ids_of_rows_with_their_own_topics_need_a_set_by_name",
    ),
    one(
        "a producer's column is sent to a topic of Kafka",
        "oncegate_spark.spark.writers.ids::IdsWriter._by_lane",
        replace("part.drop_columns(list(self.fit.used_up))", "part"),
        "tests/spark/test_kafka_topics.py::test_rows_known_by_sequence_are_written_once_and_in_order",
    ),
    one(
        "a missing Kafka topic is left to the tasks",
        "oncegate_spark.spark.writers.target::_fit_of_records",
        replace("not options.by_row", "False"),
        f"{_TESTS}::test_the_driver_asks_for_the_topic_and_refuses_one_that_is_not_there",
    ),
    one(
        "a column topic is enough for a gateway without Kafka",
        "oncegate_spark.spark.writers.target::check_target",
        delete("if options.by_row:\n    ..."),
        f"{_TESTS}::test_a_column_topic_is_enough_on_kafka_alone",
    ),
    one(
        "a write of no rows makes a topic of Kafka's a gateway's",
        "oncegate_spark.spark.writers.empty::EmptyWrite.make_topic",
        delete("if 'topics_at' in gateway.describe():\n    ..."),
        f"{_TESTS}::test_a_write_of_no_rows_makes_no_topic_there",
    ),
    one(
        "a read waits for ever for a topic of Kafka's",
        "oncegate_spark.spark.readers.common::_check_here",
        replace("brokers", "False", nth=2),
        f"{_TESTS}::test_a_read_shows_how_kafka_is_read",
    ),
)
