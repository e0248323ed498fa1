"""Checks records of Kafka topics by the headers that the gateway adds: finds duplicates, gaps and foreign records.

The headers are `oncegate-ns`, `oncegate-producer` (UTF-8), `oncegate-epoch`, `oncegate-seq` (8 bytes each, big-endian).
No I/O: the caller reads the topics with any Kafka client, and passes arrays or lists of headers.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Prefix of registered producers, whose sequences continue across epochs.
SOURCE = "producer:"
_NAMES = [f"oncegate-{name}" for name in ("ns", "producer", "epoch", "seq")]
_NUMBER_BYTES = 8
# Number of records merged at once.
_PENDING = 1 << 18
_LISTED = 1 << 14
_SPANS = pa.schema([("key", pa.int64()), ("first", pa.uint64()), ("last", pa.uint64())])
_Key = tuple[str, str, int | None]


class RecordCheck:
    """Accepts records in any order, and finds duplicate and missing sequences per writer.

    A writer is a namespace, a producer and an epoch. All epochs of a registered producer (`producer:…`) are one writer,
    whose epoch is null. Read with `isolation.level=read_committed`, so that aborted records are excluded. Memory: 24
    bytes per gapless run of sequences and some hundred bytes per writer, none per record.
    """

    def __init__(self) -> None:
        self._ids: dict[_Key, int] = {}
        self._records: list[int] = []
        self._doubled: list[int] = []
        self._foreign = 0
        self._seen, self._repeated = _SPANS.empty_table(), _SPANS.empty_table()
        self._pending: list[Any] = []

    def add(self, headers: Any) -> None:
        """Adds records by their headers.

        `headers`: an Arrow array of list<struct<key: string, value: binary>>, as from Spark's Kafka source with
        `includeHeaders`, or a pandas Series of it; an Arrow table, record batch or pandas DataFrame with a column
        `headers`; or an iterable of lists of (name, bytes), as from confluent-kafka and aiokafka, with None or an empty
        list for a record without headers.

        Raises ValueError for other types; the earlier records of an iterable were added.
        """
        for some in _arrays(headers):
            table, foreign = _marked(some)
            self._foreign += foreign
            if table.num_rows:
                self._pending.append(self._numbered(table))
        # Merging passes over all runs, so as many records as runs are collected first.
        if sum(table.num_rows for table in self._pending) > max(_PENDING, self._seen.num_rows):
            self._take_in()

    def findings(self) -> pa.Table:
        """Returns the findings: one row per writer, and a last one for records without the gateway's headers.

        namespace, producer  string; both null for records without complete, well-formed headers
        epoch                uint64; null for a registered producer: all of its epochs
        records              int64, number of records
        duplicates           int64, number of records that repeat a sequence
        missing              uint64, number of missing sequences below the highest; for a registered producer, above
            the
                             lowest
        lowest, highest      uint64, of the sequences present
        """
        self._take_in()
        keys = list(self._ids)
        spans = self._seen.append_column("rows", pc.add(pc.subtract(self._seen["last"], self._seen["first"]), _ONE))
        whole = [("first", "min"), ("last", "max"), ("rows", "sum")]
        by_key = spans.group_by("key", use_threads=False).aggregate(whole).sort_by("key")
        lowest, highest, there = (by_key[name].combine_chunks() for name in ("first_min", "last_max", "rows_sum"))
        # Sequences begin at 0, except those of a source, which may begin anywhere.
        begins = pc.if_else(pa.array(map(_is_source, keys), pa.bool_()), lowest, pa.scalar(0, pa.uint64()))
        missing = pc.subtract(pc.add(pc.subtract(highest, begins), _ONE), there)
        counts = pa.array(self._records, pa.int64()), pa.array(self._doubled, pa.int64())
        columns = [*_named(keys), *counts, missing, lowest, highest]
        findings = pa.table(dict(zip(_FINDINGS.names, columns, strict=True)), _FINDINGS)
        if not self._foreign:
            return findings
        return pa.concat_tables([findings, pa.Table.from_pylist([{"records": self._foreign}], _FINDINGS)])

    def missing(self) -> pa.Table:
        """Returns the missing sequences: namespace, producer, epoch, and inclusive spans from `first` to `last`.

        Sorted by sequence within each writer; `findings` defines missing. Losses above a writer's highest sequence are
        not detectable.
        """
        self._take_in()
        key, first, last = self._seen["key"], self._seen["first"], self._seen["last"]
        is_first = _begins(key)
        before = pa.concat_arrays([pa.nulls(1, pa.uint64()), last.combine_chunks()]).slice(0, len(key))
        begins = pc.if_else(is_first, pa.scalar(0, pa.uint64()), pc.add(before, _ONE))
        sources = pa.array(map(_is_source, self._ids), pa.bool_())
        is_known = pc.and_(is_first, pc.or_(pc.take(sources, key), pc.equal(first, pa.scalar(0, pa.uint64()))))
        spans = pa.table({"key": key, "first": begins, "last": pc.subtract(first, _ONE)}).filter(pc.invert(is_known))
        return self._shown(spans)

    def duplicated(self) -> pa.Table:
        """Returns the sequences present more than once, in the format of `missing`."""
        self._take_in()
        return self._shown(self._repeated)

    def _numbered(self, table: pa.Table) -> pa.Table:
        """Returns (key, seq) for records with namespace, producer, epoch and seq; counts them by writer."""
        names = ["namespace", "producer", "epoch"]
        counted = table.group_by(names, use_threads=False).aggregate([([], "count_all")])
        ids = []
        for *name, records in zip(*(counted[column].to_pylist() for column in counted.column_names), strict=True):
            key: _Key = (name[0], name[1], name[2])
            if key not in self._ids:
                self._ids[key] = len(self._records)
                self._records.append(0)
                self._doubled.append(0)
            ids.append(self._ids[key])
            self._records[ids[-1]] += records
        by_name = [_text_of(part) for part in (counted, table)]
        numbers = pc.index_in(by_name[1], by_name[0])
        return pa.table({"key": pc.take(pa.array(ids, pa.int64()), numbers), "seq": table["seq"]})

    def _take_in(self) -> None:
        if not self._pending:
            return
        points = pa.concat_tables(self._pending).combine_chunks()
        self._pending = []
        points = points.group_by(["key", "seq"], use_threads=False).aggregate([([], "count_all")])
        self._seen, repeated = _joined(self._seen, points)
        by_key = repeated.group_by("key", use_threads=False).aggregate([("copies", "sum")])
        for key, copies in zip(by_key["key"].to_pylist(), by_key["copies_sum"].to_pylist(), strict=True):
            self._doubled[key] += copies
        once = repeated.select(["key", "seq"]).append_column("count_all", pa.nulls(repeated.num_rows, pa.int64()))
        self._repeated, _ = _joined(self._repeated, once)

    def _shown(self, spans: pa.Table) -> pa.Table:
        names = pa.table(dict(zip(_FINDINGS.names, _named(list(self._ids)), strict=False)))
        return pa.table({**_columns(names.take(spans["key"])), "first": spans["first"], "last": spans["last"]})


_ONE = pa.scalar(1, pa.uint64())
_FINDINGS = pa.schema(
    [
        *[("namespace", pa.string()), ("producer", pa.string()), ("epoch", pa.uint64())],
        *[("records", pa.int64()), ("duplicates", pa.int64())],
        *[("missing", pa.uint64()), ("lowest", pa.uint64()), ("highest", pa.uint64())],
    ]
)


def _is_source(key: _Key) -> bool:
    return key[1].startswith(SOURCE)


def _named(keys: list[_Key]) -> list[pa.Array]:
    kinds = (pa.string(), pa.string(), pa.uint64())
    return [pa.array((key[index] for key in keys), kind) for index, kind in enumerate(kinds)]


def _columns(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _text_of(names: pa.Table) -> Any:
    """Returns one text per (namespace, producer, epoch); a namespace contains no blank."""
    epoch = pc.fill_null(names["epoch"].cast(pa.string()), "")
    return pc.binary_join_element_wise(names["namespace"], epoch, names["producer"], " ").combine_chunks()


def _arrays(headers: Any) -> Iterator[pa.Array]:
    """Yields the input as arrays of HEADERS."""
    if type(headers).__module__.startswith("pyspark."):
        raise ValueError("headers is a Spark DataFrame: use check_records(df)")
    if isinstance(headers, pa.Table | pa.RecordBatch) or type(headers).__name__ == "DataFrame":
        headers = headers["headers"]
    if isinstance(headers, pa.ChunkedArray):
        yield from (_checked(chunk) for chunk in headers.chunks)
    elif isinstance(headers, pa.Array):
        yield _checked(headers)
    else:
        records = iter(headers)
        while some := list(islice(records, _LISTED)):
            yield _checked(some)


def _checked(headers: Any) -> pa.Array:
    try:
        return headers.cast(HEADERS) if isinstance(headers, pa.Array) else pa.array(headers, HEADERS)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"headers must be {HEADERS}, or lists of (name, bytes): {error}") from error


def _marked(array: pa.Array) -> tuple[pa.Table, int]:
    """Returns namespace, producer, epoch and seq of records with well-formed headers, and the
    number of other records.
    """
    items, rows = array.flatten(), pc.list_parent_indices(array)
    names, values = (items.field(part) for part in ("key", "value"))
    marks_by_name = [_last_of(name, names, rows, values) for name in _NAMES]
    common = marks_by_name[0]["row"]
    for marks in marks_by_name[1:]:
        common = common.filter(pc.is_in(common, marks["row"]))
    columns = [marks.filter(pc.is_in(marks["row"], common))["value"].combine_chunks() for marks in marks_by_name]
    texts = [_decoded(column) for column in columns[:2]]
    fit = pc.and_(*map(pc.is_valid, texts))
    for column in columns[2:]:
        fit = pc.and_(fit, pc.fill_null(pc.equal(pc.binary_length(column), _NUMBER_BYTES), False))
    namespace, producer, epoch, seq = (column.filter(fit) for column in (*texts, *columns[2:]))
    epochs = pc.if_else(pc.starts_with(producer, SOURCE), pa.scalar(None, pa.uint64()), _numbers(epoch))
    table = pa.table({"namespace": namespace, "producer": producer, "epoch": epochs, "seq": _numbers(seq)})
    return table, len(array) - table.num_rows


def _last_of(name: str, names: Any, rows: Any, values: Any) -> pa.Table:
    """Returns row and value of the last header with this name in each row: the gateway appends its headers to the row's
    own.
    """
    is_one = pc.equal(names, name)
    last = pa.table({"row": rows.filter(is_one), "value": values.filter(is_one)}).combine_chunks()
    if not last.num_rows:
        return last
    is_last = pc.not_equal(last["row"].slice(0, last.num_rows - 1), last["row"].slice(1))
    return last.filter(pa.concat_arrays([*is_last.chunks, pa.array([True])]))


def _decoded(column: Any) -> pa.Array:
    """Decodes a column of UTF-8 bytes; null where invalid. Decodes each distinct value once."""
    encoded = column.dictionary_encode()
    texts = [_text(value) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(texts, pa.string()), encoded.indices)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _numbers(column: Any) -> pa.Array:
    """Decodes big-endian numbers of 8 bytes to uint64."""
    fixed = column.cast(pa.binary(_NUMBER_BYTES))
    numbers = pa.Array.from_buffers(pa.uint64(), len(fixed), [None, fixed.buffers()[1]], offset=fixed.offset)
    if sys.byteorder == "big":
        return numbers
    swapped = pa.scalar(0, pa.uint64())
    for byte in range(0, 64, 8):
        byte_values = pc.bit_wise_and(
            pc.shift_right(numbers, pa.scalar(byte, pa.uint64())), pa.scalar(0xFF, pa.uint64())
        )
        swapped = pc.bit_wise_or(swapped, pc.shift_left(byte_values, pa.scalar(56 - byte, pa.uint64())))
    return swapped


def _begins(keys: Any) -> Any:
    """Returns a mask of the rows whose key differs from the previous row's."""
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if not len(keys):
        return pa.array([], pa.bool_())
    return pa.concat_arrays([pa.array([True]), pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))])


def _joined(seen: pa.Table, points: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Merges points (key, seq, count_all), each once, into runs, in one pass over both in sorted order.

    Returns the sorted, disjoint runs, and the repeated points as key, seq and `copies`, the number of repeats.
    """
    nothing = pa.nulls(seen.num_rows, pa.int64())
    spans = seen.append_column("last_of_run", seen["last"]).append_column("run", seen["key"])
    spans = spans.append_column("count", nothing)
    count = points.num_rows
    alone = pa.table(
        {
            "key": points["key"],
            "first": points["seq"],
            "last": points["seq"],
            "last_of_run": pa.nulls(count, pa.uint64()),
            "run": pa.nulls(count, pa.int64()),
            "count": points["count_all"],
        }
    )
    # A run precedes the point that it begins with, since sorting is stable.
    every = pa.concat_tables([spans, alone]).combine_chunks()
    is_point = pa.concat_arrays([pa.array([False]).take(_zeros(seen.num_rows)), pa.array([True]).take(_zeros(count))])
    every = every.append_column("is_point", is_point)
    every = every.sort_by([("key", "ascending"), ("first", "ascending"), ("is_point", "ascending")]).combine_chunks()
    run, last_of_run = (pc.fill_null_forward(every[name].combine_chunks()) for name in ("run", "last_of_run"))
    inside = pc.and_(pc.equal(run, every["key"]), pc.less_equal(every["first"], last_of_run))
    is_known = pc.and_(every["is_point"], pc.fill_null(inside, False))
    copies = pc.add(pc.subtract(every["count"], pa.scalar(1, pa.int64())), is_known.cast(pa.int64()))
    repeated = pa.table({"key": every["key"], "seq": every["first"], "copies": copies})
    repeated = repeated.filter(pc.fill_null(pc.greater(copies, 0), False))
    return _closed(every.filter(pc.invert(is_known)).select(_SPANS.names)), repeated


def _zeros(count: int) -> pa.Array:
    return pc.fill_null(pa.nulls(count, pa.int64()), 0)


def _closed(spans: pa.Table) -> pa.Table:
    """Joins adjacent runs; the input is sorted and disjoint."""
    if not spans.num_rows:
        return spans
    key, first, last = (spans[name].combine_chunks() for name in _SPANS.names)
    size = len(key)
    touches = pc.equal(first.slice(1), pc.add(last.slice(0, size - 1), _ONE))
    begins = pc.or_(_begins(key), pa.concat_arrays([pa.array([True]), pc.invert(touches)]))
    ends = pa.concat_arrays([begins.slice(1), pa.array([True])])
    return pa.table([key.filter(begins), first.filter(begins), last.filter(ends)], schema=_SPANS)
