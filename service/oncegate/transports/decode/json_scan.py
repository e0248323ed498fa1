"""Checks a JSON body's size, nesting depth and unique member names before it is parsed.

A JSON parser holds the GIL until it is done, and silently keeps the last of two members with the same name. The loop
here is compiled and runs without the GIL. Malformed JSON passes this check; the parser rejects it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from oncegate.compilation import compiled
from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits

# Deeper than schemas in practice; Arrow's own readers stop at 64.
DEPTH_MAX = 32
# A record is nested in the message and its list.
_DEPTH_MAX = DEPTH_MAX + 2
_QUOTE, _BACKSLASH, _COLON, _COMMA = 0x22, 0x5C, 0x3A, 0x2C
_OBJECT, _OBJECT_END, _LIST, _LIST_END = 0x7B, 0x7D, 0x5B, 0x5D
_FNV, _PRIME, _SPREAD = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_U, _MINUS = 0x75, 0x2D
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
# The parser takes up to 50 ns for each byte of a long number, and 20 us for one with an exponent of three digits.
_LONG_NUMBER, _FAR_NUMBER = 32, 300
# A double needs at most 17 digits. A whole number of 16 or more digits may lie between two doubles.
_DIGITS, _WHOLE_DIGITS = 17, 16


def check(body: bytes, limits: Limits) -> bool:
    """Checks a JSON body against the limits.

    Returns:
        Whether a number with a point or an exponent may not fit a double; only then its text must be parsed.

    Raises:
        BadRequest: nested too deep, or an object has two members of the same name.
        TooLarge: more tokens than `limits.json_tokens`.
    """
    text = np.frombuffer(body, np.uint8)
    tokens, depth, at, end, is_precise = _scan(text, limits.json_tokens)
    if depth > _DEPTH_MAX:
        raise BadRequest(f"the JSON body is nested more than {DEPTH_MAX} deep; nothing was written")
    if tokens > limits.json_tokens:
        raise TooLarge(
            f"the JSON body has more than {limits.json_tokens} colons, commas, brackets and bytes of long numbers: "
            "send so much as Arrow, or in several requests; nothing was written"
        )
    if at:
        name = body[at : min(end, at + 80)].decode("utf-8", "replace")
        raise BadRequest(f'the JSON member "{name}" is there twice in one object; nothing was written')
    return bool(is_precise)


def warm_up() -> None:
    """Compiles the loop or loads it from the cache, so that no request waits for it."""
    check(b'{"a":["\\u0061"]}', Limits())


# Compiles a function into the loop that calls it; plain where the loop is plain.
_helper: Callable[[Callable[..., Any]], Callable[..., Any]] = register_jitable


@_helper
def _hex(digit: int) -> int:
    return digit - 48 if digit < 58 else (digit | 32) - 87


@_helper
def _unit(text: Any, at: int) -> int:
    """Returns the value of four hex digits."""
    found: int = (_hex(text[at]) << 12) | (_hex(text[at + 1]) << 8) | (_hex(text[at + 2]) << 4) | _hex(text[at + 3])
    return found


@_helper
def _add(digest: Any, byte: int) -> Any:
    return (digest ^ np.uint64(byte)) * _PRIME


@_helper
def _add_char(digest: Any, char: int) -> Any:
    """Updates a digest with one character's UTF-8 bytes."""
    if char < 0x80:
        return _add(digest, char)
    if char < 0x800:
        return _add(_add(digest, 0xC0 | char >> 6), 0x80 | char & 63)
    if char < 0x10000:
        return _add(_add(_add(digest, 0xE0 | char >> 12), 0x80 | char >> 6 & 63), 0x80 | char & 63)
    digest = _add(_add(digest, 0xF0 | char >> 18), 0x80 | char >> 12 & 63)
    return _add(_add(digest, 0x80 | char >> 6 & 63), 0x80 | char & 63)


@_helper
def _plain(escaped: int) -> int:
    """Returns the code point of a one-letter escape."""
    if escaped == 0x6E:
        return 10
    if escaped == 0x74:
        return 9
    if escaped == 0x72:
        return 13
    if escaped == 0x62:
        return 8
    return 12 if escaped == 0x66 else escaped


@_helper
def _escape(text: Any, at: int) -> tuple[int, int]:
    """Returns the code point of the escape at `at`, and the length of the escape in bytes."""
    size = len(text)
    if at + 1 >= size:
        return 0, size - at
    if text[at + 1] != _U or at + 6 > size:
        return _plain(text[at + 1]), 2
    unit = _unit(text, at + 2)
    if unit & 0xFC00 == 0xD800 and at + 12 <= size and text[at + 6] == _BACKSLASH and text[at + 7] == _U:
        return 0x10000 + ((unit & 0x3FF) << 10 | _unit(text, at + 8) & 0x3FF), 12
    return unit, 6


@_helper
def _digest(text: Any, at: int) -> tuple[Any, int]:
    """Returns the digest of the unescaped string that starts at `at`, and the position of its end."""
    digest, size = _FNV, len(text)
    while at < size and text[at] != _QUOTE:
        if text[at] == _BACKSLASH:
            char, taken = _escape(text, at)
            digest = _add_char(digest, char)
            at += taken
        else:
            digest = _add(digest, text[at])
            at += 1
    return digest, min(at, size)


@_helper
def _has_none(word: Any, byte: Any) -> bool:
    """Returns whether none of the eight bytes of a word equals `byte`, by Mycroft's zero-byte test (1987)."""
    other = word ^ byte * _ONES
    return bool((other - _ONES) & ~other & _HIGH_BITS == 0)


@_helper
def _end_of_string(text: Any, at: int) -> int:
    """Returns the end of the string that contains `at`; skips eight bytes at a time if they have no quote or escape."""
    size = len(text)
    words = text[: size >> 3 << 3].view(np.uint64)
    while at < size and text[at] != _QUOTE:
        if text[at] == _BACKSLASH:
            at += 2
            continue
        at += 1
        while at & 7 == 0 and at >> 3 < len(words):
            word = words[at >> 3]
            if not (_has_none(word, np.uint64(_QUOTE)) and _has_none(word, np.uint64(_BACKSLASH))):
                break
            at += 8
    return min(at, size)


@_helper
def _is_known(table: Any, digest: Any) -> bool:
    """Adds a digest to the table; returns whether the table contained it before."""
    mask = np.uint64(len(table) - 1)
    place = digest & mask
    while table[place] != 0:
        if table[place] == digest:
            return True
        place = (place + np.uint64(1)) & mask
    table[place] = digest
    return False


@_helper
def _is_digit(byte: int) -> bool:
    return 0x30 <= byte <= 0x39


@_helper
def _number(text: Any, at: int) -> tuple[int, int, bool]:
    """Returns the end of a number, its weight in tokens, and whether it may not fit a double.

    The weight is 0 except for numbers that are slow to parse.
    """
    start, size, exponent, digits, rises = at, len(text), False, 0, False
    # `significant`: digits from the first nonzero one, trailing zeros included. `whole`: those before the point.
    significant, whole, point = 0, 0, False
    while at < size and (_is_digit(text[at]) or text[at] in (_MINUS, 0x2B, 0x2E, 0x45, 0x65)):
        if text[at] in (0x45, 0x65):
            exponent, digits, rises = True, 0, at + 1 >= size or text[at + 1] != _MINUS
        elif text[at] == 0x2E:
            point, whole = True, significant
        elif _is_digit(text[at]):
            digits += 1
            significant += not exponent and (significant > 0 or text[at] != 0x30)
        at += 1
    weight = at - start if at - start > _LONG_NUMBER else 0
    is_far = exponent and digits > 2
    is_whole = significant >= _WHOLE_DIGITS and (whole >= _WHOLE_DIGITS or rises or not point)
    is_precise = (point or exponent) and (is_far or is_whole or significant > _DIGITS)
    return at, weight + (_FAR_NUMBER if is_far else 0), is_precise


@_helper
def _count(text: Any, tokens_max: int) -> tuple[int, int, int, bool]:
    """Counts the colons, commas and brackets outside of strings, plus the weights of numbers.

    Returns the count, the number of colons, the depth, and whether a number may not fit a double.
    """
    at, size, tokens, colons, depth, deepest, precise = 0, len(text), 0, 0, 0, 0, False
    while at < size and tokens <= tokens_max:
        byte = text[at]
        if byte == _QUOTE:
            at = _end_of_string(text, at + 1)
        elif byte in (_OBJECT, _LIST):
            tokens, depth = tokens + 1, depth + 1
            deepest = max(deepest, depth)
        elif byte in (_OBJECT_END, _LIST_END):
            # Never below 0, as in `_scan`: otherwise surplus closing brackets could hide the depth of the rest.
            tokens, depth = tokens + 1, max(depth - 1, 0)
        elif byte in (_COLON, _COMMA):
            tokens += 1
            colons += byte == _COLON
        elif byte == _MINUS or _is_digit(byte):
            end, weight, is_precise = _number(text, at)
            at, tokens, precise = end - 1, tokens + weight, precise or is_precise
        at += 1
    return tokens, colons, deepest, precise


@compiled
def _scan(text: Any, tokens_max: int) -> tuple[int, int, int, int, bool]:
    """Returns tokens, depth, start and end of the first repeated member name (0, 0: none), and whether a number may
    not fit a double."""
    tokens, colons, deepest, precise = _count(text, tokens_max)
    if tokens > tokens_max or deepest > _DEPTH_MAX or colons == 0:
        return tokens, deepest, 0, 0, precise
    size_bits = 1
    while 1 << size_bits < 2 * colons + 2:
        size_bits += 1
    table = np.zeros(1 << size_bits, np.uint64)
    # For each enclosing object its number, counted from 1; 0 for a list.
    around = np.zeros(_DEPTH_MAX + 2, np.uint64)
    at, size, depth, objects, names_next, names = 0, len(text), 0, np.uint64(0), False, 0
    while at < size and names < colons:
        byte = text[at]
        if byte == _QUOTE and names_next and depth > 0 and around[depth] != 0:
            digest, end = _digest(text, at + 1)
            digest = (digest ^ (around[depth] * _SPREAD)) * _PRIME
            digest ^= digest >> np.uint64(32)
            if _is_known(table, digest | np.uint64(1)):
                return tokens, deepest, at + 1, end, precise
            at, names_next, names = end, False, names + 1
        elif byte == _QUOTE:
            at = _end_of_string(text, at + 1)
        elif byte == _OBJECT:
            objects, depth = objects + np.uint64(1), depth + 1
            around[depth], names_next = objects, True
        elif byte == _LIST:
            depth += 1
            around[depth], names_next = np.uint64(0), False
        elif byte in (_OBJECT_END, _LIST_END):
            depth, names_next = max(depth - 1, 0), False
        elif byte == _COMMA:
            names_next = True
        at += 1
    return tokens, deepest, 0, 0, precise
