"""Parses JSON bodies into messages."""

from typing import Any, TypeVar

import msgspec

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.transports.decode import json_scan
from oncegate.transports.decode.json_values import EXACT_MAX, as_double

T = TypeVar("T")

# Members with callers' own values, which stay unchanged.
_THEIRS = frozenset({"records"})
_PRECISE = msgspec.json.Decoder(float_hook=as_double)


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]", limits: Limits) -> T:
    """Parses a JSON body into a message.

    Raises BadRequest, which names an invalid or repeated member; TooLarge, before the body is parsed.
    """
    is_precise = json_scan.check(body, limits)
    try:
        if is_precise:
            decoder = msgspec.json.Decoder(decoder.type, float_hook=as_double)
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            values = _PRECISE.decode(body) if is_precise else msgspec.json.decode(body)
            return msgspec.convert(_with_integers(values), decoder.type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the JSON body cannot be read: {error}") from error


def _with_integers(value: Any) -> Any:
    """Replaces whole floats such as 1023.0 by integers: JSON Schema treats both as integers, msgspec does not."""
    if isinstance(value, dict):
        return {name: item if name in _THEIRS else _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < EXACT_MAX
    return int(value) if is_whole else value
