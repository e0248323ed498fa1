"""`oncegate verify --against` over a real gateway and a topic: it finds the planted faults and repairs them."""

import json
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.testing import LocalGateway
from tests.support.verified import (
    ROWS,
    Where,
    arguments_for,
    mark_written,
    run,
    verify,
    write_by_id,
    write_input,
    write_past_the_ledger,
    wrong,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalGateway("memory:") as gateway:
        yield gateway.url


@pytest.fixture
def where(url: str, request: pytest.FixtureRequest) -> Where:
    found = Where(url, f"test-{zlib.crc32(request.node.name.encode())}")
    with found.client() as client:
        client.create_namespace()
    return found


@pytest.fixture
def input_file(tmp_path: Path) -> Path:
    return write_input(tmp_path / "orders.parquet")


def plant(where: Where) -> None:
    """Writes rows 0 to 995, and 3 twice; claims 996, marks 997 as written without writing it; omits 998 and 999."""
    write_by_id(where, *range(996))
    write_past_the_ledger(where, 3, 5_000, 5_000)
    mark_written(where, 996, complete=False)
    mark_written(where, 997)


def test_rows_written_once_are_ok_and_nothing_else_is_reported(where: Where, input_file: Path) -> None:
    write_by_id(where, *range(ROWS))
    status, report = verify(where, input_file)
    assert (status, report["ok"], report["ids"]["ok"]) == (0, True, ROWS)
    assert (wrong(report), report["findings"]) == ({}, {})
    assert not (input_file.parent / "state").exists(), "a finished run leaves nothing"


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_text_is_compared_and_repaired_by_the_types_of_the_topic(where: Where, tmp_path: Path, kind: str) -> None:
    """An id of type decimal is the same as 2.50 and as 2.5; as text these are two ids."""
    amounts = ["2.50", "10.00", "0.05"]
    rows = pa.table({"order": pa.array(map(Decimal, amounts), pa.decimal128(10, 2)), "zip": ["00501", "NA", "2.50"]})
    with where.client() as gateway, gateway.attempt() as attempt:
        attempt.produce("orders", rows.slice(0, 2), id_col="order,zip")
    lines = [f"{one['order']},{one['zip']}" for one in rows.to_pylist()]
    if kind == "ndjson":
        lines = [json.dumps({"order": str(one["order"]), "zip": one["zip"]}) for one in rows.to_pylist()]
    input_file = tmp_path / f"orders.{kind}"
    input_file.write_text("\n".join(["order,zip", *lines, ""][kind == "ndjson" :]))
    status, report = verify(where, input_file, "--id-col", "zip", "--repair")
    assert (status, report["ids"]["ok"], wrong(report)) == (1, 2, {"not_written": 1})
    assert report["repaired"]["written"] == 1
    status, report = verify(where, input_file, "--id-col", "zip")
    assert (status, report["ids"]["ok"], wrong(report)) == (0, 3, {})
    with where.client() as gateway:
        assert gateway.read("orders").sort_by("zip").to_pylist() == rows.sort_by("zip").to_pylist()


def test_each_planted_fault_is_named_by_its_id_and_place(where: Where, input_file: Path) -> None:
    plant(where)
    status, report = verify(where, input_file)
    assert (status, report["ok"]) == (1, False)
    assert wrong(report) == {"missing": 1, "not_written": 2, "doubled": 1, "held": 1, "foreign": 1}
    assert (report["doubled_rows"], report["foreign_rows"], report["output_rows"]) == (1, 2, 999)
    assert report["findings"] == {
        "missing": [{"id": "o-997", "row": 997}],
        "not_written": [{"id": "o-998", "row": 998}, {"id": "o-999", "row": 999}],
        "doubled": [{"id": "o-3", "row": 3, "places": [place(3), place(996)]}],
        "held": [{"id": "o-996", "row": 996}],
        "foreign": [{"id": "o-5000", "places": [place(997)]}, {"id": "o-5000", "places": [place(998)]}],
    }


def place(offset: int) -> dict[str, int]:
    return {"partition": 0, "offset": offset}


def test_a_verify_without_repair_writes_nothing(where: Where, input_file: Path) -> None:
    plant(where)
    with where.client() as gateway:
        before = gateway.topic("orders")
        verify(where, input_file)
        assert gateway.topic("orders") == before


def test_a_repair_writes_what_is_not_written_and_a_second_verify_finds_nothing(where: Where, input_file: Path) -> None:
    write_by_id(where, *range(0, ROWS, 2))
    status, report = verify(where, input_file, "--repair")
    assert (status, wrong(report)) == (1, {"not_written": ROWS // 2})
    assert report["repaired"] == {"written": ROWS // 2, "refused": 0, "held": 0}
    status, report = verify(where, input_file, "--repair")
    assert (status, wrong(report), report["output_rows"]) == (0, {}, ROWS)
    assert report["repaired"] == {"written": 0, "refused": 0, "held": 0}


def test_rows_that_the_ledger_knows_as_written_are_refused_and_not_doubled(where: Where, input_file: Path) -> None:
    plant(where)
    status, report = verify(where, input_file, "--repair")
    assert (status, report["repaired"]) == (1, {"written": 2, "refused": 1, "held": 0})
    status, report = verify(where, input_file)
    assert (status, wrong(report)) == (1, {"missing": 1, "doubled": 1, "held": 1, "foreign": 1})


def test_rows_written_past_the_ledger_are_distinguished_from_ok_ones(where: Where, input_file: Path) -> None:
    write_by_id(where, *range(1, ROWS))
    write_past_the_ledger(where, 0)
    status, report = verify(where, input_file)
    assert (status, wrong(report)) == (1, {"unrecorded": 1})
    assert report["findings"] == {"unrecorded": [{"id": "o-0", "row": 0}]}


def test_a_person_is_shown_a_table_and_a_picture(
    where: Where, input_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(where)
    monkeypatch.setenv("COLUMNS", "200")
    picture = input_file.parent / "orders.svg"
    status, out, _ = run(*arguments_for(where, input_file), "--picture", str(picture), "--repair")
    assert status == 1
    for words in ("not written", "o-997", "0:996", "o-5000", "2 rows were written", "the ledger knows as written"):
        assert words in out
    assert picture.read_text().startswith("<svg ")
    assert "not written" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "x.parquet"], "need --against"),
        (["--against", "orders", "--id-col", "order"], "needs --input"),
        (["--against", "orders", "--data", "data"], "--data and --witness"),
        (["--against", "orders", "--input", "none.parquet", "--id-col", "order"], "is not a file"),
        (
            ["--against", "orders", "--input", __file__, "--id-col", "order", "--output", "kafka://h:1/t"],
            "go together",
        ),
        (["--against", "orders", "--input", __file__, "--id-col", "order"], "unknown file type"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert said in err
    assert not list(tmp_path.iterdir()), "before any effect"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--id-col": "odrer"}, "--id-col names 'odrer', and the rows have order, cents"),
        ({"--against": "odrers"}, "odrers"),
        ({"--namespace": "nowhere"}, "namespace nowhere"),
        ({"--url": "http://127.0.0.1:1"}, "no gateway answers at http://127.0.0.1:1"),
        ({"--url": "http://127.0.0.1:80a0"}, "is not the address of a gateway"),
        ({"--url": "http://[::1"}, "is not the address of a gateway"),
        ({"--url": "http://ada:secret@127.0.0.1:1"}, "set ONCEGATE_API_KEY to send a key"),
        ({"--state": "none/state"}, "the folder none does not exist"),
        ({"--picture": "none/orders.svg"}, "--picture none/orders.svg"),
    ],
)
def test_a_misspelt_argument_is_one_line_at_once_and_leaves_no_folder(
    changed: dict[str, str], said: str, where: Where, input_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_by_id(where, 0)
    monkeypatch.chdir(input_file.parent)
    arguments = arguments_for(where, input_file)
    named = dict(zip(arguments[::2], arguments[1::2], strict=True)) | changed
    status, out, err = run(*[word for option in named.items() for word in option])
    assert (status, out, err.count("\n")) == (1, "", 1), err
    assert said in err
    assert "secret" not in err
    assert [path.name for path in input_file.parent.iterdir()] == [input_file.name], "nothing is left behind"
