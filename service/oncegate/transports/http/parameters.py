"""Rejects every header and query parameter that a route's OpenAPI operation does not declare; negotiates media types.

The OpenAPI document is the source: an operation declares its parameters, each for the media types it applies to.
Parsed media-type headers are cached, since clients of one kind send the same few.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope

from oncegate.core.errors import (
    BadRequest,
    ForeignOrigin,
    HeadTooLarge,
    Misdirected,
    NotAcceptable,
    OncegateError,
    TargetTooLong,
    UnsupportedMedia,
)
from oncegate.transports.decode.identifiers import percent_decoded, shortened

JSON = "application/json"
# JSON with 64-bit numbers as text, for responses only, if Accept names it.
JSON_TEXTS = f"{JSON}; int64=string"
PACKED = "application/vnd.oncegate.packed"
ARROW = "application/vnd.apache.arrow.stream"

_REMEMBERED = 64
# A media-type parameter without effect: JSON is always UTF-8.
_CHARSET = "charset=utf-8"


_OURS = b"oncegate-"
# A client that sends these relies on them, so a route that does not read them must refuse them.
_RELIED_ON = frozenset({b"content-digest", b"idempotency-key"})
# Repeating one of these is ambiguous, so it is refused.
_ONCE = frozenset({b"accept", b"content-type", b"content-encoding", b"authorization", *_RELIED_ON})
# More than any route declares, and few enough to parse quickly.
_PAIRS_MAX = 64


class Parameters:
    """The declared parameters of one call, by the body's media type ("" without a body).

    kinds: for each media type, the names of headers, and for each query parameter whether it may be repeated.
    """

    def __init__(self, kinds: Mapping[str, Mapping[str, Any]]) -> None:
        self._headers = {kind: frozenset(map(str.encode, taken["headers"])) for kind, taken in kinds.items()}
        self._query: dict[str, Mapping[str, bool]] = {kind: taken["query"] for kind, taken in kinds.items()}
        # The last accepted header fields, by media type: clients usually repeat them.
        self._good: dict[str, object] = {}
        # The kind for any other media type: "" if the body may be absent.
        self._otherwise = "" if "" in kinds else None

    def checked(self, scope: Any, sent: str) -> dict[str, list[str]]:
        """Returns the query's values by name. `sent`: the Content-Type.

        Raises BadRequest for a header or parameter that is undeclared, repeated or badly encoded.
        """
        fields, raw_path, query = scope["headers"], scope["raw_path"], dict[str, list[str]]()
        kind: str | None = _media(sent)
        if kind not in self._headers:
            kind = self._otherwise
        if kind is not None:  # otherwise the Content-Type is refused later
            if fields != self._good.get(kind):
                self._check_headers(fields, kind)
                self._good[kind] = fields
            if scope["query_string"]:
                query = self._checked_query(scope["query_string"], kind)
        if b"%" in raw_path or not raw_path.isascii():
            percent_decoded(raw_path.decode("latin-1"), "the path")
        return query

    def _check_headers(self, fields: Sequence[tuple[bytes, bytes]], kind: str) -> None:
        taken, seen = self._headers[kind], set()
        for name, value in fields:
            if not name.startswith(_OURS) and name not in _ONCE:
                continue
            if name in seen:
                raise BadRequest(f"the header {_shown(name)} is there twice")
            seen.add(name)
            if name not in taken and (name not in _ONCE or name in _RELIED_ON):
                known = _there_are(map(_shown, taken))
                raise BadRequest(f"the header {_shown(name)} is not taken here{_for(kind)}; {known}")
            if not value.isascii():
                raise BadRequest(f"the header {_shown(name)} is not ASCII: percent-encode it")

    def _checked_query(self, text: bytes, kind: str) -> dict[str, list[str]]:
        percent_decoded(text.decode("latin-1"), "the query")
        taken, values = self._query[kind], dict[str, list[str]]()
        for name, value in _pairs(text):
            if name not in taken:
                raise BadRequest(f"the parameter {shortened(name)} is not taken here{_for(kind)}; {_there_are(taken)}")
            if name in values and not taken[name]:
                raise BadRequest(f"the parameter {name} is there twice")
            values.setdefault(name, []).append(value)
        return values


def _pairs(text: bytes) -> list[tuple[str, str]]:
    """Returns the query's (name, value) pairs in order. Raises BadRequest unless it consists of pairs."""
    try:
        return parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_PAIRS_MAX,
        )
    except ValueError as error:
        raise BadRequest(f"the query is not made of name=value, {_PAIRS_MAX} at most") from error


def _for(kind: str) -> str:
    return f" with a body of {kind}" if kind else ""


def _shown(name: bytes) -> str:
    return "-".join(part.capitalize() for part in name.decode("latin-1")[:80].split("-"))


def _there_are(taken: Iterable[str]) -> str:
    return f"taken are {names}" if (names := ", ".join(sorted(taken))) else "none is taken"


@lru_cache(_REMEMBERED)
def negotiated(
    sent: str | None, encoding: str | None, accept: str | None, reads: Sequence[str], writes: Sequence[str]
) -> tuple[str, str]:
    """Returns the media types of the body and of the response; with empty `reads`, the body's is "".

    Without Accept the response has the body's media type if `writes` contains it, otherwise the first of `writes`.
    Raises UnsupportedMedia, then NotAcceptable.
    """
    media = content_type(sent, encoding, reads) if reads else ""
    # The body's media type goes first: it is the default of the response.
    return media, accepted(accept, tuple(sorted(writes, key=lambda other: other != media)))


def content_type(sent: str | None, encoding: str | None, reads: Sequence[str]) -> str:
    """Returns the body's media type, one of `reads`. Raises UnsupportedMedia, also for compressed bodies."""
    media = _media(sent or "")
    if media not in reads:
        raise UnsupportedMedia(
            f"Content-Type {sent or ''!r} is not read here; send {' or '.join(reads)}", accepted=list(reads)
        )
    if (charset := _charset(sent or "")) not in ("", "utf-8"):
        raise UnsupportedMedia(f"charset {charset!r} is not read here: a body is UTF-8, whatever its kind")
    if encoding not in (None, "identity"):
        raise UnsupportedMedia(f"Content-Encoding {encoding!r} is not read here; send the body as it is")
    return media


@lru_cache(_REMEMBERED)
def _media(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _charset(text: str) -> str:
    """Returns the charset of a Content-Type; "" if there is none."""
    named = (item.partition("=") for item in text.lower().split(";")[1:])
    return next((value.strip(' "') for name, _, value in named if name.strip() == "charset"), "")


@lru_cache(_REMEMBERED)
def accepted(header: str | None, writes: tuple[str, ...], any_version: bool = False) -> str:
    """Returns the media type in `writes` that Accept prefers; without Accept, the first one. JSON implies JSON_TEXTS.

    any_version: ignores all media-type parameters but the quality, for formats whose readers ask for a version and
    accept others (the response names its version). Raises NotAcceptable if Accept matches none.
    """
    if header is None:
        return writes[0]
    best = _best(_without_parameters(header) if any_version else header, writes)
    if best is None:
        also = "" if any_version else f", JSON also as {JSON_TEXTS!r}"
        raise NotAcceptable(f"Accept {header!r}: only {' or '.join(writes)} can be given{also}", available=list(writes))
    return best


def _without_parameters(header: str) -> str:
    ranges = (item.split(";") for item in header.split(","))
    return ",".join(";".join([media, *(p for p in more if p.strip().startswith("q="))]) for media, *more in ranges)


def _best(header: str, writes: tuple[str, ...]) -> str | None:
    wishes = [_wish(item) for item in header.split(",")]
    if JSON in writes and any(wish == JSON_TEXTS for wish, _ in wishes):
        at = writes.index(JSON)
        writes = (*writes[:at], JSON_TEXTS, *writes[at:])
    best = max(writes, key=lambda media: _liking(media, wishes))  # the first on a tie
    return best if _liking(best, wishes) > 0 else None


def _wish(item: str) -> tuple[str, float]:
    """Parses one media range of Accept into its name with parameters and its quality.

    Unknown parameters stay part of the name, so they match no type of ours.
    """
    media, *parameters = (part.strip().lower().replace('"', "") for part in item.split(";"))
    quality = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
    named = [p for p in parameters if p and not p.startswith("q=") and p != _CHARSET]
    try:
        return "; ".join((media, *named)), float(quality)
    except ValueError:
        return media, 0.0


def _liking(media: str, wishes: Sequence[tuple[str, float]]) -> float:
    """Returns the quality of the most specific range that matches `media`; 0 without a match."""
    for pattern in (media, media.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for wish, quality in wishes if wish == pattern]
        if qualities:
            return max(qualities)
    return 0.0


# Largest request head: as much as one read of the socket returns. The admission does not count heads.
HEAD_BYTES = 256 << 10
# More than a percent-encoded id of 16 columns needs.
TARGET_BYTES = 32 << 10
# Names that always mean this machine.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")


class Gate:
    """Checks request heads: size, Host against the gateway's own names, and Origin."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK | {name.strip().lower() for name in names if name.strip()}
        # The last accepted header fields: clients usually repeat them.
        self._let_in: object = None

    def refusal(self, scope: Scope) -> OncegateError | None:
        """Returns the error for a rejected request head; None if it is accepted."""
        fields = scope["headers"]
        target_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        if fields == self._let_in and target_bytes <= TARGET_BYTES:
            return None
        hosts = [value for name, value in fields if name == b"host"]
        origins = [value for name, value in fields if name == b"origin"]
        wrong = self._of_host(hosts) or _of_origin(origins, hosts[0]) or too_long(target_bytes, fields)
        if wrong is None:
            self._let_in = fields
        return wrong

    def _of_host(self, hosts: Sequence[bytes]) -> OncegateError | None:
        if len(hosts) != 1:
            return BadRequest(f"a request has one header Host, this one has {len(hosts)}; nothing was written")
        name = _name_of(hosts[0])
        if name is None:
            return BadRequest(f"Host is no name: {shortened(hosts[0].decode('latin-1'))}; nothing was written")
        if name in self._names:
            return None
        known = ", ".join(sorted(self._names))
        return Misdirected(f"{name} is no name of this gateway ({known}): the setting `hosts` adds one")


def _of_origin(origins: Sequence[bytes], host: bytes) -> OncegateError | None:
    """Returns ForeignOrigin unless every origin is the called host itself, port included."""
    own = {b"http://" + host.lower(), b"https://" + host.lower()}
    for origin in origins:
        if origin.lower() not in own:
            return ForeignOrigin(f"a page of {shortened(origin.decode('latin-1'))} sends this; nothing was written")
    return None


@lru_cache(64)
def _name_of(host: bytes) -> str | None:
    """Returns the name in `Host` without its port; None if it is invalid."""
    match = _HOST.fullmatch(host.decode("latin-1").lower())
    return None if match is None else match[1]


def too_long(target_bytes: int, fields: Iterable[tuple[bytes, bytes]]) -> OncegateError | None:
    """Returns the error for a target or a header section that is too large; None if both are within their limits."""
    if target_bytes > TARGET_BYTES:
        return TargetTooLong(f"a path with its query of {target_bytes} bytes; at most {TARGET_BYTES} are read")
    size_bytes = sum(len(name) + len(value) + 4 for name, value in fields)
    if size_bytes > HEAD_BYTES:
        return HeadTooLarge(f"header fields of {size_bytes} bytes; at most {HEAD_BYTES} are read")
    return None
