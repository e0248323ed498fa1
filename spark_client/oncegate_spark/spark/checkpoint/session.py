"""Reads a checkpoint through the driver's own JVM, and asks it where a query's checkpoint is: inside foreachBatch.

The names of Spark's internals stand here alone; where they are others nothing is known, and nothing fails.
"""

from pathlib import Path
from typing import Any

from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation
from oncegate_spark.spark.checkpoint.stores import LocalDisk, OutOfReach, Store

_MISSING = "java.io.FileNotFoundException"


class SessionFiles:
    """Reads a checkpoint through the file system that the session has for it, with the session's rights."""

    def __init__(self, session: Any, location: str) -> None:
        self._path = session._jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._files = self._root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        self._location = location

    def names(self, folder: str) -> list[str]:
        """The names of what lies in a folder of it. Raises FileNotFoundError, OSError."""
        return [str(status.getPath().getName()) for status in _asked(self._files.listStatus, self._of(folder))]

    def read(self, file: str) -> bytes:
        """A file of it, whole. Raises FileNotFoundError, OSError."""
        stream = _asked(self._files.open, self._of(file))
        try:
            return bytes(_asked(stream.readAllBytes))
        finally:
            stream.close()

    def __str__(self) -> str:
        return self._location

    def _of(self, path: str) -> Any:
        return self._path(self._root, path)


def _asked(call: Any, *arguments: Any) -> Any:
    """What the JVM answers; its exceptions become FileNotFoundError and OSError."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return call(*arguments)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        raise (FileNotFoundError if text.startswith(_MISSING) else OSError)(text) from error
    except Py4JError as error:
        raise OSError(str(error)) from error


def open_in(session: Any, location: str) -> Store:
    """Open a checkpoint as the session does; `location`: its whole name, as `whole` returns it. Raises OutOfReach."""
    from py4j.protocol import Py4JError

    parsed = CheckpointLocation.of(location)
    try:
        return LocalDisk(Path(parsed.path)) if parsed.is_local else SessionFiles(session, location)
    except (Py4JError, AttributeError) as error:
        java_error = getattr(error, "java_exception", None)
        why = str(java_error.toString() if java_error else error).partition("\n")[0]
        raise OutOfReach(f"Spark cannot open {location}: {why}") from error


def whole(session: Any, location: str) -> str:
    """The name of a folder with its file system, as the session takes it."""
    from py4j.protocol import Py4JError

    try:
        path = session._jvm.org.apache.hadoop.fs.Path(location)
        files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        return str(files.makeQualified(path).toString())
    except (Py4JError, AttributeError):
        return location  # `open_in` says why


def told_place(session: Any, query: str | None) -> str | None:
    """Where Spark keeps the checkpoint of a query that runs; None where it does not tell."""
    from py4j.protocol import Py4JError

    if query is None:
        return None
    try:
        running = session._jsparkSession.sharedState().activeStreamingQueries()
        query_run = running.get(session._jvm.java.util.UUID.fromString(query))
        return None if query_run is None else str(query_run.resolvedCheckpointRoot())
    except (Py4JError, AttributeError):
        return None
