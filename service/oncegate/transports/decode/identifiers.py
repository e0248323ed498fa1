"""Parses and formats identifiers and numbers. Inside the service, identifiers are raw bytes."""

import base64
import binascii
import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from oncegate.core.errors import BadRequest
from oncegate.ports import Mark

# Crockford's alphabet, without i, l, o and u: a claim id can be read aloud.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)}
CLAIM_CHARS = 26
# The text of each ten bits: a claim id is written with 13 look-ups.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_SHIFTS = range(5 * (CLAIM_CHARS - 2), -1, -10)

_MARK = re.compile(r"([0-9a-f]{32}):([0-9]{1,20}):([0-9a-f]{16})")
_NUMBER = re.compile(r"([0-9]{1,20})(?:\.0{1,20})?")
PARTITION = re.compile("[0-9]{1,9}")
_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")
_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


def hex_bytes(text: str, size: int, what: str) -> bytes:
    """Reads `size` bytes from hex digits; dashes are allowed, as UUIDs have them. Raises BadRequest."""
    digits = text.replace("-", "")
    try:
        raw = bytes.fromhex(digits) if len(digits) == 2 * size else b""
    except ValueError:
        raw = b""
    if len(raw) != size:
        raise BadRequest(f"{what}: {2 * size} hex digits are wanted, not {shortened(text)}")
    return raw


def claim_text(claim: bytes) -> str:
    """Formats 16 bytes as 26 characters, most significant first, as in ULIDs."""
    number = int.from_bytes(claim)
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def claim_bytes(text: str) -> bytes:
    """Parses a claim id of 26 characters, case-insensitively, to its 16 bytes. Raises BadRequest."""
    lower = text.lower()
    if len(lower) != CLAIM_CHARS or lower[0] > "7" or not _VALUES.keys() >= set(lower):
        raise BadRequest(f"a claim id has {CLAIM_CHARS} characters of {ALPHABET}, not {shortened(text)}")
    number = 0
    for letter in lower:
        number = number << 5 | _VALUES[letter]
    return number.to_bytes(16)


@lru_cache(maxsize=16)
def mark_text(mark: Mark) -> str:
    """Formats a ledger position as `marks` parses it. Cached: consecutive responses mostly carry the same one."""
    return f"{mark.ledger.hex()}:{mark.position}:{mark.chain.hex()}"


def marks(header: str) -> list[Mark]:
    """Parses the comma-separated ledger positions of an `Oncegate-Ledger` header. Raises BadRequest."""
    found = []
    for item in filter(None, (part.strip() for part in header.split(","))):
        match = _MARK.fullmatch(item)
        if match is None:
            raise BadRequest(
                f"Oncegate-Ledger: <ledger id, 32 hex>:<position>:<chain, 16 hex> is wanted, not {shortened(item)}"
            )
        found.append(Mark(bytes.fromhex(match[1]), int(match[2]), bytes.fromhex(match[3])))
    if not found:  # the caller relies on a position that it has lost
        raise BadRequest("Oncegate-Ledger has no mark: leave it out, or bring the newest one")
    return found


def sha256_of(header: str) -> bytes:
    """Parses the SHA-256 of a `Content-Digest` header (RFC 9530); ignores other algorithms.

    Raises BadRequest if there is no SHA-256.
    """
    match = _DIGEST.search(header)
    if match is None:
        raise BadRequest(f"Content-Digest: sha-256=:<base64 of 32 bytes>: is wanted, not {shortened(header)}")
    try:
        return base64.b64decode(match[1], validate=True)
    except binascii.Error as error:
        raise BadRequest(f"Content-Digest: {error}") from error


def whole_number(text: str, what: str, largest: int = 2**32 - 1, least: int = 0) -> int:
    """Parses a decimal number from `least` to `largest`, without sign and spaces. Raises BadRequest.

    Accepts the integers of JSON Schema: 1023.0 is one, 1_0 is not.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or not least <= int(match[1]) <= largest:
        raise BadRequest(f"{what}: a whole number from {least} to {largest} is wanted, not {text[:40]!r}")
    return int(match[1])


def partition_number(text: str) -> int:
    """Parses a partition number of at most nine digits. Raises BadRequest."""
    if PARTITION.fullmatch(text) is None:
        raise BadRequest(f"partition: a number of one to nine digits is wanted, not {shortened(text)}")
    return int(text)


def percent_decoded(text: str, what: str) -> str:
    """Decodes percent-encoded UTF-8. Raises BadRequest for other bytes: two invalid names could decode to the same."""
    try:
        if not text.isascii() or _BROKEN.search(text):
            raise ValueError
        return unquote_to_bytes(text).decode()
    except ValueError:
        raise BadRequest(f"{what} is not percent-encoded UTF-8, but {shortened(text)}") from None


def shortened(text: str) -> str:
    """Quotes a caller's text for an error message, truncated to 80 characters."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
