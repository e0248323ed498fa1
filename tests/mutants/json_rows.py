"""Planted bugs of rows as JSON: values that change on their way into a topic, or back."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_VALUES = "service/oncegate/transports/decode/json_values.py"
_ROWS = "service/oncegate/transports/decode/json_rows.py"
_READ = "service/oncegate/transports/decode/records.py"
_SCAN = "service/oncegate/transports/decode/json_scan.py"
_PRODUCE = "service/oncegate/engine/usecases/produce.py"
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
        _VALUES,
        "    if not number.is_integer() or abs(number) >= EXACT_MAX:\n",
        "    if abs(number) >= EXACT_MAX:\n",
        _REFUSED,
        f"{_DOOR}::test_a_number_is_never_cut_to_the_column_s_type",
    ),
    one(
        "the first number that a double may not mean is taken",
        _VALUES,
        "    if not number.is_integer() or abs(number) >= EXACT_MAX:\n",
        "    if not number.is_integer() or abs(number) > EXACT_MAX:\n",
        _REFUSED,
    ),
    one(
        "true is a number",
        _VALUES,
        '    (_types.is_floating, ({int, float, str}, "a number", _floats)),\n',
        '    (_types.is_floating, ({int, float, str, bool}, "a number", _floats)),\n',
        _REFUSED,
    ),
    one(
        "a number of days is a date",
        _VALUES,
        '    (_types.is_date, ({str}, "an ISO 8601 date as text", _dates)),\n',
        '    (_types.is_date, ({str, int}, "an ISO 8601 date as text", _plain)),\n',
        _REFUSED,
    ),
    one(
        "a member that a struct does not have is dropped",
        _VALUES,
        "    return sorted(members - {field.name for field in kind})\n",
        "    return sorted(members & set())\n",
        f"{_DOOR}::test_a_member_that_the_topic_has_no_place_for_is_refused_at_every_depth",
    ),
    one(
        "a narrow float takes any number",
        _VALUES,
        "        if not keeps(repr(wide[at].as_py()), float(narrow[at].as_py())):\n",
        "        if False:\n",
        _REFUSED,
    ),
    one(
        "a narrow float takes its own shortest text alone",
        _VALUES,
        "        if not keeps(repr(wide[at].as_py()), float(narrow[at].as_py())):\n",
        "        if True:\n",
        _KEPT,
    ),
    one(
        "a whole number beyond 2^53 is rounded to a double",
        _VALUES,
        "    if abs(value) > EXACT_MAX and not keeps(str(value), float(value)):\n",
        "    if False:\n",
        _REFUSED,
    ),
    one(
        "bits that are left over in base64 are dropped",
        _VALUES,
        "    if binascii.b2a_base64(raw, newline=False).decode() != text:\n",
        "    if False:\n",
        _REFUSED,
    ),
    one(
        "what is finer than the unit of a duration is cut",
        _VALUES,
        "    if rest:\n",
        "    if False:\n",
        _REFUSED,
    ),
    one(
        "null is a value of a member that may not be null",
        _VALUES,
        "        if not field.nullable and child.null_count > sum(one is None for one in values):\n",
        "        if False:\n",
        _REFUSED,
    ),
    one(
        "zeros behind the digits of a unit are finer than it",
        _VALUES,
        "    except pa.ArrowInvalid:\n        # The library",
        "    except ZeroDivisionError:\n        # The library",
        _KEPT,
    ),
    one(
        "old times of a zone are off by its seconds",
        _READ,
        "    if kind.tz is None or oldest is None or oldest >= ",
        "    if kind.tz is None or oldest is None or oldest < ",
        _KEPT,
    ),
    one(
        "floats of 32 bits are read with the digits of doubles",
        _READ,
        "        wide = array if pa.types.is_float64(kind) else shortest(array)\n",
        "        wide = array.cast(pa.float64())\n",
        _KEPT,
    ),
    one(
        "numbers that are none are read as null",
        _READ,
        "        if pc.all(pc.is_finite(wide)).as_py() is False:\n",
        "        if False:\n",
        _KEPT,
    ),
    one(
        "lists that begin behind others are read from the first",
        _READ,
        "    values, at = values_of(items[first : int(ends[-1])]), (ends - first).tolist()\n",
        "    values, at = values_of(items[: int(ends[-1])]), (ends - first).tolist()\n",
        _KEPT,
        _FUZZ,
    ),
    one(
        "the second half is looked through for a misfit of the first",
        _VALUES,
        "        if _why(values[first:middle], kind) is None:\n",
        "        if _why(values[middle:last], kind) is not None:\n",
        _FUZZ,
    ),
    one(
        "seventeen digits are looked at one by one",
        _SCAN,
        "_DIGITS, _WHOLE_DIGITS = 17, 16\n",
        "_DIGITS, _WHOLE_DIGITS = 16, 16\n",
        f"{_TESTS}::test_numbers_that_writers_of_doubles_make_are_read_at_once",
        f"{_TESTS}::test_more_digits_than_a_double_has_are_looked_at_and_no_fewer",
    ),
    one(
        "whole numbers of sixteen digits are read as doubles",
        _SCAN,
        "_DIGITS, _WHOLE_DIGITS = 17, 16\n",
        "_DIGITS, _WHOLE_DIGITS = 17, 17\n",
        _DIGITS,
    ),
    one(
        "a number that becomes 0 is 0",
        _VALUES,
        "    if is_short and nearest and not nearest.is_integer():\n",
        "    if is_short and not (nearest and nearest.is_integer()):\n",
        _DIGITS,
    ),
    one(
        "the row of a refusal is counted from its piece",
        _ROWS,
        '                f"row {start + place.number}: column',
        '                f"row {place.number}: column',
        f"{_DOOR}::test_the_row_of_a_refusal_counts_from_the_first_of_the_request",
    ),
    one(
        "a column of a Kafka record is of the type that it looks like",
        _ROWS,
        "    return _rows(records, [types.field(name) if name in types.names else others[name] for name in names], limits)\n",
        "    return _rows(records, _guessed(records, names, pa.string()), limits)\n",
        f"{_TESTS}::test_rows_for_topics_elsewhere_are_read_by_the_types_of_their_records",
    ),
    one(
        "rows that are all duplicates make no topic",
        _PRODUCE,
        "            rests_on = max(rests_on, self._topic_alone(request, entries, met))\n",
        "            pass\n",
        f"{_TOPICS}::test_a_first_write_of_duplicates_only_makes_the_topic_that_it_was_sent_to",
    ),
    one(
        "sequences that are all known make no topic",
        _PRODUCE,
        "        made_at = 0 if placed else self._topic_alone(request, entries, met)\n",
        "        made_at = 0\n",
        "tests/transports/http/test_producers.py"
        "::test_sequences_that_are_written_elsewhere_still_make_the_topic_that_they_are_sent_to",
    ),
    one(
        "a topic is made on a full disk",
        _PRODUCE,
        "        self._journal.group_commit.check()\n        return self._journal.record(alone)\n",
        "        return self._journal.record(alone)\n",
        f"{_TOPICS}::test_a_first_write_of_duplicates_to_a_full_disk_makes_no_topic",
    ),
    one(
        "a variant is a struct in its topic",
        f"{CLIENT}/spark/writers/columns/widening.py",
        "nullable_inside(one.type), metadata=one.metadata) for one in fields])\n",
        "nullable_inside(one.type)) for one in fields])\n",
        "tests/client/spark/test_columns.py::test_a_variant_is_a_variant_in_its_topic",
    ),
    one(
        "a write of variants to a topic of structs is not logged",
        f"{CLIENT}/spark/writers/columns/planning.py",
        "    if plan.retyped:\n",
        "    if False:\n",
        "tests/client/spark/test_columns.py::test_a_variant_is_a_variant_in_its_topic",
    ),
)
