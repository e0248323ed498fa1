"""Reads a query's checkpoint when a batch begins: the digest of the batch's input."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Input:
    """Names the input of a batch: the SHA-256 of the offset-log entries of batch `number` and of the one before it, in
    hexadecimal.

    Byte for byte the same when a batch is honestly replayed; another after a checkpoint was restored or deleted.
    """

    number: int
    digest: str
    previous: str | None


@dataclass(frozen=True)
class DriverNotes:
    """Carries to the tasks what only the driver knows when a batch begins. `marks`: the newest, per namespace."""

    input: Input | None = None
    checkpoint: str | None = None
    run: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The notes as one text, which Spark carries as a local property."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None) -> "DriverNotes | None":
        """The notes of such a text; None for None."""
        if not text:
            return None
        notes = json.loads(text)
        read = Input(**notes["input"]) if notes["input"] else None
        return cls(read, notes["checkpoint"], notes["run"], notes["marks"])


def local_folder(location: str | None) -> Path | None:
    """The checkpoint as a folder of this machine; None when it is none."""
    if location is None:
        return None
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location)


def read_input(location: str | None) -> Input | None:
    """Read the newest entry of the offset log: when a batch begins, it is that batch's. None where it cannot be read.

    To be called on the driver when the batch begins, never later: a zombie would find its successor's entry.
    """
    folder = local_folder(location)
    offsets = folder / "offsets" if folder else None
    numbers = sorted(int(file.name) for file in offsets.glob("*") if file.name.isdigit()) if offsets else []
    if offsets is None or not numbers:
        return None
    number = numbers[-1]
    digest = _digest(offsets / str(number))
    return (
        Input(number, digest, _digest(offsets / str(number - 1)) if number - 1 in numbers else None) if digest else None
    )


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
