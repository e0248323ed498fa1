"""Reads a Parquet, Arrow, CSV or NDJSON input file in batches, starting at any row.

Rows are numbered from 0 in the order of the file, without CSV's header.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from oncegate.core.errors import BadRequest
from oncegate.transports.decode.columns import check_present
from oncegate.verifier.ids import BATCH_ROWS
from oncegate.verifier.sources.text_values import UnfitText, columns_of, of_csv, record_of, texts_of, typed_records

# Size of a block of lines that is read at once.
_BLOCK_BYTES = 8 << 20
_READING = pa.csv.ReadOptions(block_size=_BLOCK_BYTES)
# Otherwise a line break inside a value would count or not, depending on where blocks of the file end.
_PARSING = pa.csv.ParseOptions(newlines_in_values=True)
KINDS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}


def inputs_of(path: Path, shown: str) -> list["Input"]:
    """Opens one file, or all files with a supported format below a folder, in path order.

    Raises BadRequest if there is no such file, or no file of a supported kind below the folder.
    """
    paths = [path]
    if path.is_dir():
        paths = sorted(file for file in path.rglob("*") if file.suffix.lower() in KINDS and file.is_file())
        if not paths:
            raise BadRequest(f"no file below {path} ends in {', '.join(KINDS)}")
    return [Input(file, shown) for file in paths]


class Input:
    """Reads one file.

    Parquet and Arrow have types. Values of CSV and NDJSON get the types of a topic, `schema`, or stay text without one.
    The conversion of a value does not depend on other rows. A value that its type would not reproduce is rejected.
    """

    def __init__(self, path: Path, shown: str = "--input", schema: pa.Schema | None = None) -> None:
        """Opens a file. shown: its name in errors. Raises BadRequest if its suffix is unsupported or the file does not
        exist.
        """
        if path.suffix.lower() not in KINDS:
            raise BadRequest(f"{shown} {path}: unknown file type; the name must end in {', '.join(KINDS)}")
        if not path.is_file():
            raise BadRequest(f"{shown} {path} is not a file")
        self._path, self._shown, self._schema = path, shown, schema
        self._kind = KINDS[path.suffix.lower()]

    def typed(self, schema: pa.Schema | None) -> "Input":
        """Returns the same file, to be read with a topic's column types (None if the topic is still empty)."""
        return Input(self._path, self._shown, schema)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def rows(self) -> int | None:
        """Returns the number of rows if the file records it; otherwise None."""
        return pa.parquet.ParquetFile(self._path).metadata.num_rows if self._kind == "parquet" else None

    def check(self, names: Sequence[str], option: str) -> None:
        """Checks the column names of the file; for NDJSON, of its first rows. Raises BadRequest if one is missing or it
        is damaged.
        """
        try:
            check_present(names, self._names(), option)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise BadRequest(f"{self._shown} {self._path} cannot be read: {error}") from error

    def _names(self) -> Sequence[str]:
        if self._kind == "parquet":
            return list(pa.parquet.read_schema(self._path).names)
        if self._kind == "csv":
            return self._header()
        if self._kind == "ndjson":
            first = next(self._lines(is_typed=False), None)
            return [] if first is None else list(dict.fromkeys(name for record in first[1] for name in record))
        return next((table.column_names for table in self._arrow()), [])

    def batches(self, first_row: int = 0, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yields tables of at most BATCH_ROWS rows, starting at a row, each with the number of its first row.

        columns: read only these; of NDJSON without a topic, numbers as their text. None: whole rows.

        A file is always divided in the same way, if `first_row` is a multiple of BATCH_ROWS. Raises BadRequest if it
        cannot be read.
        """
        row = 0
        try:
            for table in self._tables(columns):
                skipped = max(0, min(len(table), first_row - row))
                for start in range(skipped, len(table), BATCH_ROWS):
                    yield row + start, table.slice(start, BATCH_ROWS)
                row += len(table)
        except (pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            raise BadRequest(f"{self._shown} {self._path} cannot be read after row {row}: {error}") from error

    def _tables(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if self._kind == "parquet":
            file = pa.parquet.ParquetFile(self._path)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=None if columns is None else list(columns))
            return
        if self._kind == "arrow":
            yield from (table if columns is None else table.select(list(columns)) for table in self._arrow())
        else:
            yield from (self._csv if self._kind == "csv" else self._ndjson)(columns)

    def _arrow(self) -> Iterator[pa.Table]:
        with pa.memory_map(str(self._path)) as source:
            try:
                reader = pa.ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                yield from (pa.Table.from_batches([batch]) for batch in pa.ipc.open_stream(source))
                return
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])

    def _header(self) -> list[str]:
        with pa.csv.open_csv(self._path, parse_options=_PARSING, read_options=_READING) as reader:
            return list(reader.schema.names)

    def _csv(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        names = self._header()
        if columns is not None:
            check_present(columns, names, "the columns")
        texts = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(columns or ()),
            strings_can_be_null=False,
        )
        row = 0
        with pa.csv.open_csv(
            self._path, parse_options=_PARSING, read_options=_READING, convert_options=texts
        ) as reader:
            for batch in reader:
                try:
                    made = [self._of_csv(batch.column(n), name) for n, name in enumerate(batch.schema.names)]
                except UnfitText as error:
                    raise self._unfit(self._csv_line(row + error.number), error) from error
                yield pa.Table.from_arrays(made, names=batch.schema.names)
                row += len(batch)

    def _of_csv(self, column: pa.Array, name: str) -> pa.Array:
        is_typed = self._schema is not None and name in self._schema.names
        return of_csv(column, self._schema.field(name)) if self._schema is not None and is_typed else column

    def _csv_line(self, row: int) -> int:
        """Returns the line on which a row ends; values may contain line breaks, and empty lines are not rows."""
        with self._path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for number, _ in enumerate(filter(None, reader)):
                if number == row + 1:
                    break
            return reader.line_num

    def _ndjson(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        for lines, records in self._lines(self._schema is not None or columns is None):
            try:
                yield self._rows(records, columns)
            except UnfitText as error:
                raise self._unfit(lines[error.number], error) from error

    def _rows(self, records: list[dict[str, Any]], columns: Sequence[str] | None) -> pa.Table:
        if self._schema is None:
            names = list(dict.fromkeys(name for record in records for name in record)) if columns is None else columns
            return texts_of(records, names, numbers=columns is not None)
        if columns is None:
            return typed_records(records, self._schema)
        # A column that the topic does not have, e.g. an id that is not written with its row, is text.
        fields = [self._schema.field(name) for name in columns if name in self._schema.names]
        others = texts_of(records, [name for name in columns if name not in self._schema.names], numbers=True)
        made = columns_of(records, fields)
        return pa.Table.from_arrays(
            [made[name] if name in made.column_names else others[name] for name in columns], names=list(columns)
        )

    def _lines(self, is_typed: bool) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        """Yields up to BATCH_ROWS records at a time, each with its 1-based line number; skips empty lines."""
        with self._path.open("rb") as file:
            there = ((number, line) for number, line in enumerate(file, 1) if line.strip())
            while some := list(islice(there, BATCH_ROWS)):
                records = []
                for number, line in some:
                    try:
                        records.append(record_of(line, is_typed))
                    except UnfitText as error:
                        raise self._unfit(number, error) from error
                yield [number for number, _ in some], records

    def _unfit(self, line: int, error: UnfitText) -> BadRequest:
        return BadRequest(f"{self._shown} {self._path}, line {line}: {error.why}")
