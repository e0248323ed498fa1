"""Names a folder as Spark does, by Hadoop's Path: nothing in it is escaped, and a query or fragment is part of it.

Source: the constructor Path(String) of Hadoop 3. `file:/a%20b` is the folder "a%20b", not "a b".
"""

import posixpath
from dataclasses import dataclass, replace
from pathlib import Path

DEFAULT_FS = "file:///"  # Hadoop's own, where nothing sets fs.defaultFS


@dataclass(frozen=True)
class CheckpointLocation:
    """Names a folder of a file system. `scheme`: empty for the default file system."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, location: str) -> "CheckpointLocation":
        """The place that a text names to Spark."""
        scheme, colon, rest = location.partition(":")
        if not colon or "/" in scheme:
            scheme, rest = "", location
        authority = ""
        if rest.startswith("//") and len(rest) > 2:
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
        return cls(scheme, authority, _normal(rest))

    def within(self, default: str) -> "CheckpointLocation":
        """The place with what it leaves out taken from the default file system. `default`: fs.defaultFS."""
        theirs = CheckpointLocation.of(default)
        if not self.scheme:
            return replace(self, scheme=theirs.scheme or "file", authority=self.authority or theirs.authority)
        if not self.authority and self.scheme == theirs.scheme:
            return replace(self, authority=theirs.authority)
        return self

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return self.scheme in {"", "file"} and self.authority in {"", "localhost"}

    def __str__(self) -> str:
        """The text that names this place to Spark."""
        if self.is_local and self.path:
            return self.path
        return f"{self.scheme}:{f'//{self.authority}' if self.authority else ''}{self.path}"


def local_folder(location: str | None) -> Path | None:
    """The checkpoint as a folder of this machine; None when it is none."""
    parsed = CheckpointLocation.of(location) if location is not None else None
    return Path(parsed.path) if parsed is not None and parsed.is_local else None


def _normal(path: str) -> str:
    """The path without empty parts, "." and "..", as Hadoop keeps it."""
    normal = posixpath.normpath(path) if path else ""
    return normal[1:] if normal.startswith("//") else normal
