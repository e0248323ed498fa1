"""Reads a checkpoint through the driver's JVM, and finds a query's checkpoint inside foreachBatch.

Only this module uses the names of Spark's internals. If they differ in another version, the location stays unknown, and
nothing fails.
"""

from pathlib import Path
from typing import Any

from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation
from oncegate_spark.spark.checkpoint.stores import LocalDisk, OutOfReach, Store

_MISSING = "java.io.FileNotFoundException"


class SessionFiles:
    """Reads a checkpoint through the session's file system, with the session's permissions."""

    def __init__(self, session: Any, location: str) -> None:
        self._path = session._jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._files = self._root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        self._location = location

    def names(self, folder: str) -> list[str]:
        """Lists the names in a folder. Raises FileNotFoundError and OSError."""
        return [str(status.getPath().getName()) for status in _asked(self._files.listStatus, self._of(folder))]

    def read(self, file: str) -> bytes:
        """Reads a whole file. Raises FileNotFoundError and OSError."""
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
    """Calls the JVM; translates its exceptions to FileNotFoundError and OSError."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return call(*arguments)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        raise (FileNotFoundError if text.startswith(_MISSING) else OSError)(text) from error
    except Py4JError as error:
        raise OSError(str(error)) from error


def open_in(session: Any, location: str) -> Store:
    """Opens a checkpoint through the session's file system; `location`: its full name, from `whole`.

    Raises OutOfReach.
    """
    from py4j.protocol import Py4JError

    parsed = CheckpointLocation.of(location)
    try:
        return LocalDisk(Path(parsed.path)) if parsed.is_local else SessionFiles(session, location)
    except (Py4JError, AttributeError) as error:
        java_error = getattr(error, "java_exception", None)
        why = str(java_error.toString() if java_error else error).partition("\n")[0]
        raise OutOfReach(f"Spark cannot open {location}: {why}") from error


def whole(session: Any, location: str) -> str:
    """Returns the full name of a folder, with its file system, as the session resolves it."""
    from py4j.protocol import Py4JError

    try:
        path = session._jvm.org.apache.hadoop.fs.Path(location)
        files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        return str(files.makeQualified(path).toString())
    except (Py4JError, AttributeError):
        return location  # `open_in` reports the reason


def told_place(session: Any, query: str | None) -> str | None:
    """Returns the location of a running query's checkpoint; None if Spark does not reveal it."""
    from py4j.protocol import Py4JError

    if query is None:
        return None
    try:
        running = session._jsparkSession.sharedState().activeStreamingQueries()
        query_run = running.get(session._jvm.java.util.UUID.fromString(query))
        return None if query_run is None else str(query_run.resolvedCheckpointRoot())
    except (Py4JError, AttributeError):
        return None
