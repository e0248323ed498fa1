"""Planted bugs of the formats that rows are encoded in."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_TEST = "tests/client/test_formats.py"

FORMATS: tuple[Mutant, ...] = (
    one(
        "a value is encoded for a null row",
        "oncegate_spark.formats.values::encode",
        replace("None if row is None else how.value(row)", "how.value(row or {})"),
        f"{_TEST}::test_a_null_row_is_a_tombstone_in_each_format",
    ),
    one(
        "a column that Avro has no field for is left out",
        "oncegate_spark.formats.avro::Avro.check",
        replace("schema_fields.keys()", "columns"),
        f"{_TEST}::test_a_row_that_avro_has_no_place_for_is_refused",
    ),
    one(
        "a row that its JSON Schema refuses is written",
        "oncegate_spark.formats.json::Json.value",
        replace(
            "(error := next(self._validator.iter_errors(content), None)) is not None",
            "(error := next(self._validator.iter_errors({}), None)) is None",
        ),
        f"{_TEST}::test_a_row_that_json_has_no_text_for_is_refused",
    ),
    one(
        "a subject of another kind is taken",
        "oncegate_spark.formats.registry::_newest",
        replace("(schema.schema_type or 'AVRO') != kind", "schema.schema_type == kind and schema is None"),
        f"{_TEST}::test_a_subject_without_a_schema_or_of_another_kind_is_refused",
    ),
    one(
        "an unavailable registry is reported as a wrong option",
        "oncegate_spark.formats.registry::answering",
        replace(
            "Unreachable(f'the schema registry does not answer: {error}')",
            "BadOption(f'the schema registry does not answer: {error}')",
        ),
        f"{_TEST}::test_a_registry_that_is_away_is_unreachable",
    ),
    one(
        "not-a-number is written as JSON",
        "oncegate_spark.formats.json::_plain",
        replace("isinstance(value, float) and (not math.isfinite(value))", "isinstance(value, str) and value is None"),
        f"{_TEST}::test_a_row_that_json_has_no_text_for_is_refused",
    ),
    one(
        "a time without a zone is an instant of the machine's own zone",
        "oncegate_spark.formats.avro::_meets_instant",
        replace("avro.get('logicalType') not in _INSTANTS", "avro"),
        f"{_TEST}::test_a_time_without_a_zone_is_no_instant",
    ),
    one(
        "a fraction is cut where Avro has a whole number",
        "oncegate_spark.formats.avro::_is_fraction",
        replace("bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))", "False"),
        f"{_TEST}::test_a_value_that_avro_would_change_is_refused",
    ),
    one(
        "a number of more than 32 bits is written as an int",
        "oncegate_spark.formats.avro::check_ints",
        replace("isinstance(value, int) and (not _INT_MIN <= value <= _INT_MAX)", "isinstance(value, str)"),
        f"{_TEST}::test_a_value_that_avro_would_change_is_refused",
    ),
)
