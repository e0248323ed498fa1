"""Random schemas and rows of all types: values in the form that both pa.array() and the reference accept."""

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

Make = Callable[[random.Random], Any]

_FLOATS = [0.0, -0.0, 1.5, -1e300, float("nan"), float("inf"), 5e-324]


def _integer(bits: int) -> Make:
    edges = [0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1)]
    return lambda rng: rng.choice([*edges, rng.randrange(-(1 << bits - 1), 1 << bits - 1)])


def _text(rng: random.Random) -> str:
    return "".join(rng.choices("aé\0\1€𝄞", k=rng.choice([0, 1, 2, 20])))


# Dates and timestamps are given as integers.
SCALARS: list[tuple[pa.DataType, Make]] = [
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.int8(), _integer(8)),
    (pa.int16(), _integer(16)),
    (pa.int32(), _integer(32)),
    (pa.int64(), _integer(64)),
    (pa.float32(), lambda rng: rng.choice([0.0, -0.0, 1.5, float("nan"), float("-inf")])),
    (pa.float64(), lambda rng: rng.choice(_FLOATS)),
    (pa.date32(), lambda rng: rng.randint(-100_000, 100_000)),
    (pa.timestamp("us", "UTC"), lambda rng: rng.randint(-(1 << 50), 1 << 50)),
    (pa.timestamp("ms"), lambda rng: rng.randint(-(1 << 40), 1 << 40)),
    (pa.decimal128(20, 3), lambda rng: Decimal(rng.randint(-(10**18), 10**18)).scaleb(-3)),
    (pa.string(), _text),
    (pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 1, 16, 40]))),
    (pa.null(), lambda rng: None),
]


def _maybe(make: Make) -> Make:
    return lambda rng: None if rng.random() < 0.3 else make(rng)


def _several(make: Make) -> Make:
    return lambda rng: [make(rng) for _ in range(rng.choice([0, 1, 1, 3]))]


def _type(rng: random.Random, depth: int) -> tuple[pa.DataType, Make]:
    shape = rng.choice(["scalar", "scalar", "list", "map", "struct"]) if depth else "scalar"
    if shape == "scalar":
        return rng.choice(SCALARS)
    if shape == "struct":
        names = rng.sample(["b", "a", "é"], rng.randint(0, 3))
        return _fields(rng, names, depth - 1)
    kind, make = _type(rng, depth - 1)
    if shape == "list":
        return pa.list_(kind), _several(_maybe(make))
    return pa.map_(pa.string(), kind), _several(lambda rng: (_text(rng), _maybe(make)(rng)))


def _fields(rng: random.Random, names: list[str], depth: int) -> tuple[pa.DataType, Make]:
    typed = {name: _type(rng, depth) for name in names}
    makes = {name: _maybe(make) for name, (_, make) in typed.items()}
    kind = pa.struct([pa.field(name, kind) for name, (kind, _) in typed.items()])
    return kind, lambda rng: {name: make(rng) for name, make in makes.items()}


def table(rng: random.Random) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Returns one to four columns, nested up to three deep, of 0 to 60 rows; about a third of all values are null."""
    names = rng.sample(["id", "a", "Z", "ü"], rng.randint(1, 4))
    kind, make = _fields(rng, names, 3)
    return pa.schema(list(kind.fields)), [make(rng) for _ in range(rng.choice([0, 1, 2, 9, 60]))]
