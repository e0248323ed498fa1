"""Which representation comes in and which goes out."""

from collections.abc import Sequence

from fastapi import Request

from oncegate.core.errors import NotAcceptable, UnsupportedMedia

JSON = "application/json"
PACKED = "application/vnd.oncegate.packed"
ARROW = "application/vnd.apache.arrow.stream"


def content_type(request: Request, reads: Sequence[str]) -> str:
    """The body's media type, if it is one of `reads`; compressed bodies are not read."""
    given = request.headers.get("Content-Type", "")
    media = given.partition(";")[0].strip().lower()
    if media not in reads:
        raise UnsupportedMedia(
            f"Content-Type {given!r} is not read here; send {' or '.join(reads)}", accepted=list(reads)
        )
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise UnsupportedMedia(f"Content-Encoding {encoding!r} is not read here; send the body as it is")
    return media


def preferring(media: str, writes: Sequence[str]) -> list[str]:
    """What can be answered with, that of the body first: it is the answer of a caller without a wish."""
    return sorted(writes, key=lambda other: other != media)


def accepted(request: Request, writes: Sequence[str]) -> str:
    """Which of `writes` the caller likes best, the first where it has no wish; NotAcceptable for none."""
    header = request.headers.get("Accept")
    if header is None:
        return writes[0]
    wishes = [_wish(item) for item in header.split(",")]
    best = max(writes, key=lambda media: _liking(media, wishes))  # the first of equals
    if _liking(best, wishes) <= 0:
        raise NotAcceptable(f"Accept {header!r}: only {' or '.join(writes)} can be given", available=list(writes))
    return best


def _wish(item: str) -> tuple[str, float]:
    media, *parameters = (part.strip().lower() for part in item.split(";"))
    quality = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
    try:
        return media, float(quality)
    except ValueError:
        return media, 0.0


def _liking(media: str, wishes: Sequence[tuple[str, float]]) -> float:
    """The quality of the most specific range that covers `media`; 0 for none."""
    for pattern in (media, media.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for wish, quality in wishes if wish == pattern]
        if qualities:
            return max(qualities)
    return 0.0
