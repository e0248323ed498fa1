"""Planted bugs of the formats that rows are encoded in."""

from tests.mutants.mutant import Mutant, one

_FORMATS = "spark_client/oncegate_spark/formats"
_TEST = "tests/client/test_formats.py"

FORMATS: tuple[Mutant, ...] = (
    one(
        "a value is encoded for a null row",
        f"{_FORMATS}/values.py",
        "values.append(None if row is None else how.value(row))",
        "values.append(how.value(row or {}))",
        f"{_TEST}::test_a_null_row_is_a_tombstone_in_each_format",
    ),
    one(
        "a column that Avro has no field for is left out",
        f"{_FORMATS}/avro.py",
        "        if more := sorted(columns - known.keys()):\n",
        "        if more := sorted(columns - columns):\n",
        f"{_TEST}::test_a_row_that_avro_has_no_place_for_is_refused",
    ),
    one(
        "a row that its JSON Schema refuses is written",
        f"{_FORMATS}/json.py",
        "        if (error := next(self._validator.iter_errors(content), None)) is not None:\n",
        "        if (error := next(self._validator.iter_errors({}), None)) is None:\n",
        f"{_TEST}::test_a_row_that_json_has_no_text_for_is_refused",
    ),
    one(
        "a subject of another kind is taken",
        f"{_FORMATS}/registry.py",
        '    if (found.schema_type or "AVRO") != kind:\n',
        "    if found.schema_type == kind and found is None:\n",
        f"{_TEST}::test_a_subject_without_a_schema_or_of_another_kind_is_refused",
    ),
    one(
        "a registry that is away is told as a wrong option",
        f"{_FORMATS}/registry.py",
        '        raise Unreachable(f"the schema registry does not answer: {error}") from error\n',
        '        raise BadOption(f"the schema registry does not answer: {error}") from error\n',
        f"{_TEST}::test_a_registry_that_is_away_is_unreachable",
    ),
    one(
        "not-a-number is written as JSON",
        f"{_FORMATS}/json.py",
        "    if isinstance(value, float) and not math.isfinite(value):\n",
        "    if isinstance(value, str) and value is None:\n",
        f"{_TEST}::test_a_row_that_json_has_no_text_for_is_refused",
    ),
    one(
        "a time without a zone is an instant of the machine's own zone",
        f"{_FORMATS}/avro_types.py",
        '    if avro.get("logicalType") not in _INSTANTS:\n',
        "    if avro:\n",
        f"{_TEST}::test_a_time_without_a_zone_is_no_instant",
    ),
    one(
        "a fraction is cut where Avro has a whole number",
        f"{_FORMATS}/avro_types.py",
        "    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))\n",
        "    return False\n",
        f"{_TEST}::test_a_value_that_avro_would_change_is_refused",
    ),
    one(
        "a number of more than 32 bits is written as an int",
        f"{_FORMATS}/avro_types.py",
        "        if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:\n",
        "        if isinstance(value, str):\n",
        f"{_TEST}::test_a_value_that_avro_would_change_is_refused",
    ),
)
