"""Planted bugs of Spark's contract for Kafka sinks, as `format("oncegate")` keeps it."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_RECORDS = f"{CLIENT}/spark/writers/columns/records.py"
_TARGET = f"{CLIENT}/spark/writers/target.py"
_TESTS = "tests/client/spark/test_records.py"
_REFUSED = f"{_TESTS}::test_what_can_be_no_record_is_refused_with_the_line_to_write"
_OPTIONS = f"{_TESTS}::test_options_that_say_nothing_of_records_are_refused"

KAFKA_SINK: tuple[Mutant, ...] = (
    one(
        "the column topic is sent although the option names a topic",
        _RECORDS,
        "        if decided and field.name == TOPIC_COLUMN:\n",
        "        if False:\n",
        f"{_TESTS}::test_the_option_topic_goes_before_the_column",
    ),
    one(
        "the column topic is dropped although no option names a topic",
        _RECORDS,
        "    decided, used = not options.by_row, _used(options)\n",
        "    decided, used = True, _used(options)\n",
        f"{_TESTS}::test_the_column_topic_decides_where_no_option_does",
    ),
    one(
        "a topic that is part of an id decides where the row goes",
        _RECORDS,
        "            field = field.with_name(aside)\n",
        "",
        f"{_TESTS}::test_a_topic_column_that_is_part_of_the_id_does_not_decide",
    ),
    one(
        "a column that no record has is dropped unsaid",
        _RECORDS,
        "    if strange := [name for name in kinds if name not in TYPES and name not in used]:\n",
        "    if strange := []:\n",
        _REFUSED,
    ),
    one(
        "rows without a value are left to the tasks",
        _RECORDS,
        '    if "value" not in kinds:\n',
        "    if not kinds:\n",
        _REFUSED,
    ),
    one(
        "a column of another type is left to the tasks",
        _RECORDS,
        "        if is_sent and kind not in TYPES[name]:\n",
        "        if is_sent and not kind:\n",
        _REFUSED,
    ),
    one(
        "keyCol says nothing of records, and is taken", _RECORDS, "    if options.key_names:\n", "    if 0:\n", _OPTIONS
    ),
    one(
        "mergeSchema says nothing of records, and is taken",
        _RECORDS,
        "    if options.merges:\n",
        "    if 0:\n",
        _OPTIONS,
    ),
    one(
        "ids to topics of rows meet in one set of all jobs",
        _RECORDS,
        " and options.id_set is None:\n",
        " and options.id_set == '':\n",
        f"{_TESTS}::test_ids_of_rows_with_their_own_topics_need_a_set_by_name",
    ),
    one(
        "a producer's column is sent to a topic of Kafka",
        f"{CLIENT}/spark/writers/ids.py",
        "                    sent = part.drop_columns(list(self.fit.used_up))\n",
        "                    sent = part\n",
        "tests/spark/test_kafka_topics.py::test_rows_known_by_sequence_are_written_once_and_in_order",
    ),
    one(
        "a topic of Kafka that nobody made is left to the tasks",
        _TARGET,
        "    if not options.by_row:\n        with",
        "    if False:\n        with",
        f"{_TESTS}::test_the_driver_asks_for_the_topic_and_refuses_one_that_is_not_there",
    ),
    one(
        "a column topic is enough for a gateway without Kafka",
        _TARGET,
        "    if options.by_row:\n        raise options.without_topic\n",
        "",
        f"{_TESTS}::test_a_column_topic_is_enough_on_kafka_alone",
    ),
    one(
        "a write of no rows makes a topic of Kafka's a gateway's",
        f"{CLIENT}/spark/writers/empty.py",
        '            if "topics_at" in gateway.describe():\n                return\n',
        "",
        f"{_TESTS}::test_a_write_of_no_rows_makes_no_topic_there",
    ),
    one(
        "a read waits for ever for a topic of Kafka's",
        f"{CLIENT}/spark/readers/common.py",
        "    if brokers:\n        raise Refused(",
        "    if False:\n        raise Refused(",
        f"{_TESTS}::test_a_read_says_how_kafka_is_read",
    ),
)
