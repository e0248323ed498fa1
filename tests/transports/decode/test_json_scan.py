"""Duplicate members of an object are found, and nothing else is, whatever the surrounding strings contain."""

import json
import random
from typing import Any

import pytest

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.transports.decode import json_scan

SEED = 20_261_122
NAMES = ["a", "b", "ab", "é", "\U0001f600", 'q"uote', "back\\slash", "", "a longer name, of more than eight bytes"]
PIECES = ["x", "\\", '"', ":", ",", "{", "}", "[", "]", "é", "\n", "\U0001f600", "seven7b", "eight_8b"]


def text(rng: random.Random) -> str:
    """Returns a string of any length, so that its quotes and escapes are at any offset of eight bytes."""
    return "".join(rng.choices(PIECES, k=rng.randrange(20)))


def value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(6 if depth else 4)
    if kind == 4:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return Members([(rng.choice(NAMES), value(rng, depth - 1)) for _ in range(rng.randrange(5))])
    return [rng.randrange(10**9), rng.random(), None, text(rng)][kind]


class Members(list[tuple[str, Any]]):
    """The members of an object, possibly with duplicates."""


def written(item: Any, rng: random.Random) -> str:
    gap = " " * rng.randrange(3)
    if isinstance(item, Members):
        pairs = (f"{quoted(name, rng)}{gap}:{gap}{written(inner, rng)}" for name, inner in item)
        return "{" + f",{gap}".join(pairs) + "}"
    if isinstance(item, list):
        return "[" + f"{gap},".join(written(inner, rng) for inner in item) + "]"
    return quoted(item, rng) if isinstance(item, str) else json.dumps(item)


def quoted(item: str, rng: random.Random) -> str:
    return json.dumps(item, ensure_ascii=rng.random() < 0.5)


def is_doubled(item: Any) -> bool:
    if isinstance(item, Members):
        names = [name for name, _ in item]
        return len(names) != len(set(names)) or any(is_doubled(inner) for _, inner in item)
    return isinstance(item, list) and any(map(is_doubled, item))


def refused(body: bytes) -> bool:
    try:
        json_scan.check(body, Limits())
    except BadRequest:
        return True
    return False


def test_whatever_is_written_a_doubled_member_is_refused_and_nothing_else() -> None:
    print(f"seed {SEED}")
    rng, found = random.Random(SEED), {True: 0, False: 0}
    for _ in range(20_000):
        item = value(rng, 4)
        body = written(item, rng).encode()
        assert refused(body) == is_doubled(item), body
        found[is_doubled(item)] += 1
    assert min(found.values()) > 1_000, found


@pytest.mark.parametrize("before", range(17))
def test_an_escaped_quote_ends_no_string_at_any_place(before: int) -> None:
    inner = "x" * before + '\\",' + "x" * 20
    assert refused(b'{"a":"%b","a":1}' % inner.encode())
    assert not refused(b'{"a":"%b\\"a\\":1","b":1}' % inner.encode())


@pytest.mark.parametrize(
    "body", [b'{"a":1,"a', b'{"a":"\\', b'{"a', b'"', b"\\", b'{"a":"12345678', b'{"a":"1234567\\']
)
def test_what_ends_in_the_middle_is_left_to_the_reader(body: bytes) -> None:
    json_scan.check(body, Limits())


def test_unmatched_closing_brackets_hide_no_depth() -> None:
    """The scan would write beyond the end of the stack of open objects."""
    deep = json_scan.DEPTH_MAX + 3
    with pytest.raises(BadRequest, match="nested more than"):
        json_scan.check(b"]" * deep + b"{" * deep + b":", Limits())
