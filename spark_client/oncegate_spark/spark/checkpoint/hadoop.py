"""Hadoop's settings, by which Spark finds its file systems: of a session, or of the environment's files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from oncegate_spark.spark.pickling import is_connect

CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
# What stores are opened by; the rest of some thousand settings is none of ours, and may be secret.
STORES = ("fs.defaultFS", "fs.s3a.", "fs.azure.", "fs.gs.", "google.cloud.auth.")
HDFS = ("dfs.nameservices", "dfs.ha.namenodes.", "dfs.namenode.http-address", "dfs.namenode.https-address")
TAKEN = (*STORES, *HDFS, "dfs.http.policy", CHECKPOINTS)
FILES = ("core-site.xml", "hdfs-site.xml")
SPARKS = "spark.hadoop."


def of_session(session: Any) -> dict[str, str]:
    """The settings of a session: Spark's own `spark.hadoop.*`, and what Hadoop's files say to it.

    Through Spark Connect the latter are the server's and not told; those of this process's environment are taken.
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
    except (Py4JError, AttributeError):  # a session that is guarded, as some clusters' are
        return of_environment()


def of_environment() -> dict[str, str]:
    """The settings of Hadoop's files, where HADOOP_CONF_DIR, YARN_CONF_DIR or SPARK_CONF_DIR names their folder."""
    settings: dict[str, str] = {}
    home = os.environ.get("SPARK_HOME")
    named = [os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")]
    for folder in [*named, str(Path(home) / "conf") if home else None]:
        for file in (Path(folder) / name for name in FILES) if folder else ():
            if file.is_file():
                settings = {**of_xml(file.read_text("utf-8")), **settings}
    return settings


def of_xml(text: str) -> dict[str, str]:
    """What a file of Hadoop's says, as far as stores are opened by it."""
    # The administrator's own file, or the JVM's word.
    root = ElementTree.fromstring(text)  # noqa: S314
    return _taken({element.findtext("name", ""): element.findtext("value", "") for element in root.iter("property")})


def _taken(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in settings.items() if name.startswith(TAKEN)}
