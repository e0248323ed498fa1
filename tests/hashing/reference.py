"""A second implementation of fingerprints, joined ids and row prints, value by value in plain Python, from the
specification.

    python -m tests.hashing.reference

The module writes the golden vectors in tests/golden/prints: a change of them is another format, and stored fingerprints
no longer match.
"""

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

GOLDEN = Path(__file__).parents[1] / "golden" / "hashing"
SEED = int(os.environ.get("ONCEGATE_SEED", "20261121"))
KEY = bytes(range(32))
FORMATS = {"int8": "<b", "int16": "<h", "int32": "<i", "int64": "<q", "float32": "<f", "float64": "<d"}

IDS = ["", "a", "fifteen bytes !", "sixteen bytes !!", "seventeen bytes !", "2013-01-01T05:00:00Z/UA/1545", "é" * 40]
ID_SETS = ["", "departures", "dedup", ":", "ids:", "é" * 20]
JOINED: list[list[str | bytes]] = [["a", "bc"], ["ab", "c"], ["", "abc"], [b"a", "bc"], ["a", b"bc"], ["é", "x" * 300]]


def cmac(aes_key: bytes, message: bytes) -> bytes:
    mac = CMAC(algorithms.AES(aes_key))
    mac.update(message)
    return mac.finalize()


def derive(key: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), 16, None, b"oncegate 1 " + purpose).derive(key)


def fingerprint(key: bytes, value: bytes, id_set: str = "") -> bytes:
    return cmac(derive(key, b"ids:" + id_set.encode() if id_set else b"ids"), value)


def join(values: Sequence[str | bytes]) -> bytes:
    out = b""
    for value in values:
        raw = value.encode() if isinstance(value, str) else value
        out += bytes([1 if isinstance(value, str) else 2]) + struct.pack("<I", len(raw)) + raw
    return out


def described(kind: pa.DataType) -> Any:
    """Returns the type in the form of the schema's name; covers only the types that the tests create."""
    if pa.types.is_struct(kind):
        return ["struct", sorted([[field.name, described(field.type)] for field in kind.fields], key=lambda f: f[0])]
    if pa.types.is_list(kind):
        return ["list", described(kind.value_type)]
    if pa.types.is_map(kind):
        return ["map", described(kind.key_type), described(kind.item_type)]
    if pa.types.is_decimal(kind):
        return ["decimal", kind.bit_width, kind.precision, kind.scale]
    if pa.types.is_timestamp(kind):
        return ["timestamp", kind.unit, kind.tz]
    return {"double": "float64", "float": "float32", "date32[day]": "date32"}.get(str(kind), str(kind))


def cell(kind: pa.DataType, value: Any) -> tuple[bytes, bytes]:
    """Returns the fixed and the variable bytes of one cell. Dates and timestamps are given as integers."""
    if pa.types.is_null(kind):
        return b"\0", b""
    flag = b"\0" if value is None else b"\1"
    if pa.types.is_struct(kind):
        fields = sorted(kind.fields, key=lambda field: field.name)
        cells = [cell(field.type, None if value is None else value[field.name]) for field in fields]
        return flag + b"".join(fixed for fixed, _ in cells), b"".join(variable for _, variable in cells)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        raw = b"" if value is None else value.encode() if isinstance(value, str) else value
        return flag + struct.pack("<I", len(raw)), raw
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        raw = b"".join(_element(kind, item) for item in value or [])
        return flag + struct.pack("<I", len(raw)), raw
    return flag + _number(kind, value), b""


def _element(kind: pa.DataType, item: Any) -> bytes:
    if pa.types.is_list(kind):
        return b"".join(cell(kind.value_type, item))
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return b"".join(cell(entry, {"key": item[0], "value": item[1]}))


def _number(kind: pa.DataType, value: Any) -> bytes:
    if pa.types.is_boolean(kind):
        return bytes([bool(value)])
    if pa.types.is_decimal(kind):
        unscaled = 0 if value is None else int(value.scaleb(kind.scale))
        return unscaled.to_bytes(kind.bit_width // 8, "little", signed=True)
    name = {"double": "float64", "float": "float32", "date32[day]": "int32"}.get(str(kind), str(kind))
    name = "int64" if name.startswith("timestamp") else name
    if value != value:
        return {"float32": bytes.fromhex("0000c07f"), "float64": bytes.fromhex("000000000000f87f")}[name]
    return struct.pack(FORMATS[name], 0 if value is None else value)


def row_bytes(schema: pa.Schema, row: dict[str, Any]) -> bytes:
    cells = [cell(field.type, row[field.name]) for field in sorted(schema, key=lambda field: field.name)]
    return b"".join(fixed for fixed, _ in cells) + b"".join(variable for _, variable in cells)


def batch_print(key: bytes, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> bytes:
    fields = described(pa.struct(list(schema)))[1]
    name = json.dumps(fields, separators=(",", ":")).encode()
    row_key = derive(key, b"rows " + hashlib.sha256(name).digest())
    total = sum(int.from_bytes(cmac(row_key, row_bytes(schema, row)), "little") for row in rows)
    return (total % (1 << 128)).to_bytes(16, "little")


def golden_rows() -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Returns one column of each type with every kind of value, null included."""
    schema = pa.schema(
        [
            pa.field("text", pa.string()),
            pa.field("raw", pa.binary()),
            pa.field("small", pa.int16()),
            pa.field("big", pa.int64()),
            pa.field("real", pa.float64()),
            pa.field("yes", pa.bool_()),
            pa.field("day", pa.date32()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("nothing", pa.null()),
            pa.field("many", pa.list_(pa.string())),
            pa.field("both", pa.struct([("y", pa.int32()), ("x", pa.string())])),
            pa.field("map", pa.map_(pa.string(), pa.int32())),
        ]
    )
    first = ["é", b"\xff\0", -2, 1 << 62, -0.0, True, 19723, 1_700_000_000_000_000, None, ["a", None, ""]]
    names = schema.names
    rows = [
        dict(zip(names, [*first, {"y": 7, "x": None}, [("k", 1), ("l", None)]], strict=True)),
        dict.fromkeys(names),
        dict(zip(names, ["", b"", 0, 0, float("nan"), False, 0, 0, None, [], {"y": None, "x": ""}, []], strict=True)),
    ]
    return schema, rows


def _write() -> None:
    schema, rows = golden_rows()
    check = derive(KEY, b"key check").hex()
    vectors: dict[str, Any] = {
        "fingerprints": {
            "key": KEY.hex(),
            "check": check,
            "prints": {one: fingerprint(KEY, one.encode()).hex() for one in IDS},
        },
        "id_sets": {
            "key": KEY.hex(),
            "of_a": {id_set: fingerprint(KEY, b"a", id_set).hex() for id_set in ID_SETS},
        },
        "joined": [
            {
                "columns": [value if isinstance(value, str) else {"hex": value.hex()} for value in values],
                "bytes": join(values).hex(),
                "fingerprint": fingerprint(KEY, join(values)).hex(),
            }
            for values in JOINED
        ],
        "rows": {
            "key": KEY.hex(),
            "rows": [row_bytes(schema, row).hex() for row in rows],
            "each": [batch_print(KEY, schema, [row]).hex() for row in rows],
            "all": batch_print(KEY, schema, rows).hex(),
        },
    }
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, content in vectors.items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    _write()
