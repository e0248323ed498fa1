"""Hadoop's folder names and settings, with which Spark finds its file systems.

A folder is named by Hadoop's Path: nothing in it is escaped, and a query or fragment belongs to the name. `file:/a%20b`
is the folder "a%20b", not "a b". Source: the constructor Path(String) of Hadoop 3.
"""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from oncegate_spark.spark.pickling import is_connect

DEFAULT_FS = "file:///"  # Hadoop's default if fs.defaultFS is not set


@dataclass(frozen=True)
class CheckpointLocation:
    """A folder of a file system. `scheme`: empty for the default file system."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, location: str) -> "CheckpointLocation":
        """Parses a location as Spark does."""
        scheme, colon, rest = location.partition(":")
        if not colon or "/" in scheme:
            scheme, rest = "", location
        authority = ""
        if rest.startswith("//") and len(rest) > 2:
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
        return cls(scheme, authority, _normal(rest))

    def within(self, default: str) -> "CheckpointLocation":
        """Completes the location from the default file system. `default`: fs.defaultFS."""
        theirs = CheckpointLocation.of(default)
        if not self.scheme:
            return replace(self, scheme=theirs.scheme or "file", authority=self.authority or theirs.authority)
        if not self.authority and self.scheme == theirs.scheme:
            return replace(self, authority=theirs.authority)
        return self

    @property
    def is_local(self) -> bool:
        """True for a local folder."""
        return self.scheme in {"", "file"} and self.authority in {"", "localhost"}

    def __str__(self) -> str:
        """Returns the location as Spark names it."""
        if self.is_local and self.path:
            return self.path
        return f"{self.scheme}:{f'//{self.authority}' if self.authority else ''}{self.path}"


def local_folder(location: str | None) -> Path | None:
    """Returns the checkpoint as a local folder; None if it is elsewhere."""
    parsed = CheckpointLocation.of(location) if location is not None else None
    return Path(parsed.path) if parsed is not None and parsed.is_local else None


def _normal(path: str) -> str:
    """Removes empty parts, "." and "..", as Hadoop does."""
    normal = posixpath.normpath(path) if path else ""
    return normal[1:] if normal.startswith("//") else normal


CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
# Settings needed to open file systems; the other thousand are not read, and may be secret.
STORES = ("fs.defaultFS", "fs.s3a.", "fs.azure.", "fs.gs.", "google.cloud.auth.")
HDFS = ("dfs.nameservices", "dfs.ha.namenodes.", "dfs.namenode.http-address", "dfs.namenode.https-address")
TAKEN = (*STORES, *HDFS, "dfs.http.policy", CHECKPOINTS)
FILES = ("core-site.xml", "hdfs-site.xml")
SPARKS = "spark.hadoop."


def of_session(session: Any) -> dict[str, str]:
    """Returns a session's Hadoop settings: Spark's `spark.hadoop.*`, and those of Hadoop's files.

    Spark Connect does not reveal the server's files; those of this process's environment are used instead.
    """
    if is_connect(session):
        settings = session.conf.getAll
        ours = {name.removeprefix(SPARKS): value for name, value in dict(settings).items() if isinstance(value, str)}
        return {**of_environment(), **_taken(ours)}
    from py4j.protocol import Py4JError

    try:
        writer = session._jvm.java.io.StringWriter()
        session._jsparkSession.sessionState().newHadoopConf().writeXml(writer)
        return of_xml(str(writer.toString()))
    except (Py4JError, AttributeError):  # a session without py4j access, as on some clusters
        return of_environment()


def of_environment() -> dict[str, str]:
    """Returns the settings of Hadoop's files in the folders HADOOP_CONF_DIR, YARN_CONF_DIR or SPARK_CONF_DIR."""
    settings: dict[str, str] = {}
    home = os.environ.get("SPARK_HOME")
    named = [os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")]
    for folder in [*named, str(Path(home) / "conf") if home else None]:
        for file in (Path(folder) / name for name in FILES) if folder else ():
            if file.is_file():
                settings = {**of_xml(file.read_text("utf-8")), **settings}
    return settings


def of_xml(text: str) -> dict[str, str]:
    """Parses a Hadoop configuration file; returns the settings needed to open file systems."""
    # The administrator's own file, or the JVM's output.
    root = ElementTree.fromstring(text)  # noqa: S314
    return _taken({element.findtext("name", ""): element.findtext("value", "") for element in root.iter("property")})


def _taken(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in settings.items() if name.startswith(TAKEN)}
