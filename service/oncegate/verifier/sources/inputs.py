"""Reads the input that was to be written: a Parquet, Arrow, CSV or NDJSON file, in batches, from any row on.

The numbers of rows count from 0 in the order of the file, CSV's header not counted.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from oncegate.core.errors import BadRequest
from oncegate.transports.decode.columns import check_present
from oncegate.verifier.ids import BATCH_ROWS

# A block of lines that is read at once.
_BLOCK_BYTES = 8 << 20
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


def inputs_of(path: Path, id_columns: Sequence[str], shown: str) -> list["Input"]:
    """Opens one file, or all files of these kinds below a folder, in the order of their paths.

    Raises BadRequest: there is no such file, or none of a kind that is read below the folder.
    """
    paths = [path]
    if path.is_dir():
        paths = sorted(one for one in path.rglob("*") if one.suffix.lower() in KINDS and one.is_file())
        if not paths:
            raise BadRequest(f"no file below {path} ends in {', '.join(KINDS)}")
    return [Input(one, id_columns, shown) for one in paths]


class Input:
    """Reads one file. `columns`: those that are read, None: all. Ids of CSV are text as it stands there."""

    def __init__(self, path: Path, id_columns: Sequence[str], shown: str = "--input") -> None:
        """`shown`: what errors call it. BadRequest: its ending is of no kind that is read, or it is not there."""
        if path.suffix.lower() not in KINDS:
            raise BadRequest(f"{shown} {path}: what it is, its ending says: {', '.join(KINDS)}")
        if not path.is_file():
            raise BadRequest(f"{shown} {path} is no file")
        self._path, self._ids, self._shown = path, list(id_columns), shown
        self._kind = KINDS[path.suffix.lower()]

    @property
    def path(self) -> Path:
        """Returns where the file is."""
        return self._path

    @property
    def is_text(self) -> bool:
        """Tells whether its values are text whose types are guessed."""
        return self._kind in {"csv", "ndjson"}

    @property
    def rows(self) -> int | None:
        """Returns how many rows there are, where the file says so; None: it has to be read for that."""
        return pa.parquet.ParquetFile(self._path).metadata.num_rows if self._kind == "parquet" else None

    def check(self, names: Sequence[str], option: str) -> None:
        """Reads its first rows. Raises BadRequest: they lack a column, or the file cannot be read."""
        is_parquet = self._kind == "parquet"
        if is_parquet:
            try:
                check_present(names, pa.parquet.read_schema(self._path).names, option)
            except pa.ArrowException as error:
                raise BadRequest(f"{self._shown} {self._path} cannot be read: {error}") from error
        for _, table in self.batches(columns=list(names) if is_parquet else None):
            check_present(names, table.column_names, option)
            return

    def batches(self, first_row: int = 0, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yields tables of at most BATCH_ROWS rows from a row on, each with the number of its first row.

        The same file is cut the same way whatever row it begins at a multiple of BATCH_ROWS from. BadRequest: it
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
            raise BadRequest(f"{self._shown} {self._path} cannot be read behind row {row}: {error}") from error

    def _tables(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if self._kind == "parquet":
            file = pa.parquet.ParquetFile(self._path)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=None if columns is None else list(columns))
            return
        for table in {"arrow": self._arrow, "csv": self._csv, "ndjson": self._ndjson}[self._kind]():
            yield table if columns is None else table.select(list(columns))

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

    def _csv(self) -> Iterator[pa.Table]:
        texts = pa.csv.ConvertOptions(column_types={name: pa.string() for name in self._ids})
        reading = pa.csv.ReadOptions(block_size=_BLOCK_BYTES)
        with pa.csv.open_csv(self._path, read_options=reading, convert_options=texts) as reader:
            yield from (pa.Table.from_batches([batch]) for batch in reader)

    def _ndjson(self) -> Iterator[pa.Table]:
        with self._path.open("rb") as file:
            while lines := file.readlines(_BLOCK_BYTES):
                yield pa.json.read_json(io.BytesIO(b"".join(lines)))
