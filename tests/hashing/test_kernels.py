"""The loops over bytes: machine code and plain Python give the same result and change nothing else."""

import random
from typing import Any

import numpy as np
import pytest

from oncegate.hashing.kernels import SLACK_BYTES, fixed_input, put_cells, put_strings, take_blocks
from tests.hashing import reference

UNTOUCHED = 0xAA


def bytes_of(rng: random.Random, size: int) -> Any:
    return fixed_input(np.frombuffer(rng.randbytes(size), np.uint8))


def both(kernel: Any, room: int, *arguments: Any) -> tuple[bytes, bytes]:
    """Returns the output buffer and the array of ends of the compiled and the plain loop."""
    left = []
    for loop in (kernel, kernel.py_func):
        out, copied = np.full(room, UNTOUCHED, np.uint8), [one.copy() for one in arguments[:1]]
        loop(out, *copied, *arguments[1:])
        left.append(out.tobytes() + copied[0].tobytes())
    return left[0], left[1]


def places(rng: random.Random, rows: int, widest: int) -> tuple[np.ndarray, int]:
    """Returns the starts of rows at arbitrary addresses, each followed by slack, and the end of the last."""
    gaps = np.array([widest + SLACK_BYTES + rng.randrange(3) for _ in range(rows)], np.int64)
    starts = np.concatenate(([3], 3 + np.cumsum(gaps)))
    return starts[:-1].copy(), int(starts[-1])


@pytest.mark.parametrize("width", [0, 1, 2, 4, 7, 8, 9, 16, 32])
@pytest.mark.parametrize("with_nulls", [False, True])
def test_cells_are_a_flag_and_a_value_or_zeros_under_a_null(width: int, with_nulls: bool) -> None:
    rng = random.Random(reference.SEED + width)
    starts, end = places(rng, 50, 1 + width)
    values = bytes_of(rng, 50 * width)
    valid = np.array([rng.random() < 0.5 for _ in range(50)]) if with_nulls else np.zeros(0, np.bool_)
    compiled, plain = both(put_cells, end, starts, 0, values, width, fixed_input(valid))
    assert compiled == plain
    for row, start in enumerate(starts.tolist()):
        is_there = not with_nulls or bool(valid[row])
        value = values[row * width :][:width].tobytes() if is_there else bytes(width)
        assert compiled[start : start + 1 + width] == bytes([is_there]) + value
    assert compiled[:3] == bytes([UNTOUCHED] * 3)


@pytest.mark.parametrize("number", range(20))
def test_strings_are_put_behind_what_a_row_has(number: int) -> None:
    rng = random.Random(reference.SEED + number)
    data = bytes_of(rng, rng.choice([0, 5, 8, 300]))
    starts = np.array([rng.randint(0, data.size) for _ in range(50)], np.int64)
    sizes = np.array([rng.randint(0, min(40, data.size - start)) for start in starts.tolist()], np.int64)
    ends, end = places(rng, 50, 40)
    compiled, plain = both(put_strings, end, ends, data, fixed_input(starts), fixed_input(sizes))
    assert compiled == plain
    after = np.frombuffer(compiled[end:], np.int64)
    assert (after == ends + sizes).all()
    for row, to in enumerate(ends.tolist()):
        assert compiled[to : to + sizes[row]] == data[starts[row] :][: sizes[row]].tobytes()


@pytest.mark.parametrize("at", [0, 16])
@pytest.mark.parametrize("size", [0, 5, 16, 31, 400])
def test_blocks_are_cut_padded_and_xored_to_the_last_byte_of_the_data(size: int, at: int) -> None:
    rng = random.Random(reference.SEED + size)
    data = bytes_of(rng, size)
    starts = np.array([rng.randint(0, max(0, size - at)) for _ in range(60)], np.int64)
    lengths = np.array([rng.randint(min(at, size - start), size - start) for start in starts.tolist()], np.int64)
    fits = lengths >= at
    starts, lengths = starts[fits], lengths[fits]
    finish, state = (np.frombuffer(rng.randbytes(16 * n), np.uint64).reshape(n, 2) for n in (17, 60))
    keep = np.frombuffer(b"".join((b"\xff" * left).ljust(16, b"\0") for left in range(17)), np.uint64).reshape(17, 2)
    left = []
    for loop in (take_blocks, take_blocks.py_func):
        cells = np.zeros((max(0, len(starts) - 1), 2), np.uint64)
        loop(data, starts, lengths, at, 1, keep, finish, state, cells)
        left.append(cells)
    assert (left[0] == left[1]).all()
    for row, (start, length) in enumerate(zip(starts[1:].tolist(), lengths[1:].tolist(), strict=True), 1):
        block = np.frombuffer(data[start + at : start + length].tobytes()[:16].ljust(16, b"\0"), np.uint64)
        if length - at <= 16:
            block = block ^ finish[length - at]
        assert (left[0][row - 1] == (block ^ state[row] if at else block)).all()
