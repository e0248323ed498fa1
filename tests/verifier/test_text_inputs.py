"""CSV and NDJSON: each value is the topic's type or the file's own text, or is refused; its neighbours do not
matter."""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncegate.core.errors import BadRequest
from oncegate.verifier.sources import inputs
from oncegate.verifier.sources.inputs import Input

# Values as Spark, pandas and people write them; all of them are text until a topic declares a type.
TEXTS = ["00501", "NA", "2.50", "", "null", "true", "2026-11-20", "1E5", " x ", "17", "0", "-", 'a"b', "a,b", "a\nb"]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("x", pa.float64()),
        ("small", pa.float32()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("ms")),
        ("raw", pa.binary()),
        ("o", pa.struct([("k", pa.int64()), ("l", pa.list_(pa.struct([("m", pa.string())])))])),
    ]
)
FLAT = pa.schema([field for field in SCHEMA if field.name != "o"])


def csv_of(path: Path, names: list[str], rows: list[list[str]]) -> Path:
    quoted = [",".join('"' + one.replace('"', '""') + '"' for one in row) for row in rows]
    path.write_text("\n".join([",".join(names), *quoted, ""]))
    return path


def json_of(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: Path, schema: pa.Schema | None = None, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return [row for _, table in Input(path, schema=schema).batches(columns=columns) for row in table.to_pylist()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12))
def test_text_is_the_file_s_own_whatever_surrounds_it_and_wherever_blocks_end(tmp_path: Path, texts: list[str]) -> None:
    rows = [[one, str(number)] for number, one in enumerate(texts)]
    source, lines = csv_of(tmp_path / "a.csv", ["id", "n"], rows), [json.dumps({"id": one}) for one in texts]
    ndjson = json_of(tmp_path / "a.ndjson", *lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_READING", pa.csv.ReadOptions(block_size=40))
        patch.setattr(inputs, "BATCH_ROWS", 2)
        for found in (read(source, columns=["id"]), read(ndjson, columns=["id"]), read(ndjson, FLAT, ["id"])):
            assert [one["id"] for one in found] == texts
        assert [(one["id"], one["n"]) for one in read(source, FLAT)] == [(one, int(n)) for one, n in rows]


FITTING = {
    "n": [("17", 17), ("-5", -5), ("9223372036854775807", 2**63 - 1), ("", None)],
    "amount": [("2.50", Decimal("2.50")), ("2.5", Decimal("2.50")), ("7", Decimal("7.00")), ("", None)],
    "x": [("2.50", 2.5), ("0.1", 0.1), ("1E5", 1e5), ("17", 17.0), ("NaN", None), ("", None)],
    "small": [("0.5", 0.5), ("16777216", 16777216.0)],
    "ok": [("true", True), ("False", False), ("", None)],
    "day": [("2026-11-20", date(2026, 11, 20)), ("", None)],
    "local": [(f"2026-11-20{t}08:15:00.5", datetime(2026, 11, 20, 8, 15, 0, 500_000)) for t in "T "],  # noqa: DTZ001
    "raw": [("00501", b"00501"), ("é", "é".encode())],
}


@pytest.mark.parametrize("name", FITTING)
def test_csv_has_the_types_of_the_topic(tmp_path: Path, name: str) -> None:
    texts, values = zip(*((text, value) for text, value in FITTING[name] if text != "NaN"), strict=True)
    path = csv_of(tmp_path / "a.csv", ["id", name], [["", text] for text in texts])
    assert [one[name] for one in read(path, FLAT)] == list(values)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n", "00501"),
        ("n", "NA"),
        ("n", "2.0"),
        ("n", "9223372036854775808"),
        ("n", " 5"),
        ("n", "+5"),
        ("amount", "2.505"),
        ("amount", "123456789.00"),
        ("x", "0.10000000000000000001"),
        ("x", "9007199254740993"),
        ("x", "1e400"),
        ("small", "1e300"),
        ("small", "16777217"),
        ("ok", "1"),
        ("ok", "NA"),
        ("day", "20.11.2026"),
        ("day", "2026-11-31"),
        ("at", "2026-11-20T08:15:00"),
        ("at", "2026-11-20T08:15:00.1234567Z"),
        ("local", "2026-11-20T08:15:00Z"),
        ("local", "2026-11-20T08:15:00.1234"),
    ],
)
def test_csv_value_that_its_type_does_not_give_back_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str
) -> None:
    fitting = {"at": "2026-11-20 08:15:00Z", "local": "2026-11-20T08:15:00", "day": "2026-11-20", "ok": "true"}
    good = fitting.get(name, "1")
    path = csv_of(tmp_path / "a.csv", ["id", name], [["two\nlines", good], ["", good], ["", text], ["", good]])
    message = rf"^--input {path}, line 5: column '{name}' is .* in the topic, but the value is "
    with pytest.raises(BadRequest, match=message) as raised:
        read(path, FLAT)
    assert json.dumps(text) in str(raised.value)
    # Columns that were not requested do not matter.
    assert [one["id"] for one in read(path, FLAT, ["id"])] == ["two\nlines", "", "", ""]


def test_ndjson_has_the_types_of_the_topic_and_lacking_members_are_null(tmp_path: Path) -> None:
    line = '{"id":"00501","n":17,"amount":"2.50","x":2.50,"o":{"k":1,"l":[{"m":"NA"}]},"raw":"AAE=","day":"2026-11-20"}'
    path = json_of(tmp_path / "a.ndjson", '{"id":"a"}', "", line)
    first, second = read(path, SCHEMA)
    assert {name: value for name, value in first.items() if value is not None} == {"id": "a"}
    assert (second["id"], second["n"], second["amount"], second["x"]) == ("00501", 17, Decimal("2.50"), 2.5)
    assert (second["o"], second["raw"]) == ({"k": 1, "l": [{"m": "NA"}]}, b"\0\1")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id":"a","n":10.5}', "column 'n' is int64 in the topic, but the value is 10.5"),
        ('{"id":17}', "column 'id' is string in the topic, but the value is 17"),
        ('{"id":"a","small":1e300}', "column 'small' is float in the topic, but the value is 1e\\+300"),
        ('{"id":"a","what":1}', "the topic has no column what; it has id, n, "),
        ('{"id":"a","o":{"k":1,"m":2}}', r"column 'o.m' is .* but the value is 2"),
        ('{"id":"a","o":{"l":[{"m":"x"},{"m":"y","p":2}]}}', r"column 'o.l\[1\].p' is .* but the value is 2"),
        ('{"id":"a","o":{"k":0.5}}', "column 'o.k' is int64 in the topic, but the value is 0.5"),
        ('{"id":"a","id":"b"}', '"id" is there twice'),
        ('["a"]', "is not a JSON object"),
        ('{"id":"a"} {"id":"b"}', "is not a JSON object"),
        ('{"id":"a"', "is not a JSON object"),
    ],
)
def test_ndjson_value_or_member_that_has_no_place_is_refused_with_its_line(
    tmp_path: Path, line: str, told: str
) -> None:
    path = json_of(tmp_path / "a.jsonl", '{"id":"b"}', "", line, '{"id":"c"}')
    with pytest.raises(BadRequest, match=rf"^--input {path}, line 3: .*{told}"):
        read(path, SCHEMA)


def test_numbers_of_ndjson_are_their_digits_as_ids_and_no_rows_of_text(tmp_path: Path) -> None:
    path = json_of(tmp_path / "a.ndjson", '{"id":2.50}', '{"id":17}', '{"id":"00501"}', '{"id":1E5}', '{"id":null}')
    assert [one["id"] for one in read(path, columns=["id"])] == ["2.50", "17", "00501", "1E5", None]
    with pytest.raises(
        BadRequest, match=r"line 1: column 'id' must be text, since no topic gives it a type, but has 2.5$"
    ):
        read(path)
    with pytest.raises(
        BadRequest, match=r"line 1: column 'id' must be text, since no topic gives it a type, but has 17$"
    ):
        read(json_of(tmp_path / "whole.ndjson", '{"id":17}'))
    path = json_of(tmp_path / "b.ndjson", '{"id":"a"}', '{"id":true}')
    with pytest.raises(
        BadRequest, match=r"line 2: column 'id' must be text, since no topic gives it a type, but has true"
    ):
        read(path, columns=["id"])


def test_file_is_cut_the_same_way_from_wherever_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_ROWS", 3)
    path = json_of(tmp_path / "a.ndjson", *(json.dumps({"id": str(n)}) for n in range(8)))
    whole = [(first, table["id"].to_pylist()) for first, table in Input(path).batches(columns=["id"])]
    assert [first for first, _ in whole] == [0, 3, 6]
    assert [(first, table["id"].to_pylist()) for first, table in Input(path).batches(3, ["id"])] == whole[1:]
