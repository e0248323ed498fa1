"""More planted bugs: a topic's columns, known by name and added, and the text of ids; see `planted`."""

from tests.mutants.mutant import Mutant, one

_TOPICS = "tests/engine/usecases/test_topics.py"
_TEXT = "tests/hashing/test_id_text.py::test_an_id_is_known_by_this_text"
_ID_TEXT = "service/oncegate/hashing/id_text.py"
_USECASE = "service/oncegate/engine/usecases/topics.py"

TOPIC_COLUMNS: tuple[Mutant, ...] = (
    one(
        "rows with a column that the topic has not are taken, and it is lost",
        _USECASE,
        "    if any(types.get(field.name) != field.type for field in brought):\n",
        "    if any(types.get(field.name, field.type) != field.type for field in brought):\n",
        "tests/engine/usecases/test_batches.py::"
        "test_rows_of_another_schema_than_the_topics_are_refused_before_they_are_stored",
    ),
    one(
        "a column is read by its place in what was written",
        "service/oncegate/transports/decode/records.py",
        "[_column(piece, field) for field in schema]",
        "piece.columns",
        f"{_TOPICS}::test_columns_are_known_by_name_and_those_left_out_are_null",
    ),
    one(
        "columns are added without being asked for",
        _USECASE,
        "        if not request.merges:\n",
        "        if False:\n",
        "tests/transports/http/test_topics.py::test_columns_are_added_when_asked_for_and_by_nobody_else",
    ),
    one(
        "merging drops the columns that are left out",
        _USECASE,
        "        merged, columns_max = pa.schema([*own, *new]), self._journal.limits.columns_per_request\n",
        "        merged, columns_max = request.schema, self._journal.limits.columns_per_request\n",
        f"{_TOPICS}::test_columns_that_are_added_are_null_in_every_row_before",
    ),
    one(
        "a topic gets more columns than a row may have",
        _USECASE,
        "        if columns > columns_max:\n",
        "        if False:\n",
        f"{_TOPICS}::test_a_topic_never_gets_more_columns_than_a_request_may_have",
    ),
    one(
        "rows behind a new column are read under the columns before",
        "service/oncegate/transports/decode/records.py",
        "        if batches and schema != batches[0].schema:\n",
        "        if False:\n",
        f"{_TOPICS}::test_columns_added_while_somebody_reads_begin_the_next_answer",
    ),
    one(
        "an older gateway passes over that a schema has grown",
        "service/oncegate/core/entries/kinds.py",
        'AddedColumns = Annotated[int, "u32", Tag(1)]\n',
        'AddedColumns = Annotated[int, "u32", Tag(130)]\n',
        "tests/core/test_entries.py",
    ),
    one(
        "a decimal's scale makes another id",
        _ID_TEXT,
        '    trimmed = pc.replace_substring_regex(pointed, r"\\.?0*$", "")\n',
        "    trimmed = pointed\n",
        _TEXT,
    ),
    one(
        "an instant's zone makes another id",
        _ID_TEXT,
        "    text = column.view(pa.timestamp(kind.unit)).cast(pa.string())\n",
        "    text = pc.local_timestamp(column).cast(pa.string()) if kind.tz else column.cast(pa.string())\n",
        _TEXT,
    ),
    one(
        "an instant and a local time are one id",
        _ID_TEXT,
        '    return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")\n',
        "    return text\n",
        _TEXT,
    ),
    one(
        "years of five digits are ids",
        _ID_TEXT,
        "    if least is not None and not (bounds[0] <= least and most <= bounds[1]):\n",
        "    if False:\n",
        "tests/hashing/test_id_text.py::test_a_year_that_has_not_four_digits_is_no_id",
    ),
)
