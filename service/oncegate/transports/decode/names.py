"""Checks names chosen by callers, and derives their internal forms."""

import hashlib
import re
from base64 import urlsafe_b64decode

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.names import check_length, check_name
from oncegate.engine.requests import Scope
from oncegate.transports.decode.identifiers import shortened

TOPIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")

# 16 bytes of base64url; the last character has two of their bits.
TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")


def topic_name(text: str) -> str:
    """Returns a valid topic name, by Kafka's rule. Raises BadRequest for any other."""
    if TOPIC.fullmatch(text) is None:
        raise BadRequest(
            f"a topic is named with 1 to 249 of A-Z a-z 0-9 . _ - and begins with a letter, digit or _, "
            f"not {shortened(text)}"
        )
    return text


def topic_id_bytes(text: str) -> bytes:
    """Parses a topic id as Kafka's tools print it; returns its 16 bytes. Raises BadRequest."""
    if TOPIC_ID.fullmatch(text) is None:
        raise BadRequest(f"topic_id: Kafka's id of a topic is 22 characters of base64url, not {shortened(text)}")
    return urlsafe_b64decode(f"{text}==")


def owner_bytes(name: str, limits: Limits) -> bytes:
    """Returns the 16 bytes that represent an owner in the ledger: the first 16 of SHA-256("owner " + name).

    The formula is part of the disk format: with another one every taken id would change its owner. Raises BadRequest,
    TooLarge.
    """
    check_name("owner", name, limits)
    return hashlib.sha256(b"owner " + name.encode()).digest()[:16]


def batch_name(app: str, version: str, topic: str, write_id: str, limits: Limits) -> Name:
    """Returns the identity of a named batch. Only `write_id` may be empty: a batch without identity is not written.

    Raises BadRequest if `app` or `version` is empty or `topic` is not a topic name; TooLarge if a name is too long.
    """
    check_name("app", app, limits)
    check_name("version", version, limits)
    check_length("write_id", write_id, limits)
    return Name(app, version, topic_name(topic), write_id)


def scope_of(driver: str | None, batch: int | None) -> Scope | None:
    """Returns the dedup scope of ids: a driver's batch, or None for the whole namespace.

    Raises BadRequest if only one of the two is given. The engine checks the name and the number.
    """
    if driver is None and batch is None:
        return None
    if driver is None or batch is None:
        raise BadRequest("driver and batch go together: ids belong to a batch of a driver, or to the namespace")
    return Scope(driver, batch)
