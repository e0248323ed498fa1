"""Content negotiation: which encoding comes in and which goes out. Headers are read once and remembered."""

from collections.abc import Sequence
from functools import lru_cache

from fastapi import Request

from oncegate.core.errors import NotAcceptable, UnsupportedMedia

JSON = "application/json"
# JSON with the numbers of 64 bits as texts: an answer alone, for whoever names it in Accept.
JSON_TEXTS = f"{JSON}; int64=string"
PACKED = "application/vnd.oncegate.packed"
ARROW = "application/vnd.apache.arrow.stream"

# Texts of headers that are remembered: clients of one kind send the same few.
_REMEMBERED = 64
# A parameter that says what is so anyway.
_CHARSET = "charset=utf-8"


def negotiated(request: Request, reads: Sequence[str], writes: Sequence[str]) -> tuple[str, str]:
    """Finds the body's media type and that of the answer; `reads` empty: no body, "". Raises, in this order,
    UnsupportedMedia, NotAcceptable.

    A caller without a wish is answered in what it sent, if that is among `writes`, else in the first of them.
    """
    media = content_type(request, reads) if reads else ""
    return media, accepted(request, _preferring(media, tuple(writes)) if len(writes) > 1 else writes)


def content_type(request: Request, reads: Sequence[str]) -> str:
    """Finds the body's media type, one of `reads`. Raises UnsupportedMedia, also for compressed bodies."""
    given = request.headers.get("Content-Type", "")
    media = _media(given)
    if media not in reads:
        raise UnsupportedMedia(
            f"Content-Type {given!r} is not read here; send {' or '.join(reads)}", accepted=list(reads)
        )
    if (charset := _charset(given)) not in ("", "utf-8"):
        raise UnsupportedMedia(f"charset {charset!r} is not read here: a body is UTF-8, whatever its kind")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise UnsupportedMedia(f"Content-Encoding {encoding!r} is not read here; send the body as it is")
    return media


def media_of(request: Request) -> str:
    """Returns the body's media type without its parameters, as the caller says it; "" where it says none."""
    return _media(request.headers.get("Content-Type", ""))


@lru_cache(_REMEMBERED)
def _media(given: str) -> str:
    return given.partition(";")[0].strip().lower()


@lru_cache(_REMEMBERED)
def _charset(given: str) -> str:
    """The charset that a Content-Type names; "" where it names none."""
    named = (item.partition("=") for item in given.lower().split(";")[1:])
    return next((value.strip(' "') for name, _, value in named if name.strip() == "charset"), "")


@lru_cache(_REMEMBERED)
def _preferring(media: str, writes: tuple[str, ...]) -> tuple[str, ...]:
    """What can be answered with, that of the body first: it is the answer of a caller without a wish."""
    return tuple(sorted(writes, key=lambda other: other != media))


def accepted(request: Request, writes: Sequence[str]) -> str:
    """Finds which of `writes` the caller likes best, the first where it has no wish; for JSON also JSON_TEXTS.

    Raises NotAcceptable for none.
    """
    header = request.headers.get("Accept")
    if header is None:
        return writes[0]
    best = _best(header, tuple(writes))
    if best is None:
        named = f"only {' or '.join(writes)} can be given, JSON also as {JSON_TEXTS!r}"
        raise NotAcceptable(f"Accept {header!r}: {named}", available=list(writes))
    return best


def accepted_of_any_version(request: Request, writes: Sequence[str]) -> str:
    """Finds which of `writes` the caller likes best, as `accepted`, whatever else it says of each but its quality.

    For formats whose readers name a version and take another one: what comes says which it is.
    """
    header = request.headers.get("Accept")
    if header is None:
        return writes[0]
    best = _best(_without_parameters(header), tuple(writes))
    if best is None:
        raise NotAcceptable(f"Accept {header!r}: only {' or '.join(writes)} can be given", available=list(writes))
    return best


@lru_cache(_REMEMBERED)
def _without_parameters(header: str) -> str:
    ranges = (item.split(";") for item in header.split(","))
    return ",".join(";".join([media, *(p for p in more if p.strip().startswith("q="))]) for media, *more in ranges)


@lru_cache(_REMEMBERED)
def _best(header: str, writes: tuple[str, ...]) -> str | None:
    wishes = [_wish(item) for item in header.split(",")]
    if JSON in writes and any(wish == JSON_TEXTS for wish, _ in wishes):
        at = writes.index(JSON)
        writes = (*writes[:at], JSON_TEXTS, *writes[at:])
    best = max(writes, key=lambda media: _liking(media, wishes))  # the first of equals
    return best if _liking(best, wishes) > 0 else None


def _wish(item: str) -> tuple[str, float]:
    """A range with its parameters, and its quality. A parameter that we do not know is part of another type's name."""
    media, *parameters = (part.strip().lower().replace('"', "") for part in item.split(";"))
    quality = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
    named = [p for p in parameters if p and not p.startswith("q=") and p != _CHARSET]
    try:
        return "; ".join((media, *named)), float(quality)
    except ValueError:
        return media, 0.0


def _liking(media: str, wishes: Sequence[tuple[str, float]]) -> float:
    """The quality of the most specific range that covers `media`; 0 for none."""
    for pattern in (media, media.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for wish, quality in wishes if wish == pattern]
        if qualities:
            return max(qualities)
    return 0.0
