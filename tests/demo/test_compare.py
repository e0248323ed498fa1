"""The comparison: independent of the service, by content, as a multiset."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from demo import compare
from demo.compare import COLUMNS, Compared, Expected, Row, Written
from demo.data import ROWS
from demo.job import ID
from demo.processes import ROOT
from demo.supervisor import Ran


def row(flight: int) -> Row:
    return (f"2013-01-01T{flight:02d}:00:00Z", "UA", flight, None, *COLUMNS[4:])


@pytest.fixture
def ran(tmp_path: Path) -> Ran:
    """Returns a run over two parts, each its own micro-batch: part 0 in batch 4, part 1 in batch 5."""
    log = tmp_path / "checkpoint" / "sources" / "0"
    log.mkdir(parents=True)
    entries = [json.dumps({"path": f"file:///inbox/flights-0{n}.csv", "batchId": 4 + n}) for n in range(2)]
    (log / "4.compact").write_text("v1\n" + entries[0] + "\n")
    (log / "5").write_text("v1\n" + entries[1] + "\n")
    return Ran("plain", tmp_path, began_s=100.0, seconds=50.0, takeover_rows=0, events=[])


def compared(ran: Ran, rows: list[Row]) -> Compared:
    wanted = Expected([row(1), row(2), row(3)], np.array([0, 0, 1]))
    return compare.compare(ran, wanted, Written(rows, 101.0 + np.arange(len(rows), dtype=np.float64)))


def test_the_same_rows_in_another_order_are_neither_duplicated_nor_lost(ran: Ran) -> None:
    found = compared(ran, [row(3), row(1), row(2)])
    assert (found.rows_in, found.rows_out, found.duplicated, found.lost, found.strange) == (3, 3, 0, 0, 0)


def test_copies_beyond_the_first_count_for_the_batch_that_read_them(ran: Ran) -> None:
    found = compared(ran, [row(1), row(3), row(1), row(2), row(1), row(3)])
    assert (found.duplicated, found.lost) == (3, 0)
    assert found.by_batch == {4: 2, 5: 1}


def test_duplicates_are_placed_in_time_where_the_later_copy_came(ran: Ran) -> None:
    found = compared(ran, [row(1), row(1), row(2), row(3), row(3)])
    assert found.curve_s.tolist() == [0.0, 2.0, 5.0, 50.0]
    assert found.curve_rows.tolist() == [0, 1, 2, 2]


def test_a_record_sent_twice_arrives_twice_and_is_expected_once(ran: Ran) -> None:
    salted = replace(ran, salted_rows=2)
    found = compared(salted, [row(1), row(2), row(3)])
    assert (found.rows_in, found.rows_out, found.duplicated, found.lost) == (5, 3, 0, 0)
    assert compared(salted, [row(1), row(2), row(3), row(3)]).duplicated == 1


def test_a_duplicate_does_not_make_up_for_a_lost_row(ran: Ran) -> None:
    found = compared(ran, [row(1), row(2), row(2)])
    assert (found.rows_out, found.duplicated, found.lost) == (3, 1, 1)


def test_a_row_altered_in_one_column_is_lost_and_a_stranger_is_there(ran: Ran) -> None:
    altered = (*row(3)[:-1], None)
    found = compared(ran, [row(1), row(2), altered])
    assert (found.duplicated, found.lost, found.strange) == (1, 1, 1)


def test_columns_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="columns are"):
        compare._tuples(pa.table({name: [1] for name in reversed(COLUMNS)}))


def test_the_file_of_a_killed_writer_is_read_up_to_its_last_whole_batch(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": pa.array(range(1000))})
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, batch.schema) as writer:
        writer.write_batch(batch)
        length = whole.tell()
        writer.write_batch(batch)
    file = tmp_path / "torn.arrows"
    for size, batches in ((length, 1), (length + 100, 1), (length + 1000, 1)):
        file.write_bytes(whole.getvalue().to_pybytes()[:size])
        assert len(list(compare._whole_batches(file))) == batches


def test_every_flight_is_expected_once_with_integer_minutes_and_its_airline() -> None:
    wanted = compare.expected()
    assert len(wanted.rows) == len({one[: len(ID)] for one in wanted.rows}) == ROWS
    assert COLUMNS[: len(ID)] == ID
    first = dict(zip(COLUMNS, wanted.rows[0], strict=True))
    assert (first["airline"], first["sched_dep_time_minute"], first["dep_time_minute"]) == (
        "United Air Lines Inc.",
        5 * 60 + 15,
        5 * 60 + 17,
    )
    last = dict(zip(COLUMNS, wanted.rows[-1], strict=True))
    assert last["dep_time_minute"] is last["made_up_minutes"] is None
    assert (wanted.parts[0], wanted.parts[-1]) == (0, 27)


def test_the_comparison_loads_nothing_of_the_service_or_its_client() -> None:
    code = "import sys, demo.compare; print([name for name in sys.modules if name.startswith('oncegate')])"
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
