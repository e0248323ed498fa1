"""Planted bugs of ids as Python values: one takes its text from its neighbours, or is cut."""

from tests.mutants.mutant import Mutant, one

_VALUES = "spark_client/oncegate_spark/protocol/python_values.py"
_IDS = "spark_client/oncegate_spark/protocol/ids.py"
_TESTS = "tests/client/protocol/test_ids.py"

ID_VALUES: tuple[Mutant, ...] = (
    one(
        "times with and without a zone are one type",
        _VALUES,
        "        return _NAIVE if value.utcoffset() is None else _AWARE\n",
        "        return _AWARE\n",
        _TESTS,
    ),
    one(
        "a time beside a date is a date",
        _VALUES,
        """    if isinstance(value, datetime):
        return _NAIVE if value.utcoffset() is None else _AWARE
    if isinstance(value, date):
        return "date"
""",
        """    if isinstance(value, date):
        return "date"
    if isinstance(value, datetime):
        return _NAIVE if value.utcoffset() is None else _AWARE
""",
        _TESTS,
    ),
    one("a bool is a number", _VALUES, "if isinstance(value, bool | float):", "if isinstance(value, float):", _TESTS),
    one(
        "types are compared from the second value on",
        _VALUES,
        "        if first is None:\n",
        "        if n < 2:\n",
        _TESTS,
    ),
    one("one digit more than decimals have", _VALUES, "0) > _DIGITS_MAX:", "0) > _DIGITS_MAX + 1:", _TESTS),
    one("a decimal keeps its trailing zeros", _VALUES, """text.rstrip("0").rstrip(".")""", "text", _TESTS),
    one(
        "nanoseconds of pandas are cut",
        _VALUES,
        """getattr(one, "nanosecond", 0)""",
        """getattr(one, "nano", 0)""",
        _TESTS,
    ),
    one(
        "a DataFrame is a list of names",
        _IDS,
        """isinstance(ids, Mapping) or hasattr(ids, "columns")""",
        "isinstance(ids, Mapping)",
        _TESTS,
    ),
    one("a dict is a list of names", _IDS, """isinstance(ids, Mapping) or hasattr""", "hasattr", _TESTS),
    one(
        "columns of one name are one column",
        _IDS,
        """name if unique else f"{what}[{n}] ({name})": """,
        "name: ",
        _TESTS,
    ),
    one(
        "tuples may have other lengths",
        _IDS,
        "if not isinstance(one, tuple) or len(one) != width or not width:",
        "if not isinstance(one, tuple) or len(one) < width or not width:",
        _TESTS,
    ),
)
