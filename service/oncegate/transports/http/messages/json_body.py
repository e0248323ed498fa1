"""Reads a JSON body as a message."""

from typing import Any, TypeVar

import msgspec

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.transports.decode import json_scan
from oncegate.transports.decode.json_values import EXACT_MAX, as_double

T = TypeVar("T")

# Values of callers, which stay as they are.
_THEIRS = frozenset({"records"})
_PRECISE = msgspec.json.Decoder(float_hook=as_double)


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]", limits: Limits) -> T:
    """Reads a JSON body as a message.

    Raises BadRequest with the member that does not fit, or is there twice; TooLarge before anything is built.
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
    """The same with 1023 for 1023.0: to JSON Schema both are the same integer, to the reader one is a float."""
    if isinstance(value, dict):
        return {name: item if name in _THEIRS else _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < EXACT_MAX
    return int(value) if is_whole else value
