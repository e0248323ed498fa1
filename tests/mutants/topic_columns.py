"""More planted bugs: a topic's columns, matched by name and added, and the text of ids; see `planted`."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_TOPICS = "tests/engine/usecases/test_topics.py"
_TEXT = "tests/hashing/test_id_text.py::test_an_id_is_known_by_this_text"

TOPIC_COLUMNS: tuple[Mutant, ...] = (
    one(
        "rows with a column that the topic has not are taken, and it is lost",
        "oncegate.engine.usecases.topics::check_fits",
        replace("types.get(field.name)", "types.get(field.name, field.type)"),
        "tests/engine/usecases/test_batches.py::"
        "test_rows_of_another_schema_than_the_topics_are_refused_before_they_are_stored",
    ),
    one(
        "a column is read by its place in what was written",
        "oncegate.transports.decode.records::_taken",
        replace("[_column(piece, field) for field in schema]", "piece.columns"),
        f"{_TOPICS}::test_columns_are_known_by_name_and_those_left_out_are_null",
    ),
    one(
        "columns are added without being asked for",
        "oncegate.engine.usecases.topics::Topics._schema_of",
        replace("not request.merges", "False"),
        "tests/transports/http/test_topics.py::test_columns_are_added_only_on_request",
    ),
    one(
        "merging drops the columns that are left out",
        "oncegate.engine.usecases.topics::Topics._schema_of",
        replace(
            "(pa.schema([*own, *new]), self.journal.limits.columns_per_request)",
            "(request.schema, self.journal.limits.columns_per_request)",
        ),
        f"{_TOPICS}::test_columns_that_are_added_are_null_in_every_row_before",
    ),
    one(
        "a topic gets more columns than a row may have",
        "oncegate.engine.usecases.topics::Topics._schema_of",
        replace("columns > columns_max", "False"),
        f"{_TOPICS}::test_a_topic_never_gets_more_columns_than_a_request_may_have",
    ),
    one(
        "rows after a new column are read with the previous columns",
        "oncegate.transports.decode.records::read",
        replace("batches and schema != batches[0].schema", "False"),
        f"{_TOPICS}::test_columns_added_during_a_read_begin_the_next_answer",
    ),
    one(
        "an older gateway passes over that a schema has grown",
        "oncegate.core.entries.kinds::AddedColumns",
        replace("Tag(1)", "Tag(130)"),
        "tests/core/test_entries.py",
    ),
    one(
        "a decimal's scale makes another id",
        "oncegate.hashing.id_text::_decimal_text",
        replace("pc.replace_substring_regex(pointed, '\\\\.?0*$', '')", "pointed"),
        _TEXT,
    ),
    one(
        "an instant's zone makes another id",
        "oncegate.hashing.id_text::_timestamp_text",
        replace(
            "column.view(pa.timestamp(kind.unit)).cast(pa.string())",
            ("pc.local_timestamp(column).cast(pa.string()) if kind.tz else column.cast(pa.string())"),
        ),
        _TEXT,
    ),
    one(
        "an instant and a local time are one id",
        "oncegate.hashing.id_text::_timestamp_text",
        replace("text if kind.tz is None else pc.binary_join_element_wise(text, 'Z', '')", "text"),
        _TEXT,
    ),
    one(
        "years of five digits are ids",
        "oncegate.hashing.id_text::_check_years",
        replace("least is not None and (not (bounds[0] <= least and most <= bounds[1]))", "False"),
        "tests/hashing/test_id_text.py::test_a_year_that_has_not_four_digits_is_no_id",
    ),
)
