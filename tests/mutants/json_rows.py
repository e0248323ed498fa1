"""Planted bugs of rows as JSON: values that change on their way into a topic, or back."""

from tests.mutants.edits import delete, replace, shift, without
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/transports/decode/test_json_values.py"
_REFUSED = f"{_TESTS}::test_a_value_that_its_type_cannot_give_back_is_refused_at_every_depth"
_KEPT = f"{_TESTS}::test_a_value_that_its_type_holds_is_read_back_at_every_depth"
_DIGITS = f"{_TESTS}::test_a_number_whose_digits_a_double_loses_is_refused_where_it_is"
_FUZZ = f"{_TESTS}::test_whatever_is_sent_is_read_back_or_refused_whatever_is_beside_it"
_DOOR = "tests/transports/http/test_json_rows.py"
_TOPICS = "tests/engine/usecases/test_topics.py"

JSON_ROWS: tuple[Mutant, ...] = (
    one(
        "a fraction is cut from a number of a column of whole ones",
        "oncegate.transports.decode.json_values::_whole",
        replace("not number.is_integer() or abs(number) >= EXACT_MAX", "abs(number) >= EXACT_MAX"),
        _REFUSED,
        f"{_DOOR}::test_a_number_is_never_cut_to_the_column_s_type",
    ),
    one(
        "the first number that a double may not mean is taken",
        "oncegate.transports.decode.json_values::_whole",
        shift("abs(number) >= EXACT_MAX"),
        _REFUSED,
    ),
    one(
        "true is a number",
        "oncegate.transports.decode.json_values::_LEAVES",
        replace("{int, float, str}", "{int, float, str, bool}"),
        _REFUSED,
    ),
    one(
        "a number of days is a date",
        "oncegate.transports.decode.json_values::_LEAVES",
        replace("({str}, 'an ISO 8601 date as text', _dates)", "({str, int}, 'an ISO 8601 date as text', _plain)"),
        _REFUSED,
    ),
    one(
        "a member that a struct does not have is dropped",
        "oncegate.transports.decode.json_values::_strange",
        replace("members - {field.name for field in kind}", "members & set()"),
        f"{_DOOR}::test_a_member_that_the_topic_has_no_place_for_is_refused_at_every_depth",
    ),
    one(
        "a narrow float takes any number",
        "oncegate.transports.decode.json_values::_floats",
        replace("not keeps(repr(wide[at].as_py()), float(narrow[at].as_py()))", "False"),
        _REFUSED,
    ),
    one(
        "a narrow float takes its own shortest text alone",
        "oncegate.transports.decode.json_values::_floats",
        replace("not keeps(repr(wide[at].as_py()), float(narrow[at].as_py()))", "True"),
        _KEPT,
    ),
    one(
        "a whole number beyond 2^53 is rounded to a double",
        "oncegate.transports.decode.json_values::_double",
        replace("abs(value) > EXACT_MAX and (not keeps(str(value), float(value)))", "False"),
        _REFUSED,
    ),
    one(
        "bits that are left over in base64 are dropped",
        "oncegate.transports.decode.json_values::_bytes",
        replace("binascii.b2a_base64(raw, newline=False).decode() != text", "False"),
        _REFUSED,
    ),
    one(
        "digits finer than a duration's unit are cut",
        "oncegate.transports.decode.json_values::_ticks",
        replace("rest", "False", nth=2),
        _REFUSED,
    ),
    one(
        "null is a value of a member that may not be null",
        "oncegate.transports.decode.json_values::_structs",
        replace("not field.nullable and child.null_count > sum((one is None for one in values))", "False"),
        _REFUSED,
    ),
    one(
        "trailing zeros count as finer than the unit",
        "oncegate.transports.decode.json_values::_timestamps",
        replace("pa.ArrowInvalid", "ZeroDivisionError"),
        _KEPT,
    ),
    one(
        "old times of a zone are off by its seconds",
        "oncegate.transports.decode.records::_times_of",
        replace(
            "oldest >= _WHOLE_MINUTES_SINCE_S * (10 ** 9 // NS_PER[kind.unit])",
            "oldest < _WHOLE_MINUTES_SINCE_S * (10 ** 9 // NS_PER[kind.unit])",
        ),
        _KEPT,
    ),
    one(
        "floats of 32 bits are read with the digits of doubles",
        "oncegate.transports.decode.records::_scalars",
        replace("array if pa.types.is_float64(kind) else shortest(array)", "array.cast(pa.float64())"),
        _KEPT,
    ),
    one(
        "numbers that are none are read as null",
        "oncegate.transports.decode.records::_scalars",
        replace("pc.all(pc.is_finite(wide)).as_py() is False", "False"),
        _KEPT,
    ),
    one(
        "lists that begin behind others are read from the first",
        "oncegate.transports.decode.records::_cut",
        replace("items[first:int(ends[-1])]", "items[:int(ends[-1])]"),
        _KEPT,
        _FUZZ,
    ),
    one(
        "the second half is looked through for a misfit of the first",
        "oncegate.transports.decode.json_values::first_misfit",
        replace("_why(values[first:middle], kind) is None", "_why(values[middle:last], kind) is not None"),
        _FUZZ,
    ),
    one(
        "seventeen digits are looked at one by one",
        "oncegate.transports.decode.json_scan",
        replace("(17, 16)", "(16, 16)"),
        f"{_TESTS}::test_numbers_that_writers_of_doubles_make_are_read_at_once",
        f"{_TESTS}::test_more_digits_than_a_double_has_are_looked_at_and_no_fewer",
    ),
    one(
        "whole numbers of sixteen digits are read as doubles",
        "oncegate.transports.decode.json_scan",
        replace("(17, 16)", "(17, 17)"),
        _DIGITS,
    ),
    one(
        "a number that becomes 0 is 0",
        "oncegate.transports.decode.json_values::as_double",
        replace(
            "is_short and nearest and (not nearest.is_integer())",
            "is_short and (not (nearest and nearest.is_integer()))",
        ),
        _DIGITS,
    ),
    one(
        "the row of a refusal is counted from its piece",
        "oncegate.transports.decode.json_rows::_column",
        replace("start + place.number", "place.number"),
        f"{_DOOR}::test_the_row_of_a_refusal_counts_from_the_first_of_the_request",
    ),
    one(
        "a column of a Kafka record is of the type that it looks like",
        "oncegate.transports.decode.json_rows::records_of",
        replace(
            "[types.field(name) if name in types.names else others[name] for name in names]",
            "_guessed(records, names, pa.string())",
        ),
        f"{_TESTS}::test_rows_for_topics_elsewhere_are_read_by_the_types_of_their_records",
    ),
    one(
        "rows that are all duplicates make no topic",
        "oncegate.engine.usecases.produce::Records._by_id",
        delete("rests_on = max(rests_on, self._topic_alone(request, entries, met))"),
        f"{_TOPICS}::test_a_first_write_of_duplicates_only_makes_the_topic_that_it_was_sent_to",
    ),
    one(
        "sequences that are all known make no topic",
        "oncegate.engine.usecases.produce::Records._sequenced",
        replace("0 if placed else self._topic_alone(request, entries, met)", "0"),
        "tests/transports/http/test_producers.py"
        "::test_sequences_that_are_written_elsewhere_still_make_the_topic_that_they_are_sent_to",
    ),
    one(
        "a topic is made on a full disk",
        "oncegate.engine.usecases.produce::Records._topic_alone",
        delete("self.journal.group_commit.check()"),
        f"{_TOPICS}::test_a_first_write_of_duplicates_to_a_full_disk_makes_no_topic",
    ),
    one(
        "a variant is a struct in its topic",
        "oncegate_spark.spark.writers.columns.planning::nullable_inside",
        without("metadata="),
        "tests/client/spark/test_columns.py::test_a_variant_is_a_variant_in_its_topic",
    ),
    one(
        "a write of variants to a topic of structs is not logged",
        "oncegate_spark.spark.writers.columns.planning::planned",
        replace("plan.retyped", "False", nth=1),
        "tests/client/spark/test_columns.py::test_a_variant_is_a_variant_in_its_topic",
    ),
)
