"""Planted bugs of ids as Python values: text that depends on neighbours, or is truncated."""

from tests.mutants.edits import replace, swap
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/client/protocol/test_ids.py"

ID_VALUES: tuple[Mutant, ...] = (
    one(
        "times with and without a zone are one type",
        "oncegate_spark.protocol.python_values::_kind_of",
        replace("_NAIVE if value.utcoffset() is None else _AWARE", "_AWARE"),
        _TESTS,
    ),
    one(
        "a time beside a date is a date",
        "oncegate_spark.protocol.python_values::_kind_of",
        swap("if isinstance(value, datetime):\n    ...", "if isinstance(value, date):\n    ..."),
        _TESTS,
    ),
    one(
        "a bool is a number",
        "oncegate_spark.protocol.python_values::_kind_of",
        replace("bool | float", "float"),
        _TESTS,
    ),
    one(
        "types are compared from the second value on",
        "oncegate_spark.protocol.python_values::_checked_kinds",
        replace("first is None", "n < 2"),
        _TESTS,
    ),
    one(
        "one digit more than decimals have",
        "oncegate_spark.protocol.python_values::_digits",
        replace(
            "max(value.adjusted() + 1, 1) + max(-exponent, 0) > _DIGITS_MAX",
            "max(value.adjusted() + 1, 1) + max(-exponent, 0) > _DIGITS_MAX + 1",
        ),
        _TESTS,
    ),
    one(
        "a decimal keeps its trailing zeros",
        "oncegate_spark.protocol.python_values::_digits",
        replace("text.rstrip('0').rstrip('.')", "text"),
        _TESTS,
    ),
    one(
        "nanoseconds of pandas are cut",
        "oncegate_spark.protocol.python_values::_datetimes",
        replace("getattr(value, 'nanosecond', 0)", "getattr(value, 'nano', 0)"),
        _TESTS,
    ),
    one(
        "a DataFrame is a list of names",
        "oncegate_spark.protocol.ids::listed",
        replace("isinstance(ids, Mapping) or hasattr(ids, 'columns')", "isinstance(ids, Mapping)"),
        _TESTS,
    ),
    one(
        "a dict is a list of names",
        "oncegate_spark.protocol.ids::listed",
        replace("isinstance(ids, Mapping) or hasattr(ids, 'columns')", "hasattr(ids, 'columns')"),
        _TESTS,
    ),
    one(
        "columns of one name are one column",
        "oncegate_spark.protocol.ids::columns_in",
        replace("name if unique else f'{what}[{n}] ({name})'", "name"),
        _TESTS,
    ),
    one(
        "tuples may have other lengths",
        "oncegate_spark.protocol.ids::columns_in",
        replace("len(value) != width", "len(value) < width"),
        _TESTS,
    ),
)
