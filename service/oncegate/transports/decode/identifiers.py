"""Identifiers as text and back. Inside the service they are raw bytes."""

import base64
import binascii
import re
from functools import lru_cache

from oncegate.core.errors import BadRequest
from oncegate.ports import Mark

# Crockford's alphabet: no i, l, o, u, so that a claim id survives being read aloud.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)}
CLAIM_CHARS = 26

TOPIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")
_MARK = re.compile(r"([0-9a-f]{32}):([0-9]{1,20}):([0-9a-f]{16})")
_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


def hex_bytes(text: str, size: int, what: str) -> bytes:
    """`size` bytes from hex digits; dashes are allowed, as UUIDs have them."""
    digits = text.replace("-", "")
    try:
        raw = bytes.fromhex(digits) if len(digits) == 2 * size else b""
    except ValueError:
        raw = b""
    if len(raw) != size:
        raise BadRequest(f"{what}: {2 * size} hex digits are wanted, not {_shown(text)}")
    return raw


def claim_text(claim: bytes) -> str:
    """16 bytes as 26 characters, most significant first, as ULID writes them."""
    number = int.from_bytes(claim)
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (CLAIM_CHARS - 1), -1, -5))


def claim_bytes(text: str) -> bytes:
    """BadRequest unless `text` is a claim id; case does not matter."""
    lower = text.lower()
    if len(lower) != CLAIM_CHARS or lower[0] > "7" or not _VALUES.keys() >= set(lower):
        raise BadRequest(f"a claim id has {CLAIM_CHARS} characters of {ALPHABET}, not {_shown(text)}")
    number = 0
    for letter in lower:
        number = number << 5 | _VALUES[letter]
    return number.to_bytes(16)


@lru_cache(maxsize=16)
def mark_text(mark: Mark) -> str:
    """As `marks` reads it; many answers in a row bring the same one."""
    return f"{mark.ledger.hex()}:{mark.position}:{mark.chain.hex()}"


def marks(header: str) -> list[Mark]:
    """The marks of an `Oncegate-Ledger` header, comma separated."""
    found = []
    for item in filter(None, (part.strip() for part in header.split(","))):
        match = _MARK.fullmatch(item)
        if match is None:
            raise BadRequest(
                f"Oncegate-Ledger: <ledger id, 32 hex>:<position>:<chain, 16 hex> is wanted, not {_shown(item)}"
            )
        found.append(Mark(bytes.fromhex(match[1]), int(match[2]), bytes.fromhex(match[3])))
    return found


def sha256_of(header: str) -> bytes:
    """The SHA-256 of a `Content-Digest` header (RFC 9530); other algorithms beside it are ignored."""
    match = _DIGEST.search(header)
    if match is None:
        raise BadRequest(f"Content-Digest: sha-256=:<base64 of 32 bytes>: is wanted, not {_shown(header)}")
    try:
        return base64.b64decode(match[1], validate=True)
    except binascii.Error as error:
        raise BadRequest(f"Content-Digest: {error}") from error


def topic_name(text: str) -> str:
    """A name that a topic may have: Kafka's rule."""
    if TOPIC.fullmatch(text) is None:
        raise BadRequest(
            f"a topic is named with 1 to 249 of A-Z a-z 0-9 . _ - and begins with a letter, digit or _, "
            f"not {_shown(text)}"
        )
    return text


def _shown(text: str) -> str:
    """What somebody sent, short enough for one line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
