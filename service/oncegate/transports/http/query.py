"""What the query parameters of a request say, as a message or one by one."""

from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from fastapi import Request

from oncegate.core.errors import BadRequest
from oncegate.engine.requests import ClaimResult
from oncegate.transports.decode.identifiers import shortened, whole_number
from oncegate.transports.http.negotiation import PACKED

T = TypeVar("T")

# Parameters of calls whose bodies are of several kinds, for none of their messages.
LOCATE = "locate"
SHADOW = "shadow"


def located(request: Request) -> bool:
    """Tells whether the caller wants to know of each duplicate where its first is. Raises BadRequest."""
    return _is_true(request, LOCATE)


def without_shadow(request: Request, answer: ClaimResult, media: str) -> ClaimResult:
    """Returns a packed answer as a caller reads it that did not ask for what verdicts would have been; else as it is.

    Raises BadRequest.
    """
    asked = _is_true(request, SHADOW)
    return answer if asked or media != PACKED or answer.shadow is None else replace(answer, shadow=None)


def _is_true(request: Request, name: str) -> bool:
    if not request.scope["query_string"]:
        return False
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise _misfit(name, f"true or false is wanted, not {shortened(given)}")
    return given == "true"


def query(request: Request, kind: type[T]) -> T:
    """Reads the query parameters as a message. Raises BadRequest for one that is missing or does not fit."""
    others = (LOCATE, SHADOW)
    given: dict[str, Any] = {name: value for name, value in request.query_params.items() if name not in others}
    for name in _integers(cast(Any, kind)) & given.keys():
        try:
            given[name] = whole_number(given[name], name, 2**64 - 1)
        except BadRequest as error:
            raise _misfit(name, error.detail) from None
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        raise _misfit(place.rstrip("`"), what) from error


def _misfit(name: str, what: str) -> BadRequest:
    pointer = f"query/{name}".rstrip("/")
    return BadRequest(f"{pointer}: {what}", errors=[{"pointer": pointer, "detail": what}])


@cache
def _integers(kind: Any) -> frozenset[str]:
    """The members of a message that are whole numbers."""
    found = msgspec.inspect.type_info(kind)
    assert isinstance(found, msgspec.inspect.StructType)
    return frozenset(field.name for field in found.fields if _is_integer(field.type))


def _bare(kind: Any) -> Any:
    return _bare(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _is_integer(kind: Any) -> bool:
    kind = _bare(kind)
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(option, msgspec.inspect.IntType) for option in map(_bare, options))
